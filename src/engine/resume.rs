//! A wave of resumptions: what waited through one cooldown or hold goes on, one after the other.
//!
//! The pacer is the spread: where a scope has a limit on requests, its ledger and the ramp let the backlog go at the
//! admitted rate, and the wave only says over how long. A scope without such a limit has no pacer, and everything
//! that waited for it would wake at one instant; there the wave itself lays the resumptions out, over at least
//! [`ResumePolicy::spread`](crate::engine::policy::ResumePolicy::spread).
//!
//! Not promised: that nothing else goes meanwhile. What is submitted during a wave takes its turn among the rest.

use std::time::Duration;

use super::event::Event;
use super::scope::Scope;
use super::time::Timestamp;

/// What keeps a wave from going all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pacer {
    /// The scope's own budget; by what is known now, the last one goes at this instant at the earliest.
    Budget { last_at: Timestamp },
    /// Nothing but the wave, which lays them out over this span.
    Wave { over: Duration },
}

/// A wave that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wave {
    count: u32,
    left: u32,
    /// The span between two of them where nothing else paces; zero where something does.
    gap: Duration,
    began_at: Timestamp,
    next_at: Timestamp,
}

impl Wave {
    /// Lays out `count` resumptions from `now` on. One operation alone is no wave.
    pub(crate) fn plan(scope: &Scope, now: Timestamp, count: u32, pacer: Pacer) -> Option<(Self, Event)> {
        if count < 2 {
            return None;
        }
        let (gap, last_at) = match pacer {
            Pacer::Budget { last_at } => (Duration::ZERO, last_at.max(now)),
            Pacer::Wave { over } => (over / count, now.after((over / count).saturating_mul(count - 1))),
        };
        let spread = last_at.since(now);
        let event = Event::ResumePlanned { scope: scope.clone(), count, spread, first_at: now, last_at };
        Some((Self { count, left: count, gap, began_at: now, next_at: now }, event))
    }

    /// When the next of them may go; `None`: now, as far as the wave is concerned.
    pub(crate) fn wait(&self, now: Timestamp) -> Option<Timestamp> {
        (self.next_at > now).then_some(self.next_at)
    }

    /// One of them went on. The event, when it was the last.
    pub(crate) fn on_start(&mut self, scope: &Scope, now: Timestamp) -> Option<Event> {
        self.next_at = self.next_at.max(now).after(self.gap);
        self.left = self.left.saturating_sub(1);
        let (count, first_at) = (self.count, self.began_at);
        let finished = || Event::ResumeFinished {
            scope: scope.clone(),
            count,
            spread: now.since(first_at),
            first_at,
            last_at: now,
        };
        (self.left == 0).then(finished)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Duration = Duration::from_secs(30);

    #[test]
    fn a_paced_scope_is_told_its_spread_and_left_to_its_pacer() {
        let last_at = Timestamp::EPOCH.after(Duration::from_secs(480));
        let pacer = Pacer::Budget { last_at };
        let (wave, event) = Wave::plan(&Scope::Application, Timestamp::EPOCH, 240, pacer).expect("a wave");
        let Event::ResumePlanned { spread, count: 240, .. } = event else { panic!("{event:?}") };
        assert_eq!(spread, Duration::from_secs(480));
        assert_eq!(wave.wait(Timestamp::EPOCH), None);
    }

    #[test]
    fn an_unpaced_scope_lets_them_go_at_distinct_instants_over_the_base() {
        let (mut wave, _) =
            Wave::plan(&Scope::Application, Timestamp::EPOCH, 3, Pacer::Wave { over: BASE }).expect("a wave");
        let mut now = Timestamp::EPOCH;
        let mut instants = Vec::new();
        while !wave.is_over() {
            if let Some(at) = wave.wait(now) {
                assert_eq!(wave.wait(at.before(Duration::from_micros(1))), Some(at), "not a microsecond early");
                now = at;
            }
            instants.push(now.as_micros() / 1_000_000);
            let event = wave.on_start(&Scope::Application, now);
            assert_eq!(event.is_some(), wave.is_over());
            if let Some(event) = event {
                let Event::ResumeFinished { count: 3, spread, first_at, last_at, .. } = event else {
                    panic!("{event:?}")
                };
                assert_eq!((spread, first_at, last_at), (now.since(Timestamp::EPOCH), Timestamp::EPOCH, now));
            }
        }
        assert_eq!(instants, [0, 10, 20]);
    }

    #[test]
    fn one_operation_is_no_wave() {
        assert_eq!(Wave::plan(&Scope::Application, Timestamp::EPOCH, 1, Pacer::Wave { over: BASE }), None);
    }
}
