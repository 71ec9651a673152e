//! The horizon rule: no blind repeat after the provider has forgotten the first (algorithms 5, O9).
//!
//! Said at the configuration, because at run time it is too late to wonder why nothing is repeated. The engine keeps it
//! all the same, send by send: limits can make a repeat wait for longer than anybody planned.

use std::time::Duration;

use super::Broken;
use crate::config::human::show_duration;
use crate::config::settings::TransportConfig;
use crate::engine::policy::{DuplicatePolicy, GuardPolicy, LOOK_UPS, RetryPolicy, clock_slack, look_up_gap};

pub(super) fn of_horizon(guard: &GuardPolicy, retry: &RetryPolicy, transport: &TransportConfig) -> Vec<Broken> {
    if retry.duplicates != DuplicatePolicy::AtLeastOnce {
        return Vec::new();
    }
    [blind_repeats(guard, retry, transport), look_ups(guard, retry, transport)].into_iter().flatten().collect()
}

fn blind_repeats(guard: &GuardPolicy, retry: &RetryPolicy, transport: &TransportConfig) -> Option<Broken> {
    let window = transport.provider().dedupe_window;
    let margin = guard.request_deadline_max.saturating_add(clock_slack(guard, window));
    if retry.horizon.is_zero() || retry.horizon.saturating_add(margin) <= window {
        return None;
    }
    let longest = whole_seconds(window.saturating_sub(margin));
    let shorter = if longest.is_zero() { String::new() } else { format!("at most {}, or ", show_duration(longest)) };
    Some(Broken::conflict(
        &["retry.horizon", "transport.dedupe_window", "retry.duplicates"],
        format!(
            "retry.horizon = {} with guard.request_deadline_max = {} and a clock slack of {} outlasts \
             transport.dedupe_window = {}: a repeat could come when the provider has forgotten the first",
            show_duration(retry.horizon),
            show_duration(guard.request_deadline_max),
            show_duration(clock_slack(guard, window)),
            show_duration(window),
        ),
        format!(
            "{shorter}\"0s\" (repeated only once it is known absent), or a longer transport.dedupe_window if the \
             provider promises one"
        ),
    ))
}

/// "Absent" has to be heard twice before the unknown is given up.
fn look_ups(guard: &GuardPolicy, retry: &RetryPolicy, transport: &TransportConfig) -> Option<Broken> {
    let [first, second] = [0, 1].map(|look: usize| LOOK_UPS[look].max(transport.visibility_delay));
    let heard_twice = second.max(first.saturating_add(look_up_gap(guard)));
    (heard_twice >= retry.unknown_max).then(|| {
        Broken::conflict(
            &["retry.unknown_max", "transport.visibility_delay", "retry.duplicates"],
            format!(
                "an unknown is given up after retry.unknown_max = {}, before it can be found absent twice after \
                 transport.visibility_delay = {}",
                show_duration(retry.unknown_max),
                show_duration(transport.visibility_delay),
            ),
            format!("retry.unknown_max above {}", show_duration(heard_twice)),
        )
    })
}

fn whole_seconds(span: Duration) -> Duration {
    Duration::from_secs(span.as_secs())
}
