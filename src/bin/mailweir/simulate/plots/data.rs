//! From a run to charts.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mailweir::Outcome;
use mailweir::engine::{Event, Lane, Limit, Scope, Timestamp};
use mailweir::simulation::World;
use mailweir::simulation::report::{Report, WindowUse, backlog as steps_of};
use mailweir::simulation::scenario::Scenario;
use mailweir::upstream::Arrival;

use super::axis::Scale;
use super::chart::{Chart, Mark, Series, Vertical};

/// Points across one chart; more would fall on the same pixel.
const COLUMNS: usize = 880;
/// Dots of one lane.
const DOTS_MAX: usize = 4_000;
/// Rows of breakers that are drawn.
const ROWS_MAX: usize = 12;
const LANES: [(&str, &str); 2] = [("foreground", "foreground"), ("background", "background")];

/// A time axis that all charts of a run share: instants as seconds from the start.
struct Run<'w> {
    world: &'w World,
    length: f64,
    troubles: Vec<(f64, f64)>,
}

impl<'w> Run<'w> {
    fn of(scenario: &Scenario, world: &'w World) -> Self {
        let length = world.now().since(world.start()).as_secs_f64().max(1.0);
        let spans = scenario.troubles().into_iter().map(|it| (it.from.as_secs_f64(), it.until.as_secs_f64()));
        Self { world, length, troubles: spans.filter(|(from, _)| *from < length).collect() }
    }

    fn seconds(&self, at: Timestamp) -> f64 {
        at.since(self.world.start()).as_secs_f64()
    }

    fn chart(&self, title: String, note: String, vertical: Vertical, series: Vec<Series>) -> Chart {
        Chart { title, note, length: self.length, vertical, series, troubles: self.troubles.clone() }
    }
}

/// One chart per declared limit: what of each trailing window is used, lane above lane.
pub(super) fn sends(scenario: &Scenario, world: &World) -> Vec<Chart> {
    let run = Run::of(scenario, world);
    let report = Report::of(scenario, world, 0);
    let mut windows = report.windows;
    windows.retain(|window| window.most > 0);
    windows.sort_by_key(|window| (window.scope.kind(), window.limit.window(), window.limit.unit()));
    // A limit that changes is one chart.
    windows.dedup_by_key(|window| (window.scope.kind(), window.limit.window(), window.limit.unit()));
    windows.iter().map(|window| against(&run, window, levels(scenario, &run, window))).collect()
}

/// The amount in force from the start to the end; 0 while there is no such limit.
fn levels(scenario: &Scenario, run: &Run<'_>, window: &WindowUse) -> Vec<(f64, f64)> {
    let changes = scenario.changes.iter().map(|change| (change.at.as_secs_f64(), &change.config));
    let mut levels: Vec<(f64, f64)> = Vec::new();
    for (at, config) in [(0.0, &scenario.config)].into_iter().chain(changes).filter(|(at, _)| *at <= run.length) {
        let limits = match &window.scope {
            Scope::Mailbox(id) => config.mailbox_policy(id).scope.limits.clone(),
            Scope::Tenant(_) => config.tenant.limits.clone(),
            Scope::Application => config.application.limits.clone(),
        };
        let same = |limit: &&Limit| limit.unit() == window.limit.unit() && limit.window() == window.limit.window();
        levels.push((at, limits.iter().find(same).map_or(0.0, |limit| limit.amount() as f64)));
    }
    levels.extend(levels.last().map(|(_, amount)| (run.length, *amount)));
    levels
}

fn against(run: &Run<'_>, window: &WindowUse, level: Vec<(f64, f64)>) -> Chart {
    let (limit, mine) = (window.limit, |arrival: &&Arrival| in_scope(&window.scope, arrival));
    let arrivals = run.world.upstream().log().client().filter(mine);
    let used = trailing(run, arrivals, limit.window(), |arrival| arrival.cost.of(limit.unit()));
    let most = used.iter().map(|(_, [foreground, background])| foreground + background).fold(0.0, f64::max);
    let highest = level.iter().map(|(_, amount)| *amount).fold(most, f64::max);
    let vertical = Vertical::Values(Scale::up_to(highest), limit.unit().to_string());
    let name =
        if level.windows(2).all(|pair| pair[0].1 == pair[1].1) { format!("limit {limit}") } else { "limit".into() };
    let background = Mark::Steps(used.iter().map(|(x, lanes)| (*x, lanes[1])).collect());
    // Foreground stands on background: the upper edge is what counts against the limit.
    let foreground = Mark::Band(used.iter().map(|(x, lanes)| (*x, lanes[1], lanes[0] + lanes[1])).collect());
    let series = vec![
        Series { name: "background".to_owned(), class: "background", mark: background },
        Series { name: "foreground, on top".to_owned(), class: "foreground", mark: foreground },
        Series { name, class: "limit", mark: Mark::Level(level) },
    ];
    let title = format!("Sent in the last {}", mailweir::config::show_duration(limit.window()));
    run.chart(title, window.scope.to_string(), vertical, series)
}

