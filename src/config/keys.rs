//! Every key, with its bounds.
//!
//! Bounds refuse what is absurd, not what is unwise: the widest value that somebody could mean is allowed. What is
//! impossible only together with another key is in `rules`.

use std::num::NonZeroU32;
use std::time::Duration;

use super::Config;
use super::callers::{Ceiling, Overrides, UNLIMITED};
use super::codec::{Count, Domains, Hidden, Limits, Line, Or, Share, ShareRange, Size, Span, Word};
use super::key::{Key, Reload, within};
use super::settings::{
    ActorsConfig, GraphConfig, GraphMode, Mailboxes, OnPanic, OrdersConfig, Redaction, ShutdownConfig, SubmitConfig,
    TelemetryConfig, TransportConfig, TransportKind,
};
use crate::engine::Ratio;
use crate::engine::callers::CallersPolicy;
use crate::engine::policy::{
    BreakerPolicy, CutOff, DuplicatePolicy, FleetPolicy, GuardPolicy, LanesMode, LanesPolicy, MailboxPolicy,
    QueuePolicy, ResumePolicy, RetryPolicy, ScopePolicy,
};

/// Most limits of one scope.
pub(crate) const LIMITS_MAX: usize = 16;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
/// Nothing here is meant to last longer.
const YEAR: Duration = Duration::from_secs(366 * 86_400);

const ANY_SHARE: Share = Share(Ratio::ZERO, Ratio::ONE);
/// Above nothing.
const SOME_SHARE: Share = Share(Ratio::ppm(1), Ratio::ONE);

/// `keys![Live; field: codec, …]`: the keys of a table whose fields have the keys' names.
macro_rules! keys {
    ($reload:ident; $($field:ident: $codec:expr),* $(,)?) => {
        vec![$(Key::new(stringify!($field), Reload::$reload, $codec, |s| s.$field.clone(), |s, out| s.$field = out)),*]
    };
}

mod outbox;

const fn at_least_one(most: u32) -> Count<NonZeroU32> {
    Count(NonZeroU32::MIN, NonZeroU32::new(most).expect("every bound in this table is above zero"))
}

fn scope() -> Vec<Key<ScopePolicy>> {
    keys![Live; limits: Limits(LIMITS_MAX), concurrency: Or("unlimited", at_least_one(1_000_000))]
}

fn guard() -> Vec<Key<GuardPolicy>> {
    let mut keys: Vec<Key<GuardPolicy>> = keys![Live;
        clock_error: Share(Ratio::ZERO, Ratio::percent(5)),
        request_deadline_max: Span(SECOND, HOUR),
        interval_window_max: Span(Duration::ZERO, MINUTE),
    ];
    // How a window is kept is fixed when its ledger is made.
    let fixed: Vec<Key<GuardPolicy>> = keys![Restart;
        exact_window_max: Span(SECOND, DAY),
        exact_entries_max: Count(16, 1_000_000),
        sub_buckets: Count(12, 10_000),
    ];
    keys.extend(fixed);
    keys
}

fn lanes() -> Vec<Key<LanesPolicy>> {
    let mut keys: Vec<Key<LanesPolicy>> = keys![Live;
        mode: Word(&[("reserved-window", LanesMode::ReservedWindow), ("hard-cap", LanesMode::HardCap)]),
        background_share: ANY_SHARE,
        reserve_factor: Share(Ratio::percent(10), Ratio::percent(1_000)),
        half_life: Span(MINUTE, 30 * DAY),
        background_burst: ANY_SHARE,
        history_min: Span(Duration::ZERO, 30 * DAY),
        foreground_expected_per_hour: Or("unknown", Count(0, 10_000_000)),
        background_floor: Share(Ratio::ZERO, Ratio::percent(50)),
        bypass_max: Count(0, 1_000),
    ];
    keys.push(Key::new(
        "reserve",
        Reload::Live,
        ShareRange(Ratio::ZERO, Ratio::ONE),
        |lanes| (lanes.reserve_min, lanes.reserve_max),
        |lanes, (min, max)| (lanes.reserve_min, lanes.reserve_max) = (min, max),
    ));
    keys
}

