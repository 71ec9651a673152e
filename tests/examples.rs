//! Every example runs by itself, to its end, and shows what it says it shows.
#![cfg(all(feature = "runtime", feature = "graph", feature = "upstream", feature = "lettre"))]

use std::path::PathBuf;
use std::process::Command;

/// Where cargo puts examples: beside the folder of this test.
fn example(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("a running program has a path");
    let folder = this.parent().and_then(|deps| deps.parent()).expect("tests lie in target/PROFILE/deps");
    folder.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// Runs an example and returns what it printed.
fn run(name: &str) -> String {
    let path = example(name);
    assert!(path.exists(), "{} is not built: `cargo test --all-features` builds it", path.display());
    let output = Command::new(path).output().expect("the example starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name} ended with {}\n{out}\n{err}", output.status);
    out.into_owned()
}

#[test]
fn quickstart_sends_once_for_two_submissions_of_one_id() {
    let out = run("quickstart");
    assert_eq!(out.matches("Accepted").count(), 2, "{out}");
    assert!(out.contains("in the store: accepted"), "{out}");
}

#[test]
fn two_lanes_keeps_people_ahead_of_a_campaign() {
    let out = run("two_lanes");
    let p50 = |lane: &str| -> u64 {
        let line = out.lines().find(|line| line.starts_with(lane)).unwrap_or_else(|| panic!("no {lane} in {out}"));
        let mut words = line.split_whitespace().skip_while(|word| *word != "p50");
        words.nth(1).and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no p50 in {line}"))
    };
    assert!(out.contains(" 10 accepted") && out.contains(" 60 accepted"), "{out}");
    assert!(p50("foreground") * 4 < p50("background"), "{out}");
}

#[test]
fn cooldown_shows_why_and_the_breaker_s_life_in_order() {
    let out = run("cooldown");
    let at = |what: &str| out.find(what).unwrap_or_else(|| panic!("no {what:?} in {out}"));
    let story = ["breaker opened", "cooldown   <- binds", "breaker half-opened", "breaker closed", "12 of 12 accepted"];
    assert!(story.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{out}");
}

#[test]
fn custom_transport_keeps_what_it_could_not_send() {
    let out = run("custom_transport");
    assert!(out.contains(r#"["report-1.eml", "report-2.eml", "report-3.eml"]"#), "{out}");
    assert!(out.contains("report-4 waits for hold") && out.contains("returned: 1"), "{out}");
}

#[test]
fn mailer_service_takes_two_clicks_for_one_and_names_what_is_wrong() {
    let out = run("mailer_service");
    let clicks: Vec<_> = out.lines().filter_map(|line| line.split_once("   (")).map(|(answer, _)| answer).collect();
    assert_eq!(clicks.len(), 2, "{out}");
    assert_eq!(clicks[0], clicks[1], "one operation for two clicks: {out}");
    assert!(out.contains("422 Unprocessable Entity") && !out.contains("eve@"), "{out}");
    assert!(out.contains(r#""state":"accepted""#), "{out}");
}

/// It starts a server of its own.
#[cfg(feature = "redis")]
#[test]
fn shared_redis_shows_one_owner_at_a_time_and_a_limit_kept_by_both() {
    let out = run("shared_redis");
    let at = |what: &str| out.find(what).unwrap_or_else(|| panic!("no {what:?} in {out}"));
    let story =
        ["the first owns", "Elsewhere", "cancel the first's last one: Done", "the second owns", "the provider took"];
    assert!(story.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{out}");
    assert!(out.contains("took 39, refused 0, most in a second: "), "{out}");
}
