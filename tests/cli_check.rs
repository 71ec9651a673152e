//! `mailweir check`, as its users and their scripts see it.
#![cfg(feature = "service")]

use std::process::{Command, Output};

fn check(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mailweir"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .arg("check")
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is UTF-8")
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).expect("--json prints one JSON document")
}

#[test]
fn the_documented_defaults_pass_and_say_what_binds() {
    let output = check(&["config/default.toml"]);
    let out = text(&output.stdout);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    assert!(out.contains("10_000 recipients / 24h binds after 5 h 33 min at 30/minute, 1 recipient each"), "{out}");
    assert!(out.contains("130_000 requests / 10s"), "{out}");
    assert!(out.contains("the application\n"), "{out}");
}

#[test]
fn each_value_names_its_source() {
    let output = check(&["tests/fixtures/config/valid.toml"]);
    let out = text(&output.stdout);
    let row = |start: &str| out.lines().find(|line| line.trim_start().starts_with(start)).unwrap_or_default();
    assert!(row("30 requests / 1m").contains("preset graph, line "), "{out}");
    assert!(row("20 requests / 1m").contains("own table, line 8"), "{out}");
    assert!(row("lanes.background_share").contains("line 4"), "{out}");
    assert!(row("no limits").contains("default"), "{out}");
}

#[test]
fn a_mistake_is_underlined_and_ends_with_two() {
    let output = check(&["tests/fixtures/config/out-of-range.toml"]);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(err.contains("line 9: lanes.background_share = \"150%\": above what is allowed"), "{err}");
    assert!(err.contains("out-of-range.toml:9:20"), "{err}");
    assert!(err.contains("9 │ background_share = \"150%\""), "{err}");
    assert!(err.contains("here"), "{err}");
    assert!(err.contains("from 0% to 100%"), "{err}");
    assert!(err.contains("is not valid: 9 problems"), "{err}");
}

#[test]
fn a_file_that_is_not_there_ends_with_two() {
    let output = check(&["no-such-file.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot read the configuration no-such-file.toml: "));
    let output = check(&["no-such-file.toml", "--json"]);
    assert_eq!((output.status.code(), json(&output)["valid"].as_bool()), (Some(2), Some(false)));
}

#[test]
fn json_has_the_facts_of_the_text() {
    let output = check(&["--json", "tests/fixtures/config/valid.toml"]);
    assert!(output.status.success());
    let facts = json(&output);
    assert_eq!(facts["valid"], true);
    let own = &facts["scopes"][1];
    assert_eq!((own["mailbox"].as_str(), own["concurrency"].as_u64()), (Some("alerts@contoso.example"), Some(4)));
    assert_eq!(own["limits"][1]["limit"].as_str().map(|limit| limit.ends_with("recipients / 24h")), Some(true));
    assert_eq!(own["limits"][1]["binds"], "after");
    assert_eq!(own["limits"][1]["binds_after_seconds"], 15_000.0);
    assert_eq!(own["limits"][1]["source"]["line"], 8);
    assert_eq!(own["sustained"]["per_day"], 5_000.0);
    let settings = facts["settings"].as_array().expect("a list");
    let share = settings.iter().find(|setting| setting["key"] == "lanes.background_share").expect("it is a key");
    assert_eq!((share["value"].as_str(), share["source"]["kind"].as_str()), (Some("\"40%\""), Some("file")));
}

#[test]
fn json_has_every_problem_with_line_key_value_and_what_is_allowed() {
    let output = check(&["--json", "tests/fixtures/config/conflict.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let problems = json(&output)["problems"].as_array().expect("a list").clone();
    assert_eq!(problems.len(), 8);
    for problem in &problems {
        assert_eq!(problem["kind"], "conflict");
        assert!(problem["line"].is_u64() && problem["key"].is_string() && problem["value"].is_string(), "{problem}");
        assert!(problem["allowed"].as_str().is_some_and(|allowed| !allowed.is_empty()), "{problem}");
    }
}

#[test]
fn throughput_follows_the_email_that_is_asked_for() {
    let facts = |arguments: &[&str]| json(&check(&[&["--json", "config/default.toml"], arguments].concat()));
    let many = facts(&["--recipients", "100"]);
    assert_eq!(many["scopes"][0]["sustained"]["per_day"], 100.0);
    let large = facts(&["--size", "25MB"]);
    let bytes = &large["scopes"][0]["limits"][1];
    assert_eq!((bytes["limit"].as_str(), bytes["alone"]["per_minute"].as_f64()), (Some("150MB / 5m"), Some(1.2)));
    assert_eq!(check(&["config/default.toml", "--size", "lots"]).status.code(), Some(2));
}

#[test]
fn throughput_counts_the_requests_of_the_configured_transport() {
    let file = "tests/fixtures/config/drafts.toml";
    let output = check(&[file]);
    let out = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(out.contains("emails of 50kB to 1 recipient, 2 requests each"), "{out}");
    assert!(out.contains("binds after 11 h 6 min at 15/minute"), "{out}");
    let facts = json(&check(&["--json", file]));
    assert_eq!(facts["email"]["requests"], 2);
    assert_eq!(facts["scopes"][0]["limits"][0]["alone"]["per_minute"], 15.0);
    assert_eq!(json(&check(&["--json", "config/graph.toml"]))["email"]["requests"], 1);
}

#[test]
fn secrets_show_neither_in_text_nor_in_json() {
    for arguments in [&["tests/fixtures/config/secrets.toml"][..], &["--json", "tests/fixtures/config/secrets.toml"]] {
        let output = check(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(!text(&output.stdout).contains("hunter2") && !text(&output.stderr).contains("hunter2"));
    }
}
