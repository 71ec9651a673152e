//! What a run was like, read from the upstream's log and from when callers heard of their emails.

use std::time::Duration;

use mailweir::engine::{Lane, Timestamp};
use mailweir::upstream::{Job, Profile, Upstream, check, optimum};

use crate::arena::is_foreground;
use crate::scenario::{START, Scenario};

/// What a run cost beside its sends.
#[derive(Clone, Copy)]
pub(crate) struct Overhead {
    pub(crate) wakes: u64,
    pub(crate) store_calls: u64,
    /// Those that have to be durable together.
    pub(crate) transactions: u64,
}

/// One run.
pub(crate) struct Cell {
    jobs: usize,
    /// Taken by the cut-off.
    done: usize,
    /// From the start to the last background email; `None`: not all were taken.
    makespan: Option<Duration>,
    /// The optimum's.
    best: Duration,
    cut_off: Duration,
    refused: u64,
    arrivals: u64,
    duplicates: u64,
    waits: Vec<Duration>,
    /// Longest time without one acceptance while background was waiting.
    stall: Duration,
    cost: Overhead,
}

impl Cell {
    pub(crate) fn read(
        scenario: &Scenario,
        profile: Profile,
        seed: u64,
        (jobs, ended): (&[Job], &[Option<Timestamp>]),
        upstream: &Upstream,
        cost: Overhead,
    ) -> Self {
        let background = || jobs.iter().zip(ended).filter(|(job, _)| !is_foreground(job));
        let all = background().all(|(_, end)| end.is_some());
        let last = background().filter_map(|(_, end)| *end).max().unwrap_or(START);
        let counts = check::counts(upstream.log().client());
        let cut = START.after(scenario.cut_off);
        let people = jobs.iter().zip(ended).filter(|(job, _)| is_foreground(job) && job.at < cut);
        let mut waits: Vec<Duration> = people.map(|(job, end)| end.unwrap_or(cut).since(job.at)).collect();
        waits.sort_unstable();
        let until = if all { last } else { cut };
        Self {
            jobs: jobs.len(),
            done: ended.iter().flatten().count(),
            makespan: all.then(|| last.since(START)),
            best: best(scenario, profile, seed, jobs),
            cut_off: scenario.cut_off,
            refused: counts.refused,
            arrivals: counts.arrivals,
            duplicates: counts.duplicates,
            waits,
            stall: stall(upstream, until),
            cost,
        }
    }
}

/// When a clairvoyant's last background email is taken.
fn best(scenario: &Scenario, profile: Profile, seed: u64, jobs: &[Job]) -> Duration {
    if scenario.mailboxes > 1 {
        return Duration::ZERO; // its search is quadratic in mailboxes
    }
    let schedule = optimum(&scenario.model(profile, seed).limits, jobs);
    let of_background = jobs.iter().zip(&schedule.accepted_at).filter(|(job, _)| job.lane == Lane::Background);
    of_background.filter_map(|(_, at)| *at).max().unwrap_or(START).since(START)
}

fn stall(upstream: &Upstream, until: Timestamp) -> Duration {
    let (mut last, mut longest) = (START, Duration::ZERO);
    let taken = upstream.log().client().filter(|arrival| arrival.executed && arrival.at <= until);
    for at in taken.map(|arrival| arrival.at).chain([until]) {
        longest = longest.max(at.since(last));
        last = at;
    }
    longest
}

/// The mean of several runs.
pub(crate) struct Row {
    name: &'static str,
    /// Share of runs that finished, and their mean makespan.
    finished: f64,
    done: f64,
    done_share: f64,
    makespan: f64,
    /// The optimum's time over its own.
    ratio: f64,
    /// The optimum's time over the cut-off's.
    best: f64,
    refused: f64,
    sends_per_accepted: f64,
    duplicates: f64,
    p50: f64,
    p99: f64,
    worst: f64,
    stall: f64,
    wakes: f64,
    store_calls: f64,
    transactions: f64,
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    if count == 0 { f64::NAN } else { sum / f64::from(count) }
}

fn quantile(waits: &[Duration], percent: usize) -> f64 {
    waits.get(waits.len().saturating_sub(1) * percent / 100).map_or(0.0, Duration::as_secs_f64)
}

impl Row {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(crate) fn mean(name: &'static str, cells: Vec<Cell>) -> Self {
        let of = |figure: fn(&Cell) -> f64| mean(cells.iter().map(figure));
        let finished = || cells.iter().filter_map(|cell| Some((cell.makespan?, cell.best)));
        Self {
            name,
            finished: finished().count() as f64 / cells.len().max(1) as f64,
            done: of(|cell| cell.done as f64),
            done_share: of(|cell| cell.done as f64 / cell.jobs.max(1) as f64),
            makespan: mean(finished().map(|(makespan, _)| makespan.as_secs_f64())),
            ratio: mean(finished().map(|(makespan, best)| best.as_secs_f64() / makespan.as_secs_f64())),
            best: of(|cell| cell.best.as_secs_f64() / cell.cut_off.as_secs_f64()),
            refused: of(|cell| cell.refused as f64),
            sends_per_accepted: of(|cell| cell.arrivals as f64 / (cell.done.max(1)) as f64),
            duplicates: of(|cell| cell.duplicates as f64),
            p50: of(|cell| quantile(&cell.waits, 50)),
            p99: of(|cell| quantile(&cell.waits, 99)),
            worst: of(|cell| quantile(&cell.waits, 100)),
            stall: of(|cell| cell.stall.as_secs_f64()),
            wakes: of(|cell| cell.cost.wakes as f64 / (cell.done.max(1)) as f64),
            store_calls: of(|cell| cell.cost.store_calls as f64 / (cell.done.max(1)) as f64),
            transactions: of(|cell| cell.cost.transactions as f64 / (cell.done.max(1)) as f64),
        }
    }