fn breaker() -> Vec<Key<BreakerPolicy>> {
    keys![Live;
        cooldown_first: Or("auto", Span(SECOND, DAY)),
        cooldown_growth: Share(Ratio::ONE, Ratio::percent(1_000)),
        cooldown_short_max: Span(SECOND, DAY),
        cooldown_long_max: Span(SECOND, DAY),
        penalty: Span(SECOND, DAY),
        penalty_chain: Count(0, 100_000),
        retry_after_margin: Span(Duration::ZERO, MINUTE),
        retry_after_spread: ANY_SHARE,
        retry_after_max: Span(SECOND, DAY),
        trip_windows: Count(1, 10_000),
        trip_chain: Count(1, 1_000),
        ceiling: Share(Ratio::percent(1), Ratio::ONE),
        ceiling_recovery_min: Span(SECOND, DAY),
        ceiling_recovery_max: Span(SECOND, DAY),
        probe_successes: Count(1, 100),
        probe_timeout: Span(SECOND, HOUR),
        ramp_start: SOME_SHARE,
        ramp: Span(Duration::ZERO, HOUR),
        concurrency_recovery: Span(SECOND, DAY),
        health_failures: Count(1, 10_000),
        health_ratio: SOME_SHARE,
        health_calls_min: Count(1, 100_000),
        health_probes: Count(1, 100),
        health_cooldown: Span(SECOND, DAY),
        health_cooldown_max: Span(SECOND, DAY),
        manual_expiry: Span(SECOND, 30 * DAY),
    ]
}

fn retry() -> Vec<Key<RetryPolicy>> {
    keys![Live;
        attempts_max: at_least_one(1_000),
        backoff: Span(MS, HOUR),
        backoff_max: Span(MS, DAY),
        deadline: Span(SECOND, YEAR),
        attempt_timeout: Span(SECOND, HOUR),
        duplicates: Word(&[
            ("at-most-once", DuplicatePolicy::AtMostOnce),
            ("at-least-once", DuplicatePolicy::AtLeastOnce),
        ]),
        horizon: Span(Duration::ZERO, 30 * DAY),
        unknown_max: Span(MINUTE, 30 * DAY),
        crashes_max: at_least_one(1_000),
    ]
}

fn resume() -> Vec<Key<ResumePolicy>> {
    keys![Live; spread: Span(Duration::ZERO, DAY), watch: Span(SECOND, DAY), failed_max: ANY_SHARE]
}

fn queue() -> Vec<Key<QueuePolicy>> {
    keys![Live; foreground_max: Count(1, 100_000_000), background_max: Count(1, 100_000_000)]
}

fn fleet() -> Vec<Key<FleetPolicy>> {
    let cut_off = || Word(&[("half", CutOff::Half), ("pause", CutOff::Pause), ("trickle", CutOff::Trickle)]);
    // Every process of a fleet has to go by the same numbers.
    keys![Restart;
        processes_max: at_least_one(10_000),
        lease_ttl: Span(3 * SECOND, HOUR),
        renew_every: Span(SECOND, HOUR),
        lease_margin: Span(SECOND, HOUR),
        adopt_every: Span(SECOND, HOUR),
        poll_every: Span(SECOND, HOUR),
        grace: Span(Duration::ZERO, DAY),
        foreground: cut_off(),
        background: cut_off(),
        trickle: ANY_SHARE,
        rebuilt_above: Span(Duration::ZERO, DAY),
        retry_after: Span(100 * MS, MINUTE),
        calm_renewals: Count(0, 1_000),
        batch_max: at_least_one(100_000),
        order_max: Span(SECOND, HOUR),
    ]
}

