//! The configuration file: what it refuses, and in which words.
#![cfg(feature = "config")]

use std::path::PathBuf;

use mailweir::config::{Config, ConfigError, Problem, ProblemKind};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/config").join(name)
}

fn refused(name: &str) -> ConfigError {
    Config::from_path(fixture(name)).expect_err("this fixture is wrong on purpose")
}

/// (kind, line, key, part of value, part of detail, part of allowed) of each problem, in order.
type Expected<'a> = (ProblemKind, u32, &'a str, &'a str, &'a str, &'a str);

#[track_caller]
fn assert_problems(name: &str, expected: &[Expected<'_>]) {
    let error = refused(name);
    let found: Vec<&Problem> = error.problems().iter().collect();
    assert_eq!(found.len(), expected.len(), "{error}");
    for (problem, (kind, line, key, value, detail, allowed)) in found.iter().zip(expected) {
        let place = problem.place.as_ref().map(|place| place.line);
        assert_eq!((problem.kind, place, problem.key.as_str()), (*kind, Some(*line), *key), "{error}");
        assert!(problem.value.contains(value), "{value} in {problem}");
        assert!(problem.detail.contains(detail), "{detail} in {problem}");
        assert!(problem.allowed.contains(allowed), "{allowed} in {problem}");
    }
}

use ProblemKind::{Conflict, Malformed, Missing, OutOfRange, Syntax, UnknownKey, WrongType};

#[test]
fn a_text_that_is_no_toml_is_refused_at_its_line() {
    let error = refused("syntax.toml");
    let problem = &error.problems()[0];
    assert_eq!((problem.kind, problem.place.as_ref().map(|place| place.line)), (Syntax, Some(2)));
}

#[test]
fn unknown_keys_are_refused_at_every_level_with_what_was_meant() {
    assert_problems(
        "unknown-key.toml",
        &[
            (UnknownKey, 2, "lanes.backgroud_share", "50%", "`background_share`", "background_share, "),
            (UnknownKey, 5, "retry.attempts", "4", "`attempts_max`", "attempts_max, backoff"),
            (UnknownKey, 7, "mailboxess", "{…}", "`mailboxes`", "store, mailbox, "),
            (UnknownKey, 10, "lanes.deep", "{…}", "no such key", "mode, "),
        ],
    );
}

#[test]
fn unknown_keys_of_a_mailbox_are_refused_and_guards_are_no_key_of_one() {
    let mailbox = "mailboxes.\"alerts@contoso.example\"";
    assert_problems(
        "unknown-key-of-mailbox.toml",
        &[
            (UnknownKey, 2, &format!("{mailbox}.limts"), "20 requests", "`limits`", "limits, concurrency, lanes"),
            (UnknownKey, 3, &format!("{mailbox}.guard"), "{…}", "no such key", "tenant"),
            (UnknownKey, 6, &format!("{mailbox}.lanes.colour"), "blue", "no such key", "mode, "),
        ],
    );
}

#[test]
fn values_of_another_type_are_refused() {
    assert_problems(
        "wrong-type.toml",
        &[
            (WrongType, 1, "lanes", "3", "an integer where a table belongs", "[lanes]"),
            (WrongType, 4, "mailbox.concurrency", "\"four\"", "a string", "\"unlimited\", or a whole number from 1"),
            (WrongType, 5, "mailbox.limits", "30 requests", "an array", "30 requests / 1m"),
            (WrongType, 8, "retry.backoff", "5", "a duration in quotes", "\"90s\""),
            (WrongType, 9, "retry.attempts_max", "8.0", "a float", "from 1 to 1000"),
            (WrongType, 12, "submit.own_domains", "7", "an integer where a string belongs", "contoso.example"),
            (WrongType, 15, "store.url", "memory:", "an array where a string belongs", "one line"),
            (WrongType, 18, "mailboxes.\"a@b.example\"", "true", "a boolean where a table belongs", ""),
        ],
    );
}

#[test]
fn values_that_cannot_be_read_are_refused() {
    assert_problems(
        "malformed.toml",
        &[
            (Malformed, 1, "preset", "grahp", "`graph`", "\"onenote-like\""),
            (Malformed, 4, "mailbox.limits", "30 apples / 1m", "counts in \"apples\"", "30 requests / 1m"),
            (Malformed, 7, "lanes.mode", "half", "words", "\"reserved-window\" or \"hard-cap\""),
            (Malformed, 8, "lanes.reserve", "10%", "not a range", "10%..50%"),
            (Malformed, 9, "lanes.background_share", "half", "not a share", "from 0% to 100%"),
            (Malformed, 12, "breaker.ramp", "30 seconds", "not a duration", "1h 30m"),
            (Malformed, 15, "submit.size_max", "150", "not a size", "150MB"),
        ],
    );
}

#[test]
fn zero_and_absurd_values_are_refused() {
    assert_problems(
        "out-of-range.toml",
        &[
            (OutOfRange, 2, "mailbox.limits", "0 requests", "at least 1", "limits such as"),
            (OutOfRange, 3, "mailbox.concurrency", "0", "below", "from 1 to"),
            (OutOfRange, 6, "tenant.limits", "400d", "at most 366d", ""),
            (OutOfRange, 9, "lanes.background_share", "150%", "above", "from 0% to 100%"),
            (OutOfRange, 10, "lanes.reserve", "50%..10%", "lower end is above", "lower one first"),
            (OutOfRange, 13, "retry.attempts_max", "-1", "below zero", "from 1 to 1000"),
            (OutOfRange, 14, "retry.deadline", "0s", "below", "from 1s"),
            (OutOfRange, 17, "actors.actor_queue_capacity", "0", "below", "from 1 to 1000000"),
            (OutOfRange, 20, "application.limits", "paranoid", "too small for paranoid", ""),
        ],
    );
}

#[test]
fn an_id_that_no_submission_could_name_is_refused() {
    let long = format!("mailboxes.\"{}\"", "m".repeat(257));
    assert_problems(
        "ids.toml",
        &[
            (Malformed, 2, "mailboxes.\"break@b.example\".tenant", "a\\r\\nb", "U+000D at byte 1", "1 to 128 bytes"),
            (OutOfRange, 5, "mailboxes.\"long@b.example\".tenant", "ttt", "129 bytes long", "1 to 128 bytes"),
            (OutOfRange, 8, "mailboxes.\"empty@b.example\".tenant", "\"\"", "empty", "1 to 128 bytes"),
            (WrongType, 11, "mailboxes.\"number@b.example\".tenant", "7", "where a string belongs", "in quotes"),
            (Malformed, 13, "mailboxes.\"two\\r\\nlines\"", "two\\r\\nlines", "U+000D at byte 3", "1 to 256 bytes"),
            (OutOfRange, 15, &long, "mmm", "257 bytes long", "1 to 256 bytes"),
            (OutOfRange, 17, "mailboxes.\"\"", "\"\"", "empty", "1 to 256 bytes"),
            (Malformed, 20, "callers.overrides", "ccc", "1 to 128 bytes", "callers such as"),
        ],
    );
}

#[test]
fn an_attempt_outlasts_the_wait_for_its_connection() {
    let graph = "[transport]\nkind = \"graph\"\ngraph = { tenant = \"t\", client_id = \"c\", client_secret_env = \"S\"";
    let with = |own: &str, connect: &str| format!("{own}\n{graph}, connect_timeout = \"{connect}\" }}");
    let base = "retry.attempt_timeout = \"10s\"";
    let error = refusal(&with(base, "10s"));
    for part in ["test.toml:1: retry.attempt_timeout = \"10s\"", "transport.graph.connect_timeout = 10s", "above 10s"] {
        assert!(error.contains(part), "{part} in {error}");
    }
    assert!(Config::from_toml(&with(base, "9999ms"), "below").is_ok());
    let own = refusal(&with("mailboxes.m.retry.attempt_timeout = \"3s\"", "5s"));
    assert!(own.contains("mailboxes.\"m\".retry.attempt_timeout = \"3s\""), "{own}");
    // Of a transport that is not used it says nothing; the demo's numbers serve one that is.
    assert!(Config::from_toml(base, "simulated").is_ok());
    let demo = Config::from_toml(&format!("preset = \"demo\"\n{graph} }}"), "demo");
    assert!(demo.is_ok(), "{demo:?}");
}

#[test]
fn impossible_combinations_are_refused_all_at_once() {
    assert_problems(
        "conflict.toml",
        &[
            (Conflict, 2, "mailbox.limits", "20 requests", "two limits count requests over 1m", "one limit per unit"),
            (Conflict, 5, "lanes.background_share", "80%", "together above 100%", "a reserve up to 20%"),
            (Conflict, 8, "breaker.cooldown_short_max", "10m", "above breaker.cooldown_long_max = 6m", "at most"),
            (Conflict, 9, "breaker.health_cooldown", "10m", "above breaker.health_cooldown_max = 5m", "at most"),
            (Conflict, 12, "retry.attempt_timeout", "65s", "counts as over", "below 65s"),
            (Conflict, 13, "retry.backoff", "20m", "above retry.backoff_max = 10m", "at most"),
            (Conflict, 16, "submit.mailboxes", "listed", "none is listed", "\"any\""),
            (Conflict, 19, "transport.graph.client_secret_env", "SECRET", "2 places", "one of"),
        ],
    );
}

#[test]
fn a_mailbox_is_checked_with_what_it_inherits() {
    let mailbox = "mailboxes.\"alerts@contoso.example\"";
    assert_problems(
        "conflict-of-mailbox.toml",
        &[
            (Conflict, 7, &format!("{mailbox}.lanes.reserve"), "10%..50%", "share of 60%", "up to 40%"),
            (Conflict, 8, &format!("{mailbox}.retry.attempt_timeout"), "70s", "counts as over", "below 65s"),
        ],
    );
}

#[test]
fn a_graph_transport_needs_its_registration_and_an_encrypted_way() {
    let error = refused("missing.toml");
    let found: Vec<(ProblemKind, &str)> =
        error.problems().iter().map(|problem| (problem.kind, problem.key.as_str())).collect();
    assert_eq!(
        found,
        [
            (Missing, "transport.graph.client_secret_env"),
            (Missing, "transport.graph.tenant"),
            (Malformed, "transport.graph.base_url"),
        ],
        "{error}"
    );
}

#[test]
fn every_kind_of_problem_has_a_fixture() {
    let mut left: Vec<ProblemKind> = ProblemKind::ALL.to_vec();
    for entry in std::fs::read_dir(fixture("")).expect("the fixtures are there") {
        if let Err(error) = Config::from_path(entry.expect("a readable folder").path()) {
            left.retain(|kind| !error.problems().iter().any(|problem| problem.kind == *kind));
        }
    }
    assert!(left.is_empty(), "no fixture fails with {left:?}");
}

#[test]
fn every_error_reads_as_file_line_key_value_and_what_is_allowed() {
    let error = Config::from_toml("\n[lanes]\nbackground_share = \"150%\"\n", "mail.toml").expect_err("150 %");
    assert_eq!(
        error.to_string(),
        "mail.toml:3: lanes.background_share = \"150%\": above what is allowed; \
         allowed: a share such as \"50%\" or \"0.5%\", with at most four decimals, from 0% to 100%"
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Config::from_path(fixture("none.toml")).expect_err("there is no such file");
    assert!(matches!(&error, ConfigError::Unreadable { .. }));
    assert!(error.to_string().contains("none.toml"), "{error}");
}

#[test]
fn a_file_that_is_not_utf8_is_refused_where_it_stops_being() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("latin1.toml");
    std::fs::write(&path, b"[store]\nurl = \"m\xe9m\"\n").expect("a scratch file");
    let error = Config::from_path(&path).expect_err("latin 1");
    let problem = &error.problems()[0];
    assert_eq!((problem.kind, problem.place.as_ref().map(|place| place.line)), (Syntax, Some(2)));
}

#[test]
fn secrets_show_in_no_error() {
    let error = refused("secrets.toml");
    assert!(error.problems().iter().any(|problem| problem.key == "transport.graph.client_secret"), "{error}");
    assert!(error.problems().iter().any(|problem| problem.key == "transport.graph.client_secrt"), "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
}

#[test]
fn a_setting_of_a_store_that_is_not_named_is_refused_and_its_default_says_nothing() {
    assert_problems(
        "store.toml",
        &[
            (
                Conflict,
                5,
                "store.sqlite.busy_wait",
                "2s",
                "of a sqlite store, and store.url = \"memory:\"",
                "sqlite:PATH",
            ),
            (
                Conflict,
                6,
                "store.sqlite.live_max",
                "7",
                "a memory store, where it",
                "; store.memory.live_max, or store.url",
            ),
            (Conflict, 11, "store.redis.prefix", "mail", "of a redis store", "redis://"),
        ],
    );
    let all = std::fs::read_to_string("config/default.toml").expect("it is there");
    let all = all.replace("sqlite:mailweir.db", "memory:");
    Config::from_toml(&all, "memory.toml").expect("defaults of another kind say nothing");
}

#[test]
fn emails_are_not_kept_for_longer_than_their_operations_and_a_prefix_is_spelled_plainly() {
    let text = "[store.sqlite]\nended_for = \"1h\"\npayloads_for = \"2h\"";
    let refused = refusal(text);
    assert!(
        refused.contains("test.toml:3: store.sqlite.payloads_for = \"2h\": store.sqlite.payloads_for = 2h is above"),
        "{refused}"
    );
    let refused = refusal("[store]\nurl = \"redis://h\"\nredis.prefix = \"a{b}\"");
    assert!(
        refused.contains("test.toml:3: store.redis.prefix = \"a{b}\"") && refused.contains("1 to 32 letters"),
        "{refused}"
    );
    let refused = refusal("store.sqlite.file_bytes_max = \"1kB\"");
    assert!(refused.contains("store.sqlite.file_bytes_max = \"1kB\"") && refused.contains("from 1MB"), "{refused}");
    let refused = refusal("store.sqlite.retention = \"1h\"");
    assert!(refused.contains("store.sqlite.retention") && refused.contains("live_max, ended_max"), "{refused}");
}

fn refusal(text: &str) -> String {
    Config::from_toml(text, "test.toml").expect_err(text).to_string()
}

#[test]
fn a_horizon_that_outlasts_the_dedupe_window_is_refused_with_both_keys_and_the_way_out() {
    let retry = "[retry]\nduplicates = \"at-least-once\"\nhorizon = ";
    for (transport, longest) in [
        ("", None),
        ("[transport]\ndedupe_window = \"1m\"", None),
        ("[transport]\ndedupe_window = \"1h\"", Some("3531s")),
    ] {
        let error = refusal(&format!("{retry}\"1h\"\n{transport}"));
        for part in
            ["retry.horizon", "transport.dedupe_window", "guard.request_deadline_max", "\"0s\"", "test.toml:3: "]
        {
            assert!(error.contains(part), "{part} in {error}");
        }
        assert!(longest.is_none_or(|longest| error.contains(&format!("at most {longest}"))), "{error}");
    }
    // The longest that was named is accepted, and one second more is not.
    let with = |horizon: u32| format!("{retry}\"{horizon}s\"\n[transport]\ndedupe_window = \"1h\"");
    assert!(Config::from_toml(&with(3_531), "exactly").is_ok());
    assert!(Config::from_toml(&with(3_532), "above").is_err());
    // Never blindly, or never again: nothing to outlast.
    assert!(Config::from_toml(&format!("{retry}\"0s\""), "zero").is_ok());
    assert!(Config::from_toml("[retry]\nhorizon = \"1h\"", "at most once").is_ok());
}

#[test]
fn a_mailbox_cannot_have_a_horizon_of_its_own_beyond_the_window() {
    let own = "[mailboxes.\"a@b.example\"]\nretry.duplicates = \"at-least-once\"\nretry.horizon = \"10m\"";
    let error = refusal(own);
    assert!(error.contains("mailboxes.\"a@b.example\".retry.horizon"), "{error}");
    assert!(Config::from_toml(&format!("{own}\n[transport]\ndedupe_window = \"24h\""), "long").is_ok());
}

#[test]
fn a_deadline_by_default_is_one_that_could_be_named() {
    let error = refusal("[submit]\ndeadline_max = \"1h\"");
    for part in ["test.toml:2: submit.deadline_max", "retry.deadline = 24h is above", "retry.deadline at most"] {
        assert!(error.contains(part), "{part} in {error}");
    }
    let both = "[submit]\ndeadline_max = \"1h\"\n[retry]\ndeadline = \"1h\"";
    assert!(Config::from_toml(both, "both").is_ok());
    let own = refusal("[mailboxes.\"a@b.example\"]\nretry.deadline = \"31d\"");
    assert!(own.contains("mailboxes.\"a@b.example\".retry.deadline") && own.contains("submit.deadline_max"), "{own}");
    for (value, ok) in [("366d", true), ("367d", false), ("0s", false)] {
        let read = Config::from_toml(&format!("[submit]\ndeadline_max = \"{value}\""), "bounds");
        assert_eq!(read.is_ok(), ok, "{value}");
    }
}

#[test]
fn an_unknown_has_time_to_be_found_absent_twice_where_that_repeats_it() {
    let text = "[retry]\nduplicates = \"at-least-once\"\nunknown_max = \"5m\"";
    let error = refusal(text);
    assert!(error.contains("transport.visibility_delay") && error.contains("above 5m"), "{error}");
    assert!(Config::from_toml(&text.replace("5m", "301s"), "above").is_ok());
    let slow = format!("{text}\n[transport]\nvisibility_delay = \"20m\"").replace("\"5m\"", "\"21m\"");
    assert!(refusal(&slow).contains("above 1265s"), "{}", refusal(&slow));
}

#[test]
fn callers_are_read_from_their_text_and_refused_by_name() {
    let text = "[callers]\nceiling = \"500 emails, 5_000 recipients / 1h\"\n\
        overrides = [\"billing = 100 emails / 24h\", \"a = b = unlimited\"]";
    let config = Config::from_toml(text, "callers.toml").expect("valid");
    assert_eq!(Config::from_toml(&config.to_toml(), "again").expect("valid"), config);
    assert_eq!(config.callers.overrides.len(), 2);
    assert!(config.callers.overrides["a = b"].is_none());
    for (value, part) in [
        ("ceiling = \"500\"", "no period"),
        ("ceiling = 500", "a ceiling in quotes"),
        ("overrides = [\"billing\"]", "no `=`"),
        ("overrides = [\" = unlimited\"]", "no caller's name"),
        ("overrides = [\"a = unlimited\", \"a = 1 emails / 1h\"]", "twice"),
        ("overrides = [\"a = 0 emails / 1h\"]", "zero"),
        ("tracked_max = 0", "from 1 to"),
    ] {
        let error = refusal(&format!("[callers]\n{value}"));
        assert!(error.contains(part) && error.contains("callers."), "{value}: {error}");
    }
}

#[test]
fn drafts_and_batches_do_not_go_together() {
    let error = refusal("[transport.graph]\nmode = \"draft-then-send\"\nbatch_max = 5");
    assert!(error.contains("transport.graph.mode") && error.contains("batch_max = 1"), "{error}");
}

#[test]
fn a_limit_that_holds_less_than_one_draft_takes_is_refused() {
    for key in ["mailbox", "tenant", "application"] {
        for limit in ["30 requests / 1m bucket(1)", "1 requests / 1m"] {
            let file = |kind: &str| {
                format!(
                    "[transport.graph]\nmode = \"{kind}\"\n[transport]\nkind = \"graph\"\n[{key}]\nlimits = [\"{limit}\"]"
                )
            };
            let error = refusal(&file("draft-then-send"));
            assert!(error.contains(&format!("{key}.limits")) && error.contains("takes 2 requests"), "{key}: {error}");
            assert!(!refusal(&file("send-mail")).contains("requests at once"), "{key}");
        }
    }
}
