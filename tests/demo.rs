//! `mailweir demo`, as its users run it: the real program, real sockets, real time, shorter.
#![cfg(feature = "service")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// What no output may hold: recipients, subjects, bodies, and the application's secret.
const PRIVATE: [&str; 6] =
    ["fabrikam.example", "reader-", "sign-in code", "November", "Your code is", "upstream-secret"];

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mailweir"));
    command.args(["demo", "--json", "--seconds", "12"]).args(arguments).env_remove("RUST_LOG");
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is UTF-8")
}

fn facts(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
}

fn broken(facts: &Value) -> Vec<&str> {
    let all = facts["invariants"].as_array().expect("a list");
    let broken = all.iter().filter(|invariant| invariant["kept"] == false);
    broken.map(|invariant| invariant["name"].as_str().expect("a name")).collect()
}

/// The outbox lay in `scratch`, was named, and is gone.
fn assert_is_named_and_gone(errors: &str, scratch: &Path) {
    let outbox = errors.lines().find(|line| line.starts_with("outbox: SQLite in ")).expect("it says where");
    // Elsewhere the system's temporary folder is not this variable's.
    if cfg!(unix) {
        assert!(outbox.contains(&scratch.display().to_string()), "{outbox}");
    }
    assert_eq!(std::fs::read_dir(scratch).expect("it is ours").count(), 0, "nothing is left behind");
}

#[test]
fn a_run_keeps_every_invariant_and_says_so_without_a_word_of_anybodys_mail() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let mut command = demo(&["--seed", "3"]);
    let command = command.env("RUST_LOG", "mailweir=debug").env("TMPDIR", scratch.path());
    let output = command.output().expect("the program starts");
    let (facts, errors) = (facts(&output), text(&output.stderr));
    assert_eq!(facts["store"], "sqlite");
    assert_is_named_and_gone(errors, scratch.path());
    assert_eq!(broken(&facts), Vec::<&str>::new(), "{facts:#}");
    assert_eq!(output.status.code(), Some(0));
    let all = &facts["all"];
    assert_eq!(all["accepted"], all["submitted"]);
    assert!(all["accepted_background"].as_u64() > Some(100), "{all:#}");
    assert!(all["accepted_foreground"].as_u64() > Some(10), "{all:#}");
    assert!(all["refused_in_throttle"].as_u64() > Some(0), "the throttle was met: {all:#}");
    assert_eq!((all["refused_at_own_pace"].as_u64(), all["cooldowns"].as_u64()), (Some(0), Some(1)));
    assert!((1..=100).contains(&all["goodput_percent"].as_u64().expect("a figure")), "{all:#}");
    assert!(all["longest_stall_ms"].as_u64() >= Some(1_900), "as long as the throttle at least: {all:#}");
    let most = |window: &Value| (window["most"].as_u64().unwrap_or(0), window["amount"].as_u64().unwrap_or(0));
    let (most, amount) = most(&facts["windows"][0]);
    assert!(amount / 2 < most && most <= amount, "the limit was felt and kept: {most} of {amount}");
    for state in ["breaker opened", "breaker half-opened", "breaker closed"] {
        assert!(errors.contains(state), "no `{state}` in\n{errors}");
    }
    for private in PRIVATE {
        assert!(!errors.contains(private) && !text(&output.stdout).contains(private), "`{private}` is shown");
    }
}

#[test]
fn a_scheduler_that_is_told_more_than_the_upstream_allows_breaks_the_invariants_and_the_exit_code() {
    let output = demo(&["--declared", "200"]).output().expect("the program starts");
    let facts = facts(&output);
    assert_eq!(output.status.code(), Some(1), "{facts:#}");
    let broken = broken(&facts);
    assert!(broken.contains(&"no 429 at our own pace"), "{broken:?}");
    assert!(broken.contains(&"no window above its limit"), "{broken:?}");
    assert!(facts["all"]["refused_at_own_pace"].as_u64() > Some(0));
    assert_eq!((facts["all"]["duplicates"].as_u64(), facts["all"]["lost"].as_u64()), (Some(0), Some(0)));
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_it_at_once_and_still_tells_what_was_found() {
    use std::io::{BufRead, BufReader, Read};

    let scratch = tempfile::tempdir().expect("a scratch folder");
    let mut command = demo(&[]);
    let command = command.env("TMPDIR", scratch.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    // From this line on it sends.
    lines.by_ref().map_while(Result::ok).find(|line| line.starts_with("accepted by 5")).expect("it gets there");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill is there");
    assert!(killed.success());
    // Read to the end, so that nothing it still says blocks it.
    let _ = lines.map_while(Result::ok).count();
    let mut out = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut out).expect("UTF-8");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let facts: Value = serde_json::from_str(&out).expect("--json prints one JSON document");
    assert_eq!(facts["ending"], "interrupted");
    assert!(facts["all"]["unfinished"].as_u64() > Some(0) && facts["all"]["accepted"].as_u64() > Some(0), "{facts:#}");
    assert_eq!(broken(&facts), Vec::<&str>::new(), "what was sent until then was in order");
    assert_eq!(std::fs::read_dir(scratch.path()).expect("it is ours").count(), 0, "nothing is left behind");
}

#[test]
fn a_filter_that_cannot_be_read_is_named() {
    let output = demo(&[]).env("RUST_LOG", "mailweir=loud").output().expect("the program starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("RUST_LOG is \"mailweir=loud\""), "{}", text(&output.stderr));
}
