//! The budget of a scope that several processes spend: besides its own windows a send needs a token of each limit that
//! is leased.

use super::admit::{ReadyAt, exactly};
use super::{Budget, Rules};
use crate::engine::chunks::{Allowance, Ask, ChunkRules, Gained, Rest, Wanted};
use crate::engine::constraint::Wall;
use crate::engine::cost::{Cost, CostSum};
use crate::engine::limit::Limit;
use crate::engine::time::Timestamp;

/// What waits for the tokens of a scope.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    /// By lane, foreground first.
    pub(crate) lanes: [CostSum; 2],
    /// The most that one of those costs that go first, in each unit.
    pub(crate) most: CostSum,
}

/// What is to be done about the tokens of a scope.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Nothing,
    Exchange(Box<Ask>),
}

impl Budget {
    /// From now on other processes spend of this budget, too.
    pub(crate) fn lease(&mut self, rules: ChunkRules) {
        if self.limits.iter().any(Allowance::leases) {
            self.allowance = Some(Box::new(Allowance::new(rules, self.limits.len())));
        }
    }

    /// The same budget as if this process were the only one.
    pub(crate) fn unlease(&mut self) {
        self.allowance = None;
    }

    pub(crate) fn allowance(&self) -> Option<&Allowance> {
        self.allowance.as_deref()
    }

    pub(crate) fn allowance_mut(&mut self) -> Option<&mut Allowance> {
        self.allowance.as_deref_mut()
    }

    /// Until when what is granted now at this cost has to leave; `None`: it needs no tokens.
    pub(crate) fn leaves_by(&self, cost: &Cost) -> Option<Timestamp> {
        let allowance = self.allowance.as_ref()?;
        let needed = |(_, limit): &(usize, &Limit)| Allowance::leases(limit) && cost.of(limit.unit()) > 0;
        self.limits.iter().enumerate().filter(needed).map(|(index, _)| allowance.held(index).1).min()
    }

    pub(super) fn tokens(
        &self,
        allowance: &Allowance,
        now: Timestamp,
        cost: &Cost,
        put: &mut impl FnMut(Wall, ReadyAt),
    ) {
        for (index, limit) in self.limits.iter().enumerate().filter(|(_, limit)| Allowance::leases(limit)) {
            let units = cost.of(limit.unit());
            let at = if units == 0 { now } else { allowance.earliest(now, index, units) };
            if at > now {
                let seconds = u32::try_from(limit.window().as_secs()).unwrap_or(u32::MAX);
                put(Wall::Part { unit: limit.unit(), seconds }, exactly(at));
            }
        }
    }

    /// Looks whether the table of all processes is to be asked; `needs`: what waits for tokens, `None`: nothing waits at all.
    pub(crate) fn look_at_tokens(&mut self, now: Timestamp, needs: Option<&Needs>, rules: Rules<'_>) -> Step {
        let Some(mut allowance) = self.allowance.take() else { return Step::Nothing };
        let go = match needs {
            Some(needs) if self.is_short(&allowance, now, needs) => true,
            _ => allowance.rest(now) == Rest::HandBack,
        };
        if !go && needs.is_some() {
            allowance.put_off(now);
        }
        let step = if go {
            let ask = Box::new(self.ask(&mut allowance, now, needs.unwrap_or(&Needs::default()), rules));
            allowance.begin(&ask);
            Step::Exchange(ask)
        } else {
            Step::Nothing
        };
        self.allowance = Some(allowance);
        step
    }

    /// Whether tokens are missing, or will be before it is asked for the next time.
    fn is_short(&self, allowance: &Allowance, now: Timestamp, needs: &Needs) -> bool {
        self.limits.iter().enumerate().filter(|(_, limit)| Allowance::leases(limit)).any(|(index, limit)| {
            let unit = limit.unit();
            let needed = needs.lanes[0].of(unit).saturating_add(needs.lanes[1].of(unit));
            let (held, until) = allowance.held(index);
            needed > 0 && (held < needed || until < now.after(allowance.chunk()))
        })
    }

    fn ask(&self, allowance: &mut Allowance, now: Timestamp, needs: &Needs, rules: Rules<'_>) -> Ask {
        let leased = self.limits.iter().enumerate().filter(|(_, limit)| Allowance::leases(limit));
        let wanted = leased.map(|(index, limit)| {
            let (unit, spare) = (limit.unit(), allowance.spare(limit));
            let least = needs.most.of(unit).min(limit.amount());
            let foreground = needs.lanes[0].of(unit).min(limit.amount());
            // Background is paced anyway: what it can use until the next time, and no more.
            let background = needs.lanes[1].of(unit).min(spare.saturating_mul(2).max(least));
            let all = foreground.saturating_add(background);
            let spare = if all > 0 { spare } else { 0 };
            let (held, since) = allowance.let_go(index, all.saturating_add(spare), least);
            let first = foreground.saturating_sub(held);
            let second = background.saturating_sub(held.saturating_sub(foreground));
            let spare = spare.saturating_sub(held.saturating_sub(all));
            let (row, amount) = (self.rows.get(index), self.amount(now, index));
            Wanted {
                limit: *limit,
                held,
                in_flight: row.map_or(0, |row| row.ledger.in_flight()),
                used: row.map(|row| row.ledger.counting().collect()).unwrap_or_default(),
                needs: [first, second],
                least,
                spare,
                since: since.filter(|_| first + second > 0),
                reserve: row.map_or(0, |row| row.share.reserve(now, amount, limit, rules.lanes)),
            }
        });
        Ask { asked_at: now, wanted: wanted.collect() }
    }

    /// The answer to an ask.
    pub(crate) fn on_tokens(&mut self, now: Timestamp, asked_at: Timestamp, gained: Option<Vec<Gained>>) {
        let leased = self.limits.iter().enumerate().filter(|(_, limit)| Allowance::leases(limit));
        let gained: Option<Vec<(usize, Gained)>> =
            gained.map(|gained| leased.map(|(index, _)| index).zip(gained).collect());
        if let Some(allowance) = &mut self.allowance {
            allowance.on_answer(now, asked_at, gained.as_deref());
        }
    }
}
