//! Taking a chunk: what is free, whose turn it is, and how much of it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::ChunkRules;
use super::part::{Part, Row, told};
use crate::engine::limit::Limit;
use crate::engine::time::Timestamp;

/// What a process has of a scope, and what it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// By the process's clock, which is never ahead of the store's; before the table is read.
    pub asked_at: Timestamp,
    /// One per limit that is leased, in the order of the scope's.
    pub wanted: Vec<Wanted>,
}

/// The same of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Which.
    pub limit: Limit,
    /// Tokens that it holds.
    pub held: u64,
    /// Attempts in flight.
    pub in_flight: u64,
    /// What has ended: until when it counts, by the process's clock, and how much.
    pub used: Vec<(Timestamp, u64)>,
    /// What waits, by lane, foreground first.
    pub needs: [u64; 2],
    /// The most that one of those that go next costs.
    pub least: u64,
    /// What it would like to have at hand beyond that.
    pub spare: u64,
    /// Since when it has been waiting in vain.
    pub since: Option<Timestamp>,
    /// What is to be kept back from background.
    pub reserve: u64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The process's part from now on. What is gained holds only once this is written.
    pub part: Part,
    /// What was gained: one per limit, in the order of [`Ask::wanted`].
    pub gained: Vec<Gained>,
    /// Whose parts have come to their end, and need not be kept.
    pub over: Vec<u64>,
    /// When all parts have come to their end.
    pub ends_at: Timestamp,
}

/// What was gained of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gained {
    /// Tokens, and from when on each may be used: what is used elsewhere has left the window by then.
    pub tokens: Vec<(Timestamp, u64)>,
    /// Until when these and those that were held may be used, by the process's clock; `None`: nothing is prolonged.
    pub until: Option<Timestamp>,
    /// What was wanted and is not there.
    pub missing: u64,
    /// Since when it has been waiting in vain.
    pub since: Option<Timestamp>,
    /// What the part says is held and in flight.
    pub stated: u64,
}

/// Takes a chunk of every limit. `now` is the store's time when it was asked for the parts, `me` the process that asks.
#[must_use]
pub fn take(
    now: Timestamp,
    (me, ask): (u64, &Ask),
    parts: &BTreeMap<u64, Part>,
    failover_at: Option<Timestamp>,
    rules: &ChunkRules,
) -> Taken {
    let others: Vec<&Part> = parts.iter().filter(|(member, _)| **member != me).map(|(_, part)| part).collect();
    let (mut rows, mut gained) = (Vec::new(), Vec::new());
    for wanted in &ask.wanted {
        let mut one = One { now, wanted, behind: now.since(ask.asked_at), others: &others, rules, floor: 0 };
        one.floor = one.floor();
        let window = wanted.limit.window();
        let silent = rules.is_silent(failover_at, window, now);
        let (tokens, count) = if silent { (Vec::new(), 0) } else { one.tokens() };
        let [foreground, background] = one.needs();
        let wants = [foreground.saturating_sub(count), background.saturating_sub(count.saturating_sub(foreground))];
        let missing = wants[0].saturating_add(wants[1]);
        // Who has got something is the last in line again.
        let since = match (missing, count) {
            (0, _) => None,
            (_, 0) => Some(wanted.since.unwrap_or(now)),
            _ if one.floor > 0 => Some(now.before(window.saturating_sub(one.pause()))),
            _ => Some(now),
        };
        let stated = wanted.held.saturating_add(wanted.in_flight).saturating_add(count);
        rows.push(Row {
            unit: wanted.limit.unit(),
            window: u64::try_from(window.as_millis()).unwrap_or(u64::MAX),
            held: stated,
            held_until: now.after(rules.counts_for(window)),
            used: told(now, &one.own(), window),
            wants,
            least: wanted.least,
            since,
            reserve: wanted.reserve,
        });
        let until = (!silent).then(|| ask.asked_at.after(rules.ttl));
        gained.push(Gained { tokens, until, missing, since, stated });
    }
    // Who waits has a place in the line that counts for a while, too.
    let is_over = |part: &Part| part.ends_at() < now && now.since(part.at) > rules.ttl;
    let over = |(member, part): (&u64, &Part)| (*member != me && is_over(part)).then_some(*member);
    let part = Part { at: now, rows };
    let ends_at = others.iter().map(|part| part.ends_at()).fold(part.ends_at(), Ord::max);
    Taken { part, gained, over: parts.iter().filter_map(over).collect(), ends_at }
}

/// Another process that waits for the same.
struct Rival {
    wants: u64,
    /// It has foreground where the one that asks has none.
    first: bool,
    least: u64,
    since: Option<Timestamp>,
}

/// The question about one limit.
struct One<'a> {
    now: Timestamp,
    wanted: &'a Wanted,
    /// How far the process's clock may be behind the store's.
    behind: Duration,
    others: &'a [&'a Part],
    rules: &'a ChunkRules,
    /// So much of background's needs is asked for as if it were foreground's.
    floor: u64,
}

