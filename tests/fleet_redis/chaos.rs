//! Blows at random instants: processes are killed and stopped, the server is killed, frozen, paused and made to forget its
//! scripts, all under load. `MAILWEIR_TEST_BLOWS=100` for the long form, `MAILWEIR_SEED` for other instants. A failure prints the
//! command that strikes the same blows; what the machine makes of them is no replay.

use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;
use mailweir::engine::OperationState;
use mailweir::upstream::check;

use crate::bench::Bench;
use crate::process::Process;
use crate::redis_server::RedisServer;
use crate::replay::{Replay, number};
use crate::{CONCURRENCY, REQUESTS, id, limit};

/// Emails before each blow, and after it.
const LOAD: u64 = 16;
const AFTER: u64 = 6;

#[derive(Clone, Copy, Debug)]
enum Blow {
    /// SIGKILL of one process; another one takes its place.
    KillProcess,
    /// SIGSTOP of one process, often for longer than its lease; then it goes on.
    StopProcess,
    /// SIGKILL of the server, which comes back with its file.
    KillServer,
    /// SIGSTOP of the server; then it goes on, with what had reached its sockets.
    FreezeServer,
    ForgetScripts,
    PauseClients,
}

const ALL: [Blow; 6] = [
    Blow::KillProcess,
    Blow::StopProcess,
    Blow::KillServer,
    Blow::FreezeServer,
    Blow::ForgetScripts,
    Blow::PauseClients,
];

struct Run {
    bench: Bench,
    living: Vec<Process>,
    dead: Vec<Process>,
    rng: Rng,
    /// The last email that anybody was told of.
    last: u64,
}

impl Run {
    fn start(seed: u64) -> Self {
        let bench = Bench::start(RedisServer::durable());
        let living = vec![bench.process(), bench.process()];
        Self { bench, living, dead: Vec::new(), rng: Rng::with_seed(seed), last: 0 }
    }

    fn submit(&mut self, count: u64) {
        for number in self.last + 1..=self.last + count {
            let at = self.rng.usize(..self.living.len());
            self.living[at].submit([number]);
        }
        self.last += count;
    }

    fn millis(&mut self, from: u64, to: u64) {
        std::thread::park_timeout(Duration::from_millis(self.rng.u64(from..to)));
    }

    fn strike(&mut self, blow: Blow) {
        match blow {
            Blow::KillProcess => {
                let mut process = self.living.swap_remove(self.rng.usize(..self.living.len()));
                process.kill();
                self.dead.push(process);
                self.living.push(self.bench.process());
            }
            Blow::StopProcess => {
                let at = self.rng.usize(..self.living.len());
                self.living[at].signal("-STOP");
                self.millis(500, 6_000);
                self.living[at].signal("-CONT");
            }
            Blow::KillServer => {
                self.bench.redis.kill();
                self.millis(0, 1_500);
                self.bench.redis.restart();
            }
            Blow::FreezeServer => {
                self.bench.redis.freeze();
                self.millis(100, 2_500);
                self.bench.redis.thaw();
            }
            Blow::ForgetScripts => drop(self.bench.redis.say(&["SCRIPT", "FLUSH"])),
            Blow::PauseClients => drop(self.bench.redis.say(&["CLIENT", "PAUSE", "1500", "ALL"])),
        }
    }

    /// One blow under load. Everything goes on afterwards, with nobody's help.
    fn blow(&mut self, blow: Blow) {
        let before = self.bench.log().len();
        self.submit(LOAD);
        self.bench.until_arrived(before + 4);
        self.millis(0, 400);
        self.strike(blow);
        let after = self.bench.log().len();
        self.submit(AFTER);
        self.bench.until_arrived(after + 3);
        self.until_written();
    }

    /// Waits until the store knows of what has arrived. An owner that was cut off has sent without it: killed before it
    /// has said so, it would let the next one send that again, as `[fleet] foreground = "half"` says.
    fn until_written(&self) {
        let arrived = check::executions(&self.bench.log());
        let knows = |state: &OperationState| matches!(state, OperationState::Accepted | OperationState::Unknown);
        self.bench.until("records", || {
            let states = self.bench.states();
            arrived.keys().all(|id| states.get(&**id).is_none_or(knows))
        });
    }

    /// What a process said that it is kept.
    fn kept(&self) -> BTreeSet<u64> {
        self.living.iter().chain(&self.dead).flat_map(Process::kept).collect()
    }

    /// Everything that was kept comes to an end, once.
    fn finish(self) {
        let kept = self.kept();
        let ends = |state: &OperationState| state.is_final() || *state == OperationState::Unknown;
        let left = || {
            let states = self.bench.states();
            kept.iter().filter(|number| !ends(states.get(&id(**number)).expect("kept, and gone"))).count()
        };
        // Background has fallen behind while owners were at half; it goes on at its pace.
        let mut before = left();
        while before > 0 {
            self.bench.until("end", || left() < before);
            before = left();
        }
        let (states, log) = (self.bench.states(), self.bench.log());
        let executions = check::executions(&log);
        let mut unknown = 0;
        for number in &kept {
            let times = executions.get(&*id(*number)).copied().unwrap_or(0);
            match states[&id(*number)] {
                OperationState::Accepted => assert_eq!(times, 1, "{number}"),
                OperationState::Unknown => {
                    assert!(times <= 1, "{number}");
                    unknown += 1;
                }
                other => panic!("{number} is {other}"),
            }
        }
        let (counts, most) = (check::counts(&log), check::max_in_window(&log, &limit()));
        println!("{} kept, {unknown} unknown; {counts:?}; most in a window {most} of {REQUESTS}", kept.len());
        assert_eq!(counts.duplicates, 0, "{counts:?}");
        // A process that was stopped between its decision and the first byte sends when it goes on.
        assert!(most <= REQUESTS + CONCURRENCY, "{most} in a window of {REQUESTS}");
        for process in self.living {
            process.end();
        }
    }
}

#[test]
fn blows_at_random_instants_lose_nothing_send_nothing_twice_and_stop_nothing_for_good() {
    let here = Replay { features: "graph redis upstream", test: "fleet_redis", name: "blows_at_random" };
    let blows = number("MAILWEIR_TEST_BLOWS");
    let words = blows.map(|blows| format!("MAILWEIR_TEST_BLOWS={blows}"));
    here.with(words).run(number("MAILWEIR_SEED").unwrap_or(1), |seed| strike(seed, blows.unwrap_or(ALL.len() as u64)));
}

fn strike(seed: u64, blows: u64) {
    let mut run = Run::start(seed);
    let mut left = Vec::new();
    for at in 1..=blows {
        if left.is_empty() {
            left.extend(ALL);
            run.rng.shuffle(&mut left);
        }
        let blow = left.pop().expect("just filled");
        println!("{at}: {blow:?}");
        run.blow(blow);
    }
    run.finish();
}
