//! What limits come to: how fast emails leave, and which limit holds them back from when on.
//!
//! A limit of a long window does not bind at first: at 30 a minute, 10,000 recipients a day last 5 h 33 min. So each
//! limit is set against the pace that the shorter windows already force.
//!
//! Not counted: latency (concurrency divided by it is one more bound), the clock margin of a tenth of a percent, and
//! what the lanes keep back.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::Config;
use super::source::{Source, item};
use crate::engine::policy::ScopePolicy;
use crate::engine::{Cost, Limit, ScopeKind, Unit};

/// So many emails in so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rate {
    /// Emails.
    pub emails: u64,
    /// In this long; not zero.
    pub per: Duration,
}

impl Rate {
    /// Emails in `span` at this rate.
    #[must_use]
    pub fn in_span(&self, span: Duration) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "shown to people, with three digits")]
        let emails = self.emails as f64;
        emails * span.as_secs_f64() / self.per.as_secs_f64()
    }

    fn is_below(&self, other: &Self) -> bool {
        u128::from(self.emails) * other.per.as_micros() < u128::from(other.emails) * self.per.as_micros()
    }

    /// How long `emails` take at this rate; `None`: for ever.
    fn time_for(&self, emails: u64) -> Option<Duration> {
        let micros = (u128::from(emails) * self.per.as_micros()).checked_div(u128::from(self.emails))?;
        Some(Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)))
    }
}

/// When a limit holds a steady campaign back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Binds {
    /// As soon as its amount is used, with nothing before it.
    AtOnce,
    /// After so long at the pace that the shorter windows force.
    After {
        /// How long.
        time: Duration,
        /// At this pace.
        pace: Rate,
    },
    /// Never: shorter windows are slower.
    Never,
    /// An email is never sent: it costs more than the limit can hold.
    Forever,
}

/// One limit, and what it comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitFacts {
    /// The limit.
    pub limit: Limit,
    /// Where it came from.
    pub source: Source,
    /// What it allows by itself; `None`: the email costs nothing there, so it never counts.
    pub rate: Option<Rate>,
    /// When it binds.
    pub binds: Binds,
}

/// One scope: its limits with the source of each value, and what they come to together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeFacts {
    /// Of which kind.
    pub kind: ScopeKind,
    /// The mailbox with a table of its own; `None`: every other mailbox, every tenant, the application.
    pub mailbox: Option<Arc<str>>,
    /// Its limits, shortest window first.
    pub limits: Vec<LimitFacts>,
    /// Where the list of limits came from, also when it is empty.
    pub limits_source: Source,
    /// Attempts in flight at once.
    pub concurrency: Option<NonZeroU32>,
    /// Where that came from.
    pub concurrency_source: Source,
    /// What a campaign keeps up for good; `None`: nothing limits it.
    pub sustained: Option<Rate>,
}

impl ScopeFacts {
    /// The limit that binds in the long run.
    #[must_use]
    pub fn binding(&self) -> Option<&LimitFacts> {
        self.limits.iter().rev().find(|facts| facts.binds != Binds::Never)
    }
}

impl Config {
    /// What the limits of every scope come to, for emails that cost `email` each.
    #[must_use]
    pub fn facts(&self, email: &Cost) -> Vec<ScopeFacts> {
        let mut facts = vec![self.scope_facts(ScopeKind::Mailbox, None, &self.mailbox, email)];
        for id in self.mailboxes.keys() {
            let policy = self.mailbox_policy(id);
            facts.push(self.scope_facts(ScopeKind::Mailbox, Some(id), &policy.scope, email));
        }
        facts.push(self.scope_facts(ScopeKind::Tenant, None, &self.tenant, email));
        facts.push(self.scope_facts(ScopeKind::Application, None, &self.application, email));
        facts
    }