fn in_scope(scope: &Scope, arrival: &Arrival) -> bool {
    match scope {
        Scope::Mailbox(id) => *id == arrival.mailbox,
        Scope::Tenant(_) => arrival.tenant.is_some(),
        Scope::Application => true,
    }
}

/// What lies within the window that ends at each instant, per lane; the fullest instant of each column.
fn trailing<'a>(
    run: &Run<'_>,
    arrivals: impl Iterator<Item = &'a Arrival>,
    window: Duration,
    cost: impl Fn(&Arrival) -> u64,
) -> Vec<(f64, [f64; 2])> {
    let (mut within, mut sums) = (VecDeque::<(Timestamp, usize, u64)>::new(), [0_u64; 2]);
    let mut columns = Columns::new(run.length);
    let shown = |sums: [u64; 2]| sums.map(|sum| sum as f64);
    for arrival in arrivals {
        while let Some((at, lane, units)) = within.front().copied().filter(|(at, ..)| at.after(window) <= arrival.at) {
            within.pop_front();
            sums[lane] -= units;
            columns.put(run.seconds(at.after(window)), shown(sums));
        }
        let (lane, units) = (arrival.lane.unwrap_or(Lane::Background) as usize, cost(arrival));
        within.push_back((arrival.at, lane, units));
        sums[lane] += units;
        columns.put(run.seconds(arrival.at), shown(sums));
    }
    for (at, lane, units) in within {
        sums[lane] -= units;
        let at = run.seconds(at.after(window));
        if at <= run.length {
            columns.put(at, shown(sums));
        }
    }
    columns.points()
}

/// The highest and the last value of each column.
struct Columns {
    length: f64,
    found: BTreeMap<usize, (Value, Value)>,
}

type Value = (f64, [f64; 2]);

impl Columns {
    fn new(length: f64) -> Self {
        Self { length, found: BTreeMap::new() }
    }

    fn put(&mut self, x: f64, value: [f64; 2]) {
        let column = (x / self.length * COLUMNS as f64) as usize;
        let (most, last) = self.found.entry(column).or_insert(((x, value), (x, value)));
        if value[0] + value[1] > most.1[0] + most.1[1] {
            *most = (x, value);
        }
        *last = (x, value);
    }

    fn points(self) -> Vec<Value> {
        let mut points = vec![(0.0, [0.0; 2])];
        for (most, last) in self.found.into_values() {
            points.push(most);
            points.push((last.0.max(most.0), last.1));
        }
        if let Some((_, last)) = points.last().copied() {
            points.push((self.length, last));
        }
        points
    }
}

/// How long each accepted operation waited, by when it came.
pub(super) fn waits(scenario: &Scenario, world: &World) -> Vec<Chart> {
    let run = Run::of(scenario, world);
    let accepted = |lane: Lane| {
        let ended = world.ended().iter();
        let mine = ended.filter(move |ended| ended.lane == lane && matches!(ended.outcome, Outcome::Accepted { .. }));
        mine.map(|ended| (run.seconds(ended.ended_at), ended.ended_at.since(ended.submitted_at).as_secs_f64()))
    };
    let all: Vec<f64> = Lane::ALL.into_iter().flat_map(&accepted).map(|(_, wait)| wait).collect();
    let (least, most) =
        all.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), wait| (low.min(*wait), high.max(*wait)));
    let series = |lane: Lane| {
        let dots: Vec<_> = accepted(lane).collect();
        let every = dots.len().div_ceil(DOTS_MAX).max(1);
        let (name, class) = LANES[lane as usize];
        let mark = Mark::Dots(dots.into_iter().step_by(every).collect());
        Series { name: name.to_owned(), class, mark }
    };
    let scale = Scale::decades(if least.is_finite() { least } else { 0.1 }, most);
    let vertical = Vertical::Values(scale, "wait, s".to_owned());
    // Background first, so that a few people are seen before many of a campaign.
    let series = vec![series(Lane::Background), series(Lane::Foreground)];
    vec![run.chart("Wait of each email, by when it was accepted".to_owned(), scenario.name.clone(), vertical, series)]
}