    pub(crate) fn json(&self, scenario: &str, profile: Profile) -> String {
        let number = |value: f64| if value.is_finite() { format!("{value:.4}") } else { "null".to_owned() };
        format!(
            "{{\"scenario\":{scenario:?},\"profile\":\"{profile:?}\",\"policy\":{:?},\"finished\":{},\"done_share\":{},\
             \"makespan_s\":{},\"ratio\":{},\"refused\":{},\"sends_per_accepted\":{},\"duplicates\":{},\
             \"fg_p50_s\":{},\"fg_p99_s\":{},\"fg_max_s\":{},\"stall_s\":{},\"wakes_per_message\":{},\
             \"store_calls_per_message\":{},\"transactions_per_message\":{}}}",
            self.name.replace('*', ""),
            number(self.finished),
            number(self.done_share),
            number(self.makespan),
            number(self.ratio),
            number(self.refused),
            number(self.sends_per_accepted),
            number(self.duplicates),
            number(self.p50),
            number(self.p99),
            number(self.worst),
            number(self.stall),
            number(self.wakes),
            number(self.store_calls),
            number(self.transactions),
        )
    }

    /// Whether a clairvoyant was asked; with many mailboxes none is.
    pub(crate) fn has_optimum(&self) -> bool {
        self.best > 0.0
    }

    /// When it was done, if it was.
    pub(crate) fn done_at(&self) -> Option<f64> {
        (self.finished >= 1.0).then_some(self.makespan)
    }

    pub(crate) fn done_share(&self) -> f64 {
        self.done_share
    }

    pub(crate) fn refused(&self) -> f64 {
        self.refused
    }

    /// When it was done and its part of the optimum, or what part it did by the cut-off.
    pub(crate) fn done_text(&self) -> String {
        match (self.finished >= 1.0, self.ratio > 0.0) {
            (true, true) => format!("{}, {:.2}", span(self.makespan), self.ratio),
            (true, false) => span(self.makespan),
            (false, _) => format!("{:.0} %", self.done_share * 100.0),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.name.contains("mailweir")
    }

    /// The optimum's time over its own; for who did not finish, what it did by the cut-off over what the optimum would have.
    /// With many mailboxes the optimum is not known: what was done.
    pub(crate) fn goodput(&self) -> f64 {
        match (self.best > 0.0, self.finished >= 1.0) {
            (false, _) => self.done_share,
            (true, true) => self.ratio.min(1.0),
            (true, false) => self.done_share * self.best.min(1.0),
        }
    }

    pub(crate) fn people_p99(&self) -> f64 {
        self.p99
    }

    pub(crate) fn people_text(&self) -> String {
        span(self.p99)
    }

    /// Refusals for each email that was taken.
    pub(crate) fn refused_each(&self) -> f64 {
        self.refused / self.done.max(1.0)
    }

    /// Calls of a store and durable transactions for each email.
    fn store_text(&self) -> String {
        match (self.store_calls > 0.0, self.transactions > 0.0) {
            (false, _) => "–".to_owned(),
            (true, false) => format!("{:.1}", self.store_calls),
            (true, true) => format!("{:.1} in {:.1}", self.store_calls, self.transactions),
        }
    }

    /// One cell: done, ratio, refusals, people's p99.
    fn cell(&self) -> String {
        format!("{}; {:.0}; {}", self.done_text(), self.refused, span(self.p99))
    }
}

/// Seconds as people read them.
fn span(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 7_200.0 => format!("{s:.0} s"),
        s => format!("{:.2} h", s / 3_600.0),
    }
}

/// One table for all profiles, and what is alike in them below it.
pub(crate) fn table(profiles: &[(Profile, Vec<Row>)]) -> String {
    let heads: Vec<String> = profiles.iter().map(|(profile, _)| format!("{profile:?}")).collect();
    let mut out = format!(
        "| policy | {} | on A, for each email: sends; wake-ups; store calls (in durable transactions) |\n",
        heads.join(" | ")
    );
    out.push_str(&format!("|---|{}---|\n", "---|".repeat(profiles.len())));
    let first = profiles.first().map_or(&[][..], |(_, rows)| rows.as_slice());
    for (number, row) in first.iter().enumerate() {
        let cells = profiles.iter().filter_map(|(_, rows)| rows.get(number)).map(Row::cell);
        let cells = cells.collect::<Vec<_>>().join(" | ");
        let (sends, wakes, store) = (row.sends_per_accepted, row.wakes, row.store_text());
        out.push_str(&format!("| {} | {cells} | {sends:.2}; {wakes:.1}; {store} |\n", row.name));
    }
    out
}
