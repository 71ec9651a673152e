//! Two lanes with half of the limit each, and one breaker for all: what a team builds after its first storm.
//!
//! Foreground may use the whole limit, background half of it, counted per calendar window or as a rolling log by send.
//! A 429 stops everything of the mailbox for its Retry-After, or for the shortest window.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use mailweir::engine::{Lane, Timestamp, Unit};
use mailweir::upstream::Job;

use super::{Heard, Policy, Setup};

/// How a window is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Count {
    Calendar,
    Rolling,
}

struct Window {
    amount: u64,
    width: u64,
    unit: Unit,
    /// Charges that count, by lane.
    charges: VecDeque<(u64, Lane, u64)>,
}

#[derive(Default)]
struct Mailbox {
    windows: Vec<Window>,
    lanes: [VecDeque<usize>; 2],
    closed_until: Option<Timestamp>,
}

pub(crate) struct HardCap {
    count: Count,
    shortest: Duration,
    mailbox_of: Rc<[usize]>,
    jobs: Rc<[Job]>,
    mailboxes: Vec<Mailbox>,
    wakes: BTreeMap<(Timestamp, usize), ()>,
}

pub(crate) fn calendar(setup: Setup) -> HardCap {
    HardCap::new(setup, Count::Calendar)
}

pub(crate) fn rolling(setup: Setup) -> HardCap {
    HardCap::new(setup, Count::Rolling)
}

impl Window {
    /// When `cost` of `lane` fits.
    fn ready(&mut self, now: u64, count: Count, lane: Lane, cost: u64) -> Option<u64> {
        let start = match count {
            Count::Calendar => now / self.width * self.width,
            Count::Rolling => (now + 1).saturating_sub(self.width),
        };
        while self.charges.front().is_some_and(|(at, ..)| *at < start) {
            self.charges.pop_front();
        }
        let half = (self.amount / 2).max(1);
        let mut all: u64 = self.charges.iter().map(|(.., cost)| cost).sum();
        let own = |charge: &&(u64, Lane, u64)| charge.1 == Lane::Background;
        let mut background: u64 = self.charges.iter().filter(own).map(|(.., cost)| cost).sum();
        let fits = |all: u64, background: u64| {
            (all == 0 || all + cost <= self.amount)
                && (lane == Lane::Foreground || background == 0 || background + cost <= half)
        };
        if fits(all, background) {
            return None;
        }
        if count == Count::Calendar {
            return Some(start + self.width);
        }
        for (at, lane, cost) in &self.charges {
            all -= cost;
            background -= if *lane == Lane::Background { *cost } else { 0 };
            if fits(all, background) {
                return Some(at + self.width);
            }
        }
        Some(now + self.width)
    }
}

impl HardCap {
    fn new(setup: Setup, count: Count) -> Self {
        let window = |limit: &mailweir::engine::Limit| Window {
            amount: limit.amount(),
            width: u64::try_from(limit.window().as_micros()).expect("a window of years"),
            unit: limit.unit(),
            charges: VecDeque::new(),
        };
        let mailbox = |_| Mailbox { windows: setup.limits.iter().map(window).collect(), ..Mailbox::default() };
        Self {
            count,
            shortest: setup.shortest,
            mailbox_of: Rc::clone(&setup.mailbox_of),
            mailboxes: (0..setup.mailboxes).map(mailbox).collect(),
            jobs: Rc::clone(&setup.jobs),
            wakes: BTreeMap::new(),
        }
    }

    /// The next job of one mailbox, or when there is one.
    fn look(&mut self, now: Timestamp, mailbox: usize) -> Result<usize, Option<Timestamp>> {
        let state = &mut self.mailboxes[mailbox];
        if let Some(until) = state.closed_until.filter(|until| *until > now) {
            return Err(Some(until));
        }
        let mut earliest = None::<Timestamp>;
        for lane in Lane::ALL {
            let Some(&job) = state.lanes[lane as usize].front() else { continue };
            let cost = self.jobs[job].cost;
            let count = self.count;
            let windows = state.windows.iter_mut();
            let ready =
                windows.filter_map(|window| window.ready(now.as_micros(), count, lane, cost.of(window.unit))).max();
            match ready {
                None => {
                    for window in &mut state.windows {
                        window.charges.push_back((now.as_micros(), lane, cost.of(window.unit)));
                    }
                    state.lanes[lane as usize].pop_front();
                    return Ok(job);
                }
                Some(at) => {
                    let at = Timestamp::from_micros(at);
                    earliest = Some(earliest.map_or(at, |earliest| earliest.min(at)));
                }
            }
        }
        Err(earliest)
    }
}

impl Policy for HardCap {
    fn submit(&mut self, now: Timestamp, job: usize) {
        let mailbox = self.mailbox_of[job];
        self.mailboxes[mailbox].lanes[self.jobs[job].lane as usize].push_back(job);
        self.wakes.insert((now, mailbox), ());
    }

    fn heard(&mut self, now: Timestamp, job: usize, heard: Heard) {
        let mailbox = self.mailbox_of[job];
        let state = &mut self.mailboxes[mailbox];
        if heard.status != Some(202) {
            state.lanes[self.jobs[job].lane as usize].push_front(job);
        }
        if heard.status == Some(429) {
            let until = now.after(heard.retry_after.unwrap_or(self.shortest));
            state.closed_until = Some(state.closed_until.map_or(until, |before| before.max(until)));
        }
        self.wakes.insert((now, mailbox), ());
    }

    fn next(&mut self, now: Timestamp, free: &dyn Fn(usize) -> bool) -> Option<usize> {
        while let Some((&(at, mailbox), ())) = self.wakes.first_key_value() {
            if at > now {
                return None;
            }
            if free(mailbox) {
                match self.look(now, mailbox) {
                    Ok(job) => return Some(job),
                    Err(Some(later)) => {
                        let later = later.max(now.after(Duration::from_micros(1)));
                        self.wakes.insert((later, mailbox), ());
                    }
                    Err(None) => {}
                }
            }
            // Without a free connection the next answer looks again.
            self.wakes.remove(&(at, mailbox));
        }
        None
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.wakes.first_key_value().map(|(&(at, _), ())| at)
    }
}
