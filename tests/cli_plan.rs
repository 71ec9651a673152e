//! `mailweir plan`, as its users and their scripts see it.
#![cfg(feature = "service")]

use std::process::{Command, Output};

use serde_json::Value;

fn mailweir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mailweir"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is UTF-8")
}

fn lines(output: &Output) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).expect("each line is one JSON document");
    text(&output.stdout).lines().map(parse).collect()
}

#[test]
fn a_plan_names_its_end_what_binds_and_what_if() {
    let output = mailweir(&[
        "plan",
        "--count",
        "20_000".replace('_', "").as_str(),
        "--config",
        "config/graph.toml",
        "--limit",
        "60 requests / 1m",
    ]);
    let out = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(out.contains("20,000 emails from noreply@contoso.example, background"), "{out}");
    assert!(out.contains("as configured: 30 requests / 1m"), "{out}");
    assert!(out.contains("of recipients per 24h"), "{out}");
    let what_if = "what if: 60 requests / 1m, 10_000 recipients / 24h rolling, 10_000 requests / 10m, 150MB / 5m, 4 at once; \
                   application: 130_000 requests / 10s\n  done after ";
    assert!(out.contains(what_if), "{out}");
    let late = "of them are not sent within their deadline of 24h, and are given up then: ";
    assert_eq!(out.matches(late).count(), 2, "at 10,000 a day some are late, whatever the rate a minute: {out}");
    assert!(out.contains("(retry.deadline)"), "{out}");
    assert!(out.contains("Assumed: "), "{out}");
}

#[test]
fn a_plan_as_json_has_seconds_and_constraints() {
    let output = mailweir(&["plan", "--count", "200", "--limit", "30 requests / 1m", "--json"]);
    let facts = &lines(&output)[0];
    let what_if = &facts["plans"][1];
    let finish = what_if["finish_s"].as_f64().expect("it finishes");
    assert!((400.0..500.0).contains(&finish), "{facts}");
    assert_eq!(what_if["bounds"][0]["scope"], "mailbox");
    assert_eq!(facts["assumed"]["latency_ms"], 375);
    let never = mailweir(&["plan", "--count", "1", "--recipients", "20000", "--json"]);
    assert_eq!(lines(&never)[0]["plans"][0]["never_fits"], "10_000 recipients / 24h");
}

#[test]
fn a_plan_asks_what_if_of_every_scope_and_of_other_mailboxes() {
    let plan = |arguments: &[&str]| {
        let all =
            [&["plan", "--count", "600", "--json", "--config", "tests/fixtures/config/valid.toml"][..], arguments];
        let mut plans = lines(&mailweir(&all.concat()))[0]["plans"].take();
        (plans[0].take(), plans[1].take())
    };
    let end = |row: &serde_json::Value| row["finish_s"].as_f64().expect("it finishes");
    let (alone, helped) = plan(&["--also-from", "alerts@contoso.example", "--also-from", "second@contoso.example"]);
    assert!(end(&helped) < end(&alone) / 2.0, "{alone} {helped}");
    let sent = |place: usize| helped["senders"][place]["count"].as_u64().expect("a number");
    assert_eq!((sent(0) + sent(1) + sent(2), alone["senders"][0]["count"].as_u64()), (600, Some(600)));
    assert!(sent(1) < sent(2), "20 a minute send less than 30: {helped}");
    let (free, bound) = plan(&["--limit", "application:10 requests / 1m", "--concurrency", "application:2"]);
    assert!(end(&bound) > end(&free), "{bound}");
    assert_eq!(bound["bounds"][0]["scope"], "application");
    assert_eq!(bound["shared"]["application"]["limits"][1], "10 requests / 1m");
    assert_eq!(bound["shared"]["application"]["concurrency"], 2);
    let (_, of_tenant) = plan(&["--mailbox", "alerts@contoso.example", "--limit", "tenant:5 requests / 1m"]);
    assert_eq!(of_tenant["bounds"][0]["scope"], "tenant", "{of_tenant}");
}

#[test]
fn a_plan_says_what_is_wrong_with_its_question() {
    for (arguments, words) in [
        (["--limit", "region:5 requests / 1m"], &["\"region\"", "mailbox, tenant or application"][..]),
        (["--limit", "tenant:"], &["--limit", "does not read as a limit", "30 requests / 1m"]),
        (["--limit", "application:0 requests / 1m"], &["allows nothing", "at least 1"]),
        (["--limit", "tenant:5 requests / 1m"], &["noreply@contoso.example", "has no tenant", "tenant = "]),
        (["--concurrency", "tenant:5"], &["has no tenant"]),
        (["--concurrency", "0"], &["--concurrency", "\"0\"", "unlimited"]),
        (["--concurrency", "application:-1"], &["\"-1\"", "from 1 on"]),
        (["--concurrency", "4294967296"], &["4294967296", "from 1 on"]),
        (["--also-from", ""], &["--also-from", "empty"]),
        (["--also-from", "a\nb"], &["--also-from", "control"]),
        (["--also-from", "noreply@contoso.example"], &["--also-from", "noreply@contoso.example", "once"]),
    ] {
        let output = mailweir(&[&["plan", "--count", "5"][..], &arguments].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        for word in words {
            assert!(said.contains(word), "{arguments:?} without {word:?}: {said}");
        }
    }
}

#[test]
fn a_plan_counts_the_requests_of_the_configured_transport() {
    let plan = |file: &str| lines(&mailweir(&["plan", "--count", "300", "--config", file, "--json"]))[0].clone();
    let (one, two) = (plan("config/graph.toml"), plan("tests/fixtures/config/drafts.toml"));
    assert_eq!((one["requests_each"].as_u64(), two["requests_each"].as_u64()), (Some(1), Some(2)));
    let finish = |facts: &serde_json::Value| facts["plans"][0]["finish_s"].as_f64().expect("it finishes");
    let ratio = finish(&two) / finish(&one);
    assert!((1.9..2.3).contains(&ratio), "{ratio}");
    let output = mailweir(&["plan", "--count", "300", "--config", "tests/fixtures/config/drafts.toml"]);
    assert!(text(&output.stdout).contains("background, 2 requests, 1 recipient and 50kB each"));
}

#[test]
fn a_bad_command_line_or_configuration_of_a_plan_ends_with_two() {
    for arguments in [
        &["plan"][..],
        &["plan", "--count", "0"],
        &["plan", "--count", "5", "--limit", "30 / 1m"],
        &["plan", "--count", "5", "--lane", "fast"],
        &["plan", "--count", "5", "--config", "tests/fixtures/config/conflict.toml"],
    ] {
        assert_eq!(mailweir(arguments).status.code(), Some(2), "{arguments:?}");
    }
}