fn actors() -> Vec<Key<ActorsConfig>> {
    keys![Restart;
        live_max: Count(1, 100_000_000),
        passivate_after: Span(SECOND, 30 * DAY),
        actor_queue_capacity: Count(1, 1_000_000),
        restarts_max: Count(0, 1_000),
        restart_period: Span(SECOND, DAY),
        on_panic: Word(&[("restart", OnPanic::Restart), ("abort", OnPanic::Abort)]),
    ]
}

fn submit() -> Vec<Key<SubmitConfig>> {
    keys![Live;
        operation_id_bytes_max: Count(16, 4_096),
        recipients_max: Count(1, 100_000),
        size_max: Size(1_000, 1_000_000_000),
        admission_cooldown_max: Span(SECOND, 30 * DAY),
        admission_keys_max: Count(1, 10_000_000),
        deadline_max: Span(SECOND, YEAR),
        own_domains: Domains(10_000),
        mailboxes: Word(&[("any", Mailboxes::Any), ("listed", Mailboxes::Listed)]),
    ]
}

fn orders() -> Vec<Key<OrdersConfig>> {
    keys![Live; ended_for: Span(Duration::ZERO, YEAR), ended_max: Count(0, 100_000)]
}

fn callers() -> Vec<Key<CallersPolicy>> {
    keys![Live;
        ceiling: Or(UNLIMITED, Ceiling),
        overrides: Overrides(10_000),
        tracked_max: Count(1, 1_000_000),
    ]
}

fn telemetry() -> Vec<Key<TelemetryConfig>> {
    keys![Live;
        mailbox_redaction: Word(&[("none", Redaction::None), ("hash", Redaction::Hash), ("omit", Redaction::Omit)]),
    ]
}

fn shutdown() -> Vec<Key<ShutdownConfig>> {
    keys![Live; drain_deadline: Span(Duration::ZERO, HOUR)]
}

fn graph() -> Vec<Key<GraphConfig>> {
    keys![Restart;
        mode: Word(&[("send-mail", GraphMode::SendMail), ("draft-then-send", GraphMode::DraftThenSend)]),
        base_url: Line(2_048),
        authority: Line(2_048),
        scope: Line(2_048),
        tenant: Line(253),
        client_id: Line(253),
        client_secret: Hidden(Line(4_096)),
        client_secret_env: Line(253),
        client_secret_file: Line(4_096),
        batch_max: Count(1, 20),
        batch_bytes_max: Size(10_000, 150_000_000),
        connect_timeout: Span(MS, MINUTE),
        idle_timeout: Span(MS, HOUR),
    ]
}

fn transport() -> Vec<Key<TransportConfig>> {
    let mut keys: Vec<Key<TransportConfig>> = keys![Restart;
        kind: Word(&[("simulated", TransportKind::Simulated), ("graph", TransportKind::Graph)]),
    ];
    let provider: Vec<Key<TransportConfig>> = keys![Live;
        visibility_delay: Span(Duration::ZERO, DAY),
        dedupe_window: Or("auto", Span(Duration::ZERO, 31 * DAY)),
    ];
    keys.extend(provider);
    keys.extend(within("graph", graph(), |t: &TransportConfig| &t.graph, |t| &mut t.graph));
    keys
}

/// `table!(root, field, keys)`: the keys of a field of `root`, below its name.
macro_rules! table {
    ($root:ty, $field:ident, $keys:expr) => {
        within(stringify!($field), $keys, |root: &$root| &root.$field, |root| &mut root.$field)
    };
}