impl One<'_> {
    /// Where foreground of others has left nothing to this process's background for longer than a window, one operation
    /// goes in foreground's line.
    fn floor(&self) -> u64 {
        let [foreground, background] = self.wanted.needs;
        let starved = |since: Timestamp| self.now.since(since) > self.wanted.limit.window();
        let due = foreground == 0 && self.wanted.since.is_some_and(starved) && self.rivals().any(|rival| rival.first);
        if due { self.wanted.least.min(background) } else { 0 }
    }

    /// Until the next one may, all processes together by the floor's part of the limit.
    fn pause(&self) -> Duration {
        let limit = &self.wanted.limit;
        let starving = 1 + self
            .others
            .iter()
            .flat_map(|part| &part.rows)
            .filter(|row| row.is_of(limit) && row.wants[1] > 0)
            .count();
        let spent =
            u128::from(self.wanted.least).saturating_mul(starving as u128).saturating_mul(limit.window().as_micros());
        let part = u128::from(self.rules.background_floor.floor_of(limit.amount()).max(1));
        Duration::from_micros(u64::try_from(spent / part).unwrap_or(u64::MAX))
    }

    /// What is asked for by the rules of each lane.
    fn needs(&self) -> [u64; 2] {
        let [foreground, background] = self.wanted.needs;
        [foreground.saturating_add(self.floor), background.saturating_sub(self.floor)]
    }

    fn own(&self) -> Vec<(Timestamp, u64)> {
        self.wanted.used.iter().map(|(until, count)| (until.after(self.behind), *count)).collect()
    }

    /// What others want and may still have use for, those that were heard of within the time of a chunk; foreground is
    /// asked for before anybody's background.
    fn rivals(&self) -> impl Iterator<Item = Rival> {
        let recent = |part: &&&Part| self.now.since(part.at) <= self.rules.ttl;
        let rows = self.others.iter().filter(recent).flat_map(|part| &part.rows);
        let foreground = self.needs()[0] > 0;
        let rival = move |row: &Row| Rival {
            wants: if foreground { row.wants[0] } else { row.wants[0].saturating_add(row.wants[1]) },
            first: !foreground && row.wants[0] > 0,
            least: row.least,
            since: row.since,
        };
        rows.filter(|row| row.is_of(&self.wanted.limit)).map(rival).filter(|rival| rival.wants > 0)
    }

    /// The tokens there are for this process, by the instant from which on they may be used, and how many.
    fn tokens(&self) -> (Vec<(Timestamp, u64)>, u64) {
        let (wanted, now) = (self.wanted, self.now);
        let own = wanted.held.saturating_add(wanted.in_flight);
        let used = told(now, &self.own(), wanted.limit.window());
        let mine = used.iter().map(|(after, count)| (now.after(Duration::from_millis(*after)), *count));
        let others = self.others.iter().flat_map(|part| part.charges(&wanted.limit));
        let mut charges: Vec<(Timestamp, u64)> = mine.chain(others).filter(|(until, _)| *until > now).collect();
        charges.sort_unstable();
        let counting: i128 = charges.iter().map(|(_, count)| i128::from(*count)).sum();
        let free = i128::from(wanted.limit.amount()) - counting - i128::from(own);
        let ahead = now.after(self.rules.ahead());
        charges.retain(|(until, _)| *until <= ahead);
        let coming: i128 = charges.iter().map(|(_, count)| i128::from(*count)).sum();

        let count = self.count(free, free + coming);
        // Those who wait longer have what is free first.
        let mut level = free - i128::from(self.set_aside(free + coming));
        let (mut tokens, mut given) = (Vec::new(), 0_u64);
        for (from, freed) in [(now, 0)].into_iter().chain(charges) {
            level += i128::from(freed);
            let there = u64::try_from(level.max(0)).unwrap_or(u64::MAX).min(count);
            if there > given {
                tokens.push((from, there - given));
                given = there;
            }
        }
        (tokens, given)
    }

    /// What each gets at a time while there is not enough for all.
    fn fair(&self, room: i128) -> u64 {
        let all = 1 + self.rivals().count() as u64;
        u64::try_from(room.max(0)).unwrap_or(u64::MAX).div_ceil(all).max(1)
    }

    /// What is left to those who have been waiting for longer, and to foreground.
    fn set_aside(&self, room: i128) -> u64 {
        let (fair, since) = (self.fair(room), self.wanted.since.unwrap_or(self.now));
        let before = self.rivals().filter(|rival| rival.first || rival.since.is_some_and(|other| other < since));
        before.map(|rival| rival.wants.min(rival.least.max(fair))).fold(0, u64::saturating_add)
    }

    /// How much to take: of `room`, what is free now and will be soon; of `free`, what is now.
    fn count(&self, free: i128, room: i128) -> u64 {
        let wanted = self.wanted;
        let [foreground, background] = self.needs();
        let kept = self.others.iter().flat_map(|part| &part.rows).filter(|row| row.is_of(&wanted.limit));
        let reserve = kept.map(|row| row.reserve).max().unwrap_or(0).max(wanted.reserve);
        let least = |room: i128| u64::try_from(room.max(0)).unwrap_or(u64::MAX);
        let left = least(room - i128::from(self.set_aside(room)));
        let alone = self.rivals().next().is_none();
        let turn = if alone { u64::MAX } else { self.fair(room).max(wanted.least) };
        let first = foreground.min(left).min(turn);
        // A cost above what the reserve leaves goes when there is room for it all the same: it would starve otherwise.
        let behind = left.saturating_sub(reserve.max(first));
        let behind = if foreground == 0 && background > 0 && wanted.least > 0 && self.is_idle(free, reserve) {
            behind.max(wanted.least.min(left))
        } else {
            behind
        };
        let count = first + background.min(behind).min(turn - first);
        let needed = foreground.saturating_add(background);
        if count < needed {
            // Less than one operation is of no use, and would be missing elsewhere.
            return if count < wanted.least.saturating_sub(wanted.held).min(needed) { 0 } else { count };
        }
        let idle = least(free - i128::from(reserve) - i128::from(count)) / 2;
        if alone { count.saturating_add(wanted.spare.min(idle)) } else { count }
    }

    /// Whether the reserve is all that is in the way of a single large cost: nothing else is used.
    fn is_idle(&self, free: i128, reserve: u64) -> bool {
        let amount = self.wanted.limit.amount();
        self.wanted.least > amount.saturating_sub(reserve) && free >= i128::from(amount)
    }
}