/// Operations that wait or are under way.
pub(super) fn backlog(scenario: &Scenario, world: &World) -> Vec<Chart> {
    let run = Run::of(scenario, world);
    let steps = steps_of(world);
    let chart = |lane: Lane| {
        let (name, class) = LANES[lane as usize];
        let mut columns = Columns::new(run.length);
        let value = |lanes: [i64; 2]| [lanes[lane as usize] as f64, 0.0];
        steps.iter().for_each(|step| columns.put(run.seconds(step.at), value(step.lanes)));
        let points: Vec<(f64, f64)> = columns.points().into_iter().map(|(x, value)| (x, value[0])).collect();
        let most = points.iter().map(|(_, y)| *y).fold(0.0, f64::max);
        (most > 0.0).then(|| {
            let series = vec![Series { name: name.to_owned(), class, mark: Mark::Steps(points) }];
            let vertical = Vertical::Values(Scale::up_to(most), "emails".to_owned());
            run.chart(format!("Backlog, {name}"), scenario.name.clone(), vertical, series)
        })
    };
    [Lane::Background, Lane::Foreground].into_iter().filter_map(chart).collect()
}

/// The state of each breaker that ever opened, and every 429.
pub(super) fn breakers(scenario: &Scenario, world: &World) -> Vec<Chart> {
    let run = Run::of(scenario, world);
    let mut scopes: BTreeMap<String, Vec<(f64, &'static str)>> = BTreeMap::new();
    for (at, event) in world.events() {
        let (scope, class) = match event {
            Event::BreakerOpened { scope, .. } => (scope, "open"),
            Event::BreakerHalfOpened { scope, .. } => (scope, "half"),
            Event::BreakerClosed { scope, .. } => (scope, "closed"),
            _ => continue,
        };
        scopes.entry(short(scope)).or_insert_with(|| vec![(0.0, "closed")]).push((run.seconds(*at), class));
    }
    if scopes.is_empty() {
        scopes.insert("all".to_owned(), vec![(0.0, "closed")]);
    }
    let left_out = scopes.len().saturating_sub(ROWS_MAX);
    let mut rows: Vec<String> = Vec::new();
    let mut series = Vec::new();
    for (class, name) in [("closed", "closed"), ("half", "half-open, then a ramp"), ("open", "open: nothing leaves")] {
        for (row, states) in scopes.values().take(ROWS_MAX).enumerate() {
            let ends = states.iter().skip(1).map(|(at, _)| *at).chain([run.length]);
            let spans = states.iter().zip(ends).filter(|((_, state), _)| *state == class);
            let spans = spans.map(|((from, _), until)| (*from, until)).collect();
            series.push(Series { name: name.to_owned(), class, mark: Mark::Spans { row, spans } });
        }
    }
    rows.extend(scopes.keys().take(ROWS_MAX).cloned());
    let refused = world.upstream().log().client().filter(|arrival| arrival.status == 429);
    let mut at: Vec<f64> = refused.map(|arrival| run.seconds(arrival.at)).collect();
    at.dedup_by_key(|at| (*at / run.length * COLUMNS as f64) as usize);
    let name = "429".to_owned();
    series.push(Series { name, class: "refused", mark: Mark::Instants { row: rows.len(), at } });
    rows.push("429s".to_owned());
    let note = if left_out > 0 { format!("{left_out} more breakers") } else { scenario.name.clone() };
    vec![run.chart("Breakers".to_owned(), note, Vertical::Rows(rows), series)]
}

fn short(scope: &Scope) -> String {
    match scope {
        Scope::Mailbox(id) | Scope::Tenant(id) => id.split('@').next().unwrap_or(id).to_owned(),
        Scope::Application => "all".to_owned(),
    }
}