/// Every key of the configuration, except those of single mailboxes.
pub(crate) fn of_config() -> Vec<Key<Config>> {
    let mut keys = table!(Config, store, outbox::store());
    keys.extend(table!(Config, mailbox, scope()));
    keys.extend(table!(Config, tenant, scope()));
    keys.extend(table!(Config, application, scope()));
    keys.extend(table!(Config, guard, guard()));
    keys.extend(table!(Config, lanes, lanes()));
    keys.extend(table!(Config, breaker, breaker()));
    keys.extend(table!(Config, retry, retry()));
    keys.extend(table!(Config, resume, resume()));
    keys.extend(table!(Config, queue, queue()));
    keys.extend(table!(Config, fleet, fleet()));
    keys.extend(table!(Config, actors, actors()));
    keys.extend(table!(Config, submit, submit()));
    keys.extend(table!(Config, callers, callers()));
    keys.extend(table!(Config, orders, orders()));
    keys.extend(table!(Config, telemetry, telemetry()));
    keys.extend(table!(Config, shutdown, shutdown()));
    keys.extend(table!(Config, transport, transport()));
    keys
}

/// The keys that a table `[mailboxes."…"]` may override. Safety margins are the same for all mailboxes.
pub(crate) fn of_mailbox() -> Vec<Key<MailboxPolicy>> {
    let mut keys: Vec<Key<MailboxPolicy>> = keys_of_scope();
    keys.extend(table!(MailboxPolicy, lanes, lanes()));
    keys.extend(table!(MailboxPolicy, breaker, breaker()));
    keys.extend(table!(MailboxPolicy, retry, retry()));
    keys.extend(table!(MailboxPolicy, resume, resume()));
    keys.extend(table!(MailboxPolicy, queue, queue()));
    keys
}

/// `limits` and `concurrency` stand directly in the mailbox's table.
fn keys_of_scope() -> Vec<Key<MailboxPolicy>> {
    let mut keys = within("", scope(), |policy: &MailboxPolicy| &policy.scope, |policy| &mut policy.scope);
    for key in &mut keys {
        key.path.remove(0); // the dot after the empty table name
    }
    keys
}

/// The key of the base table that a mailbox inherits `path` from.
pub(crate) fn base_of(path: &str) -> String {
    if path.contains('.') { path.to_owned() } else { format!("mailbox.{path}") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Debug;

    use super::*;

    /// The names of a struct's fields, from its `Debug`.
    fn fields(part: &impl Debug) -> BTreeSet<String> {
        let shown = format!("{part:#?}");
        let names = shown.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(": "));
        names.map(|(name, _)| name.to_owned()).filter(|name| !name.starts_with(' ')).collect()
    }

    #[track_caller]
    fn assert_all<S: Debug + Default>(keys: Vec<Key<S>>) {
        let keys: BTreeSet<String> =
            keys.into_iter().map(|key| key.path.split('.').next().unwrap_or("").to_owned()).collect();
        assert_eq!(keys, fields(&S::default()));
    }

    #[test]
    fn every_field_has_its_key() {
        assert_all(scope());
        assert_all(guard());
        assert_all(breaker());
        assert_all(retry());
        assert_all(resume());
        assert_all(queue());
        assert_all(fleet());
        assert_all(outbox::store());
        assert_all(outbox::memory());
        assert_all(outbox::sqlite());
        assert_all(outbox::redis());
        assert_all(actors());
        assert_all(submit());
        assert_all(callers());
        assert_all(orders());
        assert_all(telemetry());
        assert_all(shutdown());
        assert_all(graph());
        assert_all(transport());
    }

    #[test]
    fn every_field_of_the_lanes_has_its_key_and_the_reserve_is_one_key() {
        let mut keys: BTreeSet<String> = lanes().into_iter().map(|key| key.path).collect();
        assert!(keys.remove("reserve"));
        keys.extend(["reserve_min".to_owned(), "reserve_max".to_owned()]);
        assert_eq!(keys, fields(&LanesPolicy::default()));
    }

    #[test]
    fn every_table_of_the_configuration_has_its_keys() {
        let tables: BTreeSet<String> =
            of_config().iter().map(|key| key.path.split('.').next().unwrap_or("").to_owned()).collect();
        let mut fields = fields(&Config::default());
        assert!(fields.remove("mailboxes") && fields.remove("origins"));
        assert_eq!(tables, fields);
    }
}
