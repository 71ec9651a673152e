//! What must hold between keys, and the bounds of a configuration that was made in code.
//!
//! One pass over everything, so that a person mends a file once and not once per problem.

mod attempt;
mod connect;
mod fleet;
mod horizon;
mod ids;
mod outbox;

use std::collections::BTreeSet;
use std::time::Duration;

use super::Config;
use super::error::{Place, Problem, ProblemKind};
use super::human::show_duration;
use super::key::Key;
use super::keys;
use super::settings::{GraphMode, Mailboxes, SubmitConfig, TransportKind};
use super::value::Value;
use crate::engine::Ratio;
use crate::engine::policy::{
    BreakerPolicy, GuardPolicy, LanesMode, LanesPolicy, MailboxPolicy, RetryPolicy, ScopePolicy,
};

/// One rule that does not hold.
struct Broken {
    kind: ProblemKind,
    /// The keys it is about; the first one that the file sets is shown.
    keys: Vec<&'static str>,
    detail: String,
    allowed: String,
}

impl Broken {
    fn conflict(keys: &[&'static str], detail: String, allowed: String) -> Self {
        Self { kind: ProblemKind::Conflict, keys: keys.to_vec(), detail, allowed }
    }
}

/// Everything that is wrong with `config`, by line and then by key.
pub(crate) fn check(config: &Config) -> Vec<Problem> {
    check_except(config, &BTreeSet::new())
}

/// The same, without what is about a key in `failed`: its value is not in `config`, so nothing can be said of it.
pub(crate) fn check_except(config: &Config, failed: &BTreeSet<String>) -> Vec<Problem> {
    let known = keys::of_config();
    let mut problems = bounds(config, &known);
    if !failed.contains(outbox::URL) {
        problems.extend(outbox::of_another_kind(config, &known));
    }
    let base = config.base_policy();
    let mut broken = of_policy(&base, "mailbox.limits");
    broken.extend(of_scope(&config.tenant, "tenant.limits"));
    broken.extend(of_scope(&config.application, "application.limits"));
    for (scope, limits) in [
        (&base.scope, "mailbox.limits"),
        (&config.tenant, "tenant.limits"),
        (&config.application, "application.limits"),
    ] {
        broken.extend(attempt::of_attempt(scope, limits, &config.transport));
    }
    broken.extend(of_guard(&config.guard, &config.retry));
    broken.extend(of_deadline(&config.submit, &config.retry));
    broken.extend(horizon::of_horizon(&config.guard, &config.retry, &config.transport));
    broken.extend(connect::of_connect(&config.retry, &config.transport));
    broken.extend(fleet::of_fleet(&config.fleet));
    broken.extend(outbox::of_store(&config.store));
    broken.extend(of_program(config));
    for broken in broken.iter().filter(|broken| !broken.keys.iter().any(|key| failed.contains(*key))) {
        let held = |key: &str| known.iter().find(|known| known.path == key).map(|known| known.show(config));
        problems.push(located(config, broken, |key| key.to_owned(), held));
    }
    let own = keys::of_mailbox();
    for id in config.mailboxes.keys() {
        problems.extend(of_mailbox(config, id, &base, &own, failed));
    }
    sort(&mut problems);
    problems
}

/// Puts problems in the order of their lines, then of their keys.
pub(crate) fn sort(problems: &mut [Problem]) {
    let line = |problem: &Problem| problem.place.as_ref().map_or(0, |place| place.line);
    problems.sort_by(|a, b| (line(a), &a.key).cmp(&(line(b), &b.key)));
}

/// Every value against the bounds of its own key. What was read from a text was checked there already.
fn bounds(config: &Config, known: &[Key<Config>]) -> Vec<Problem> {
    let mut trial = config.clone();
    let mut problems = Vec::new();
    for key in known {
        let value = key.show(config);
        if let Err(wrong) = key.read(&mut trial, &value) {
            problems.push(Problem {
                kind: wrong.kind,
                key: key.path.clone(),
                place: config.origins.place_in_file(&key.path),
                value: value.to_string(),
                detail: wrong.detail,
                allowed: key.allowed.clone(),
            });
        }
    }
    problems
}

fn of_mailbox(
    config: &Config,
    id: &str,
    base: &MailboxPolicy,
    known: &[Key<MailboxPolicy>],
    failed: &BTreeSet<String>,
) -> Vec<Problem> {
    let own = &config.mailboxes[id];
    let full = |key: &str| super::mailbox_key(id, key);
    let mut problems = ids::of_mailbox_ids(config, id);
    let mut trial = base.clone();
    for (key, value) in own.values() {
        let Some(found) = known.iter().find(|known| known.path == key) else { continue };
        if let Err(wrong) = found.read(&mut trial, value) {
            let place = config.origins.place_in_file(&full(key));
            let (value, allowed) = (value.to_string(), found.allowed.clone());
            problems.push(Problem { kind: wrong.kind, key: full(key), place, value, detail: wrong.detail, allowed });
        }
    }
    // A rule that the base already breaks is reported there, once.
    let mut rules = of_policy(&trial, "limits");
    rules.extend(attempt::of_attempt(&trial.scope, "limits", &config.transport));
    rules.extend(of_guard(&config.guard, &trial.retry));
    rules.extend(of_deadline(&config.submit, &trial.retry));
    rules.extend(horizon::of_horizon(&config.guard, &trial.retry, &config.transport));
    rules.extend(connect::of_connect(&trial.retry, &config.transport));
    for broken in rules.iter().filter(|broken| broken.keys.iter().any(|key| own.has(key))) {
        let held = |key: &str| known.iter().find(|known| known.path == key).map(|known| known.show(&trial));
        let name = |key: &str| if own.has(key) { full(key) } else { keys::base_of(key) };
        if broken.keys.iter().any(|key| failed.contains(&name(key)) || failed.contains(&full(key))) {
            continue;
        }
        problems.push(located(config, broken, name, held));
    }
    problems
}

/// Names the key that the file sets, or else the first.
fn located(
    config: &Config,
    broken: &Broken,
    name: impl Fn(&str) -> String,
    held: impl Fn(&str) -> Option<Value>,
) -> Problem {
    let found = broken.keys.iter().find_map(|key| Some((*key, config.origins.place_in_file(&name(key))?)));
    let (key, place): (&str, Option<Place>) = match found {
        Some((key, place)) => (key, Some(place)),
        None => (broken.keys.first().copied().unwrap_or(""), None),
    };
    Problem {
        kind: broken.kind,
        key: name(key),
        place,
        value: held(key).map(|value| value.to_string()).unwrap_or_default(),
        detail: broken.detail.clone(),
        allowed: broken.allowed.clone(),
    }
}

fn of_policy(policy: &MailboxPolicy, limits: &'static str) -> Vec<Broken> {
    let mut broken = of_scope(&policy.scope, limits);
    broken.extend(of_lanes(&policy.lanes));
    broken.extend(of_breaker(&policy.breaker));
    broken.extend(of_retry(&policy.retry));
    broken
}

fn of_scope(scope: &ScopePolicy, limits: &'static str) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut seen = BTreeSet::new();
    for limit in &scope.limits {
        if !seen.insert((limit.unit(), limit.window())) {
            let detail = format!("two limits count {} over {}", limit.unit(), show_duration(limit.window()));
            broken.push(Broken::conflict(
                &[limits],
                detail,
                "one limit per unit and window: keep the lower".to_owned(),
            ));
        }
    }
    broken
}

fn of_lanes(lanes: &LanesPolicy) -> Vec<Broken> {
    let mut broken = Vec::new();
    let rest = Ratio::ppm(1_000_000_u32.saturating_sub(lanes.background_share.as_ppm()));
    if lanes.mode == LanesMode::ReservedWindow && lanes.reserve_max > rest {
        broken.push(Broken::conflict(
            &["lanes.reserve", "lanes.background_share"],
            format!(
                "a background share of {} and a reserve of up to {} are together above 100%",
                lanes.background_share, lanes.reserve_max
            ),
            format!("a reserve up to {rest}, or a smaller lanes.background_share"),
        ));
    }
    if lanes.reserve_min > lanes.reserve_max {
        broken.push(Broken::conflict(
            &["lanes.reserve"],
            "its lower end is above its upper end".to_owned(),
            "the lower share first".to_owned(),
        ));
    }
    if lanes.background_floor > lanes.background_share {
        broken.push(Broken::conflict(
            &["lanes.background_floor", "lanes.background_share"],
            format!("a floor of {} is above the share of {}", lanes.background_floor, lanes.background_share),
            format!("at most {}", lanes.background_share),
        ));
    }
    broken
}

fn of_breaker(breaker: &BreakerPolicy) -> Vec<Broken> {
    let order = [
        (
            "breaker.cooldown_short_max",
            breaker.cooldown_short_max,
            "breaker.cooldown_long_max",
            breaker.cooldown_long_max,
        ),
        ("breaker.cooldown_long_max", breaker.cooldown_long_max, "breaker.penalty", breaker.penalty),
        (
            "breaker.ceiling_recovery_min",
            breaker.ceiling_recovery_min,
            "breaker.ceiling_recovery_max",
            breaker.ceiling_recovery_max,
        ),
        (
            "breaker.health_cooldown",
            breaker.health_cooldown,
            "breaker.health_cooldown_max",
            breaker.health_cooldown_max,
        ),
    ];
    let first = breaker
        .cooldown_first
        .map(|first| ("breaker.cooldown_first", first, "breaker.cooldown_short_max", breaker.cooldown_short_max));
    order.into_iter().chain(first).filter_map(not_above).collect()
}

fn of_retry(retry: &RetryPolicy) -> Vec<Broken> {
    let order = [
        ("retry.backoff", retry.backoff, "retry.backoff_max", retry.backoff_max),
        ("retry.attempt_timeout", retry.attempt_timeout, "retry.deadline", retry.deadline),
    ];
    order.into_iter().filter_map(not_above).collect()
}

/// What is given to an operation that names no deadline may be named as well.
fn of_deadline(submit: &SubmitConfig, retry: &RetryPolicy) -> Option<Broken> {
    not_above(("retry.deadline", retry.deadline, "submit.deadline_max", submit.deadline_max))
}

fn of_guard(guard: &GuardPolicy, retry: &RetryPolicy) -> Vec<Broken> {
    let order =
        ("guard.interval_window_max", guard.interval_window_max, "guard.exact_window_max", guard.exact_window_max);
    let mut broken: Vec<Broken> = not_above(order).into_iter().collect();
    if retry.attempt_timeout >= guard.request_deadline_max {
        broken.push(Broken::conflict(
            &["retry.attempt_timeout", "guard.request_deadline_max"],
            format!(
                "an attempt may take {}, and after guard.request_deadline_max = {} it counts as over",
                show_duration(retry.attempt_timeout),
                show_duration(guard.request_deadline_max)
            ),
            format!("below {}", show_duration(guard.request_deadline_max)),
        ));
    }
    broken
}

fn not_above((low, low_is, high, high_is): (&'static str, Duration, &'static str, Duration)) -> Option<Broken> {
    (low_is > high_is).then(|| {
        let detail = format!("{low} = {} is above {high} = {}", show_duration(low_is), show_duration(high_is));
        Broken::conflict(&[low, high], detail, format!("{low} at most {high}"))
    })
}

fn of_program(config: &Config) -> Vec<Broken> {
    let mut broken = Vec::new();
    if config.submit.mailboxes == Mailboxes::Listed && config.mailboxes.is_empty() {
        broken.push(Broken::conflict(
            &["submit.mailboxes"],
            "only listed mailboxes may send, and none is listed".to_owned(),
            "\"any\", or at least one table [mailboxes.\"…\"]".to_owned(),
        ));
    }
    let graph = &config.transport.graph;
    let places = [&graph.client_secret_env, &graph.client_secret_file];
    let secrets =
        places.iter().filter(|place| !place.is_empty()).count() + usize::from(!graph.client_secret.is_empty());
    const SECRETS: [&str; 3] =
        ["transport.graph.client_secret_env", "transport.graph.client_secret_file", "transport.graph.client_secret"];
    if secrets > 1 {
        let detail = format!("the client secret has {secrets} places");
        broken.push(Broken::conflict(
            &SECRETS,
            detail,
            "one of client_secret, client_secret_env, client_secret_file".to_owned(),
        ));
    }
    if graph.mode == GraphMode::DraftThenSend && graph.batch_max > 1 {
        broken.push(Broken::conflict(
            &["transport.graph.mode", "transport.graph.batch_max"],
            format!("a draft is sent by itself, and transport.graph.batch_max = {} asks for batches", graph.batch_max),
            "transport.graph.batch_max = 1, or \"send-mail\"".to_owned(),
        ));
    }
    if config.transport.kind == TransportKind::Graph {
        let needed = [("transport.graph.tenant", &graph.tenant), ("transport.graph.client_id", &graph.client_id)];
        broken.extend(needed.into_iter().filter(|(_, value)| value.is_empty()).map(|(key, _)| missing(key)));
        if secrets == 0 {
            broken.push(missing(SECRETS[0]));
        }
        broken.extend(
            [("transport.graph.base_url", &graph.base_url), ("transport.graph.authority", &graph.authority)]
                .into_iter()
                .filter_map(not_a_url),
        );
    }
    broken
}

fn missing(key: &'static str) -> Broken {
    Broken {
        kind: ProblemKind::Missing,
        keys: vec![key],
        detail: "needed because transport.kind is \"graph\"".to_owned(),
        allowed: "the value from the application's registration; for the secret, the variable or file that holds it"
            .to_owned(),
    }
}

/// Tokens travel there: no plain HTTP, except to this machine.
fn not_a_url((key, url): (&'static str, &String)) -> Option<Broken> {
    let local = ["http://127.0.0.1", "http://localhost", "http://[::1]"];
    let local = local
        .iter()
        .filter_map(|prefix| url.strip_prefix(prefix))
        .any(|rest| rest.is_empty() || rest.starts_with([':', '/']));
    let no_path = key.ends_with("authority") || url.trim_end_matches('/').matches('/').count() <= 2;
    let remote = url.strip_prefix("https://").is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    (!(local || remote) || !no_path).then(|| Broken {
        kind: ProblemKind::Malformed,
        keys: vec![key],
        detail: "no address that tokens may travel to".to_owned(),
        allowed: "https://HOST, or http:// of this machine, where nobody listens on the way; no path".to_owned(),
    })
}
