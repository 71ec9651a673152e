//! What can happen, at any instant and in any order. Whether a process reaches Redis is decided anew at each call, so
//! every partition, pause and reordering is in it: a process that is paused is one that nothing happens to.

use std::sync::atomic::{AtomicUsize, Ordering};

use stateright::{Model, Property};

use crate::ledger::{Leased, Ledger, Reserved};
use crate::process::{Flight, Process};
use crate::rules::{Rule, Rules};
use crate::state::{State, tag};

/// Which server a call reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Current,
    /// The replaced master.
    Old,
}

/// What becomes of a call's answer. A call that is not executed is no step: the process may act as if cut off at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Heard,
    /// Executed, and the answer lost.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Acquire(usize, Server, Reply),
    Reserve(usize, Server, Reply),
    /// The same RESERVE again, under its id.
    Repeat(usize),
    /// A send that no ledger hears of.
    SendUnrecorded(usize),
    /// The request at an index of the own ledger reaches the upstream.
    Arrive(usize, usize),
    Answer(usize, usize),
    OrphanArrives(usize),
    Release(usize),
    Crash(usize),
    /// The last write that a failover will not lose has reached the replica.
    Replicated,
    Failover,
    /// As a failover to a server that holds nothing.
    Wiped,
    Tick,
}

/// The protocol under some rules. `most` keeps the largest number of arrivals in one window that was seen.
pub(crate) struct Protocol {
    pub(crate) rules: Rules,
    pub(crate) most: AtomicUsize,
}

impl Protocol {
    fn process_steps(&self, state: &State, index: usize, steps: &mut Vec<Step>) {
        let process = &state.processes[index];
        let old = state.old.is_some() && !(process.moved && self.rules.has(Rule::NeverBack));
        for server in [Server::Current, Server::Old].into_iter().take(if old { 2 } else { 1 }) {
            for reply in [Reply::Heard, Reply::Lost] {
                steps.push(Step::Acquire(index, server, reply));
                if process.may_reserve(&self.rules) {
                    steps.push(Step::Reserve(index, server, reply));
                }
            }
        }
        if process.unanswered.is_some() && process.may_reserve(&self.rules) {
            steps.push(Step::Repeat(index));
        }
        if process.may_send_unrecorded(&self.rules) {
            steps.push(Step::SendUnrecorded(index));
        }
        if process.lease_valid(&self.rules) && !process.in_flight() {
            steps.push(Step::Release(index));
        }
        for (at, own) in process.own.iter().enumerate() {
            // Requests that are alike are one.
            let repeated = at > 0 && process.own[at - 1] == *own;
            match own.flight {
                Flight::Sent if !repeated => steps.push(Step::Arrive(index, at)),
                Flight::Arrived if !repeated => steps.push(Step::Answer(index, at)),
                Flight::Sent | Flight::Arrived | Flight::Done(_) => {}
            }
        }
        if *process != Process::default() {
            steps.push(Step::Crash(index));
        }
    }

    fn heard(&self, state: &mut State, index: usize, server: Server) {
        state.processes[index].moved |= server == Server::Current && state.old.is_some();
    }

    fn acquire(&self, state: &mut State, index: usize, server: Server, reply: Reply) -> Option<()> {
        let fresh = state.fresh_token();
        let process = state.processes[index].clone();
        let answer = called(state, server)?.acquire(&self.rules, tag(index), &process, fresh);
        if reply == Reply::Heard {
            self.heard(state, index, server);
            state.processes[index].on_leased(&self.rules, answer, fresh);
        } else if answer == Leased::Lost {
            return None;
        }
        Some(())
    }

    fn reserve(&self, state: &mut State, index: usize, server: Server, reply: Reply) -> Option<()> {
        let process = state.processes[index].clone();
        let answer = called(state, server)?.reserve(&self.rules, tag(index), &process);
        if reply == Reply::Heard {
            self.heard(state, index, server);
            state.processes[index].on_reserved(answer);
            return Some(());
        }
        let granted = matches!(answer, Reserved::Granted { .. });
        if granted && self.rules.retry && server == Server::Current {
            state.processes[index].unanswered.get_or_insert(0);
        }
        granted.then_some(())
    }

