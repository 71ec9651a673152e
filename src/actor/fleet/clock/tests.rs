//! The engines' time, held against the real one.

use std::sync::Mutex;

use super::*;

const EVERY: u64 = 5_000_000;
const START: u64 = 1_700_000_000_000_000;

#[derive(Debug)]
struct ByHand(Mutex<u64>);

impl ByHand {
    fn pass(&self, micros: u64) {
        *self.0.lock().expect("not poisoned") += micros;
    }
}

impl Clock for ByHand {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(*self.0.lock().expect("not poisoned"))
    }
}

/// A process whose own clock shows `START` less 300 seconds when the store's shows `START`.
struct Bench {
    own: Arc<ByHand>,
    clock: FleetClock,
    /// The store's clock less the own one.
    ahead: i64,
}

impl Bench {
    fn new() -> Self {
        let own = Arc::new(ByHand(Mutex::new(START - 300_000_000)));
        let clock = FleetClock::new(Arc::clone(&own) as Arc<dyn Clock>, Ratio::ppm(1_000));
        Self { own, clock, ahead: 300_000_000 }
    }

    fn store(&self) -> Timestamp {
        moved(self.own.now(), self.ahead)
    }

    /// Asks; the way there and the way back take so long.
    fn renew(&self, there: u64, back: u64) {
        let asked = self.clock.ask();
        self.own.pass(there);
        let told = self.store();
        self.own.pass(back);
        self.clock.measured(asked, told);
    }

    /// Goes on for `rounds` renewals of which each takes up to `late`; every span of 50 ms has to be within ρ of real time.
    fn goes_on(&self, rounds: u64, late: u64) {
        let mut seen = (self.own.now(), self.clock.now());
        for round in 0..rounds {
            // Late there, late back, and quick by turns.
            let (there, back) = [(late, 500), (500, late), (500, 500)][usize::try_from(round % 3).expect("small")];
            self.renew(there, back);
            for _ in 0..EVERY / 50_000 {
                self.own.pass(50_000);
                let now = (self.own.now(), self.clock.now());
                let (real, shown) = (now.0.since(seen.0).as_micros(), now.1.since(seen.1).as_micros());
                assert!(now.1 >= seen.1 && real.abs_diff(shown) <= real / 1_000, "{shown} for {real}, round {round}");
                seen = now;
            }
        }
    }
}

#[test]
fn it_shows_the_stores_time_whatever_its_own_clock_says() {
    let bench = Bench::new();
    bench.renew(500, 500);
    bench.clock.begin();
    assert_eq!(bench.clock.now(), bench.store());
    bench.own.pass(3_600_000_000);
    assert_eq!(bench.clock.now(), bench.store());
    assert_eq!(bench.clock.agreement(), Agreement::Agrees);
}

#[test]
fn answers_that_are_a_quarter_of_a_second_late_move_it_by_nothing_that_a_window_could_notice() {
    let bench = Bench::new();
    bench.renew(500, 500);
    bench.clock.begin();
    bench.goes_on(200, 250_000);
    let off = bench.clock.now().since(bench.store()).max(bench.store().since(bench.clock.now()));
    assert!(off <= Duration::from_millis(1), "{off:?}");
    // Late from the first one on, it is wrong by half of that at most, and comes nearer without a jump.
    let bench = Bench::new();
    bench.renew(500, 250_000);
    bench.clock.begin();
    bench.goes_on(200, 250_000);
    let off = bench.clock.now().since(bench.store()).max(bench.store().since(bench.clock.now()));
    assert!(off <= Duration::from_millis(1), "{off:?}");
    assert_eq!(bench.clock.agreement(), Agreement::Agrees);
}

#[test]
fn a_step_of_the_stores_clock_never_moves_it_faster_than_rho_and_is_told_until_it_is_followed() {
    for (step, is_followed) in [(60_000_000, false), (-60_000_000, false), (8_000_000, false), (100_000, true)] {
        let mut bench = Bench::new();
        bench.renew(500, 500);
        bench.clock.begin();
        bench.goes_on(3, 500);
        bench.ahead += step;
        bench.goes_on(1, 250_000);
        assert_eq!(bench.clock.agreement(), Agreement::Differs, "{step}");
        let soon = bench.clock.now().after(Duration::from_secs(30));
        let wait = bench.clock.to_store(soon).since(bench.store());
        assert!(wait.abs_diff(Duration::from_secs(30)) < Duration::from_millis(130), "{step}: {wait:?}");
        assert_eq!(bench.clock.of_store(bench.clock.to_store(soon)), soon);
        bench.goes_on(100, 250_000);
        // 500 seconds at a quarter of a thousandth: an eighth of a second.
        let after = if is_followed { Agreement::Agrees } else { Agreement::Differs };
        assert_eq!(bench.clock.agreement(), after, "{step}");
    }
}

#[test]
fn never_and_the_epoch_are_the_same_in_every_time() {
    let mut bench = Bench::new();
    bench.renew(500, 500);
    bench.clock.begin();
    bench.ahead += 60_000_000;
    bench.renew(500, 500);
    for at in [Timestamp::NEVER, Timestamp::EPOCH] {
        assert_eq!((bench.clock.to_store(at), bench.clock.of_store(at)), (at, at));
    }
}