    /// What is allowed and may still surprise.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let one = self.facts(&Cost::email(1, 0));
        for facts in &one {
            let name = facts.mailbox.as_ref().map_or_else(|| facts.kind.to_string(), |id| format!("mailbox {id}"));
            for LimitFacts { limit, .. } in &facts.limits {
                let (key, most, shown) = match limit.unit() {
                    Unit::Recipients => {
                        let most = u64::from(self.submit.recipients_max);
                        ("submit.recipients_max", most, most.to_string())
                    }
                    Unit::Bytes => {
                        ("submit.size_max", self.submit.size_max, super::human::show_size(self.submit.size_max))
                    }
                    _ => continue,
                };
                if most > limit.amount() {
                    notes.push(format!(
                        "{name}: `{limit}` is below {key} = {shown}; emails above the limit are refused at submit"
                    ));
                }
            }
            if facts.kind == ScopeKind::Mailbox && facts.limits.is_empty() {
                notes.push(format!("{name}: no limits; only the provider's refusals slow it down"));
            }
        }
        notes
    }

    fn scope_facts(
        &self,
        kind: ScopeKind,
        mailbox: Option<&Arc<str>>,
        scope: &ScopePolicy,
        email: &Cost,
    ) -> ScopeFacts {
        let source = |key: &str| match mailbox {
            Some(id) => self.mailbox_source(id, key),
            None => self.source(&format!("{kind}.{key}")),
        };
        let list = source("limits");
        // The items of a list that a text wrote have lines of their own.
        let of_item = |index: usize| match list {
            Source::Default | Source::Program | Source::Override { line: None } => list.clone(),
            _ => source(&item("limits", index)),
        };
        let limits = scope.limits.iter().enumerate();
        let mut limits: Vec<(Limit, Source)> = limits.map(|(index, limit)| (*limit, of_item(index))).collect();
        limits.sort_by_key(|(limit, _)| limit.window());
        let mut sustained = None;
        let judged = limits.into_iter().map(|(limit, source)| judge(limit, source, email, &mut sustained)).collect();
        ScopeFacts {
            kind,
            mailbox: mailbox.cloned(),
            limits: judged,
            concurrency: scope.concurrency,
            concurrency_source: source("concurrency"),
            limits_source: list,
            sustained,
        }
    }
}

/// Sets `limit` against the pace so far, and slows the pace if the limit is slower.
fn judge(limit: Limit, source: Source, email: &Cost, pace: &mut Option<Rate>) -> LimitFacts {
    let Some(emails) = limit.amount().checked_div(email.of(limit.unit())) else {
        return LimitFacts { limit, source, rate: None, binds: Binds::Never };
    };
    let rate = Rate { emails, per: limit.window() };
    let binds = match *pace {
        _ if emails == 0 => Binds::Forever,
        None => Binds::AtOnce,
        Some(before) if rate.is_below(&before) => {
            before.time_for(emails).map_or(Binds::Never, |time| Binds::After { time, pace: before })
        }
        Some(_) => Binds::Never,
    };
    if binds != Binds::Never {
        *pace = Some(rate);
    }
    LimitFacts { limit, source, rate: Some(rate), binds }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(limits: &[&str], email: &Cost) -> ScopeFacts {
        let parse = |text: &&str| text.parse::<Limit>().expect("the test's limits are well formed");
        let config = Config::default().mailbox_limits(limits.iter().map(parse));
        config.facts(email).into_iter().next().expect("the default mailbox comes first")
    }

    #[test]
    fn ten_thousand_a_day_bind_after_five_hours_and_a_half_at_thirty_a_minute() {
        let facts = facts(&["10_000 recipients / 24h", "30 requests / 1m"], &Cost::email(1, 0));
        assert_eq!(facts.limits[0].binds, Binds::AtOnce);
        let pace = Rate { emails: 30, per: Duration::from_secs(60) };
        assert_eq!(facts.limits[1].binds, Binds::After { time: Duration::from_secs(20_000), pace });
        let sustained = facts.sustained.expect("it is limited");
        assert_eq!((sustained.emails, sustained.per), (10_000, Duration::from_secs(86_400)));
        assert!((sustained.in_span(Duration::from_secs(60)) - 6.944).abs() < 0.001);
    }

    #[test]
    fn a_longer_window_that_allows_more_never_binds() {
        let facts = facts(&["30 requests / 1m", "10_000 requests / 10m"], &Cost::email(1, 0));
        assert_eq!(facts.limits[1].binds, Binds::Never);
        assert_eq!(facts.binding().map(|facts| facts.limit.amount()), Some(30));
    }

    #[test]
    fn an_equal_pace_does_not_bind_twice() {
        let facts = facts(&["30 requests / 1m", "1_800 requests / 1h"], &Cost::email(1, 0));
        assert_eq!(facts.limits[1].binds, Binds::Never);
    }

    #[test]
    fn an_email_above_a_limit_is_never_sent() {
        let at_limit = facts(&["20 recipients / 1h"], &Cost::email(20, 0));
        assert_eq!(at_limit.limits[0].binds, Binds::AtOnce);
        let above = facts(&["20 recipients / 1h"], &Cost::email(21, 0));
        assert_eq!(above.limits[0].binds, Binds::Forever);
    }

    #[test]
    fn a_unit_that_the_email_does_not_use_never_binds() {
        let facts = facts(&["150MB / 5m"], &Cost::ONE_REQUEST);
        assert_eq!((facts.limits[0].rate, facts.sustained), (None, None));
    }
}