    fn repeat(&self, state: &mut State, index: usize) -> Option<()> {
        let process = &mut state.processes[index];
        let first = process.unanswered?;
        if !state.ledger.has_unanswered(tag(index), process, first) {
            return None;
        }
        process.unanswered = None;
        process.send(if self.rules.has(Rule::FirstDeadline) { first } else { 0 });
        Some(())
    }

    /// Whether it hears of it or not, a process that has asked for the end of its lease does not go on with it.
    fn release(&self, state: &mut State, index: usize) {
        let process = state.processes[index].clone();
        state.ledger.release(&self.rules, tag(index), &process);
        state.processes[index].stop();
    }

    fn failover(&self, state: &mut State, heir: Ledger) -> Option<()> {
        state.failovers = state.failovers.checked_sub(1)?;
        let replaced = std::mem::replace(&mut state.ledger, heir.promoted(&self.rules));
        state.old = (self.rules.split > 0).then_some((replaced, self.rules.split));
        state.replica = None;
        Some(())
    }

    fn apply(&self, state: &mut State, step: Step) -> Option<()> {
        let rules = &self.rules;
        match step {
            Step::Acquire(index, server, reply) => return self.acquire(state, index, server, reply),
            Step::Reserve(index, server, reply) => return self.reserve(state, index, server, reply),
            Step::Repeat(index) => return self.repeat(state, index),
            Step::SendUnrecorded(index) => {
                state.processes[index].send(0);
                state.processes[index].unmerged = true;
            }
            Step::Arrive(index, at) => {
                state.processes[index].arrive(rules, at);
                state.arrive();
            }
            Step::Answer(index, at) => state.processes[index].answered(at),
            Step::OrphanArrives(at) => {
                state.orphans.remove(at);
                state.arrive();
            }
            Step::Release(index) => self.release(state, index),
            Step::Crash(index) => state.crash(index),
            Step::Replicated => state.replica = Some(state.ledger.clone()),
            Step::Failover => {
                let heir = state.replica.take()?;
                return self.failover(state, heir);
            }
            Step::Wiped => return self.failover(state, Ledger::default()),
            Step::Tick => state.tick(rules),
        }
        Some(())
    }
}

fn called(state: &mut State, server: Server) -> Option<&mut Ledger> {
    match server {
        Server::Current => Some(&mut state.ledger),
        Server::Old => state.old.as_mut().map(|(ledger, _)| ledger),
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.rules)]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for index in 0..state.processes.len() {
            self.process_steps(state, index, steps);
        }
        let alike = |at: usize| at > 0 && state.orphans[at - 1] == state.orphans[at];
        steps.extend((0..state.orphans.len()).filter(|&at| !alike(at)).map(Step::OrphanArrives));
        if state.failovers > 0 {
            steps.push(if state.replica.is_some() { Step::Failover } else { Step::Replicated });
            steps.extend(self.rules.flush.then_some(Step::Wiped));
        }
        steps.push(Step::Tick);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        self.apply(&mut state, step)?;
        state.tidy();
        self.most.fetch_max(state.arrivals.len(), Ordering::Relaxed);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(WITHIN, |model: &Self, state: &State| {
                state.arrivals.len() <= usize::from(model.rules.limit)
            }),
            Property::sometimes(REACHED, |model: &Self, state: &State| {
                state.arrivals.len() >= usize::from(model.rules.limit)
            }),
            Property::always(EVERY, |model: &Self, state: &State| {
                state.processes.len() == usize::from(model.rules.processes)
            }),
        ]
    }
}

/// No window holds more than N arrivals.
pub(crate) const WITHIN: &str = "no window holds more than N";

/// Some window holds N.
pub(crate) const REACHED: &str = "a window holds N";

/// Never refuted: it keeps the checker going until every state was seen.
pub(crate) const EVERY: &str = "every state is seen";
