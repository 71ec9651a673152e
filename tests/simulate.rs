//! `mailweir simulate`, as its users and their scripts see it.
#![cfg(feature = "service")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn mailweir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mailweir"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn simulate(arguments: &[&str]) -> Output {
    mailweir(&[&["simulate"], arguments].concat())
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is UTF-8")
}

fn lines(output: &Output) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).expect("each line is one JSON document");
    text(&output.stdout).lines().map(parse).collect()
}

/// The line of figures.
fn summary(output: &Output) -> Value {
    let found = lines(output).into_iter().find(|line| line["type"] == "summary");
    found.unwrap_or_else(|| panic!("no summary: {}", text(&output.stderr)))
}

fn scenario(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("scenario.toml");
    std::fs::write(&path, text).expect("it is written");
    (folder, path.display().to_string())
}

const S0: &str = "examples/scenarios/s0.toml";

#[test]
fn one_seed_has_one_summary() {
    let output = simulate(&[S0]);
    let out = text(&output.stdout);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    // All but the last line, which is about real time.
    let (summary, speed) = out.trim_end().rsplit_once('\n').expect("several lines");
    let golden = include_str!("fixtures/simulate/s0.txt");
    assert_eq!(summary, golden.trim_end(), "\n{out}");
    assert!(speed.contains("decisions of the engines in "), "{speed}");
}

#[test]
fn a_seed_decides_everything_and_another_seed_something_else() {
    let run = |seed: &str| facts(&["examples/scenarios/incident.toml", "--json", "--seed", seed]);
    let (first, again, other) = (run("5"), run("5"), run("6"));
    assert_eq!(first, again);
    assert_ne!(first, other);
    assert!(first.iter().any(|line| line["event"] == "breaker.scope.opened" && line["seed"] == 5), "{first:?}");
}

#[test]
fn every_scenario_that_is_shipped_is_sound() {
    let mut count = 0;
    for entry in Path::new("examples/scenarios").read_dir().expect("a folder") {
        let path = entry.expect("an entry").path().display().to_string();
        let output = simulate(&[&path, "--json"]);
        assert!(output.status.success(), "{path}: {}{}", text(&output.stdout), text(&output.stderr));
        let facts = summary(&output);
        assert_eq!(facts["sound"], true, "{path}");
        assert!(facts["accepted"].as_u64() > Some(100), "{path}: {facts}");
        count += 1;
    }
    assert!(count >= 9, "{count} scenarios");
}

/// Everything of a run that does not depend on real time.
fn facts(arguments: &[&str]) -> Vec<Value> {
    let mut lines = lines(&simulate(arguments));
    for line in &mut lines {
        for real_time in ["took_s", "decisions_per_second"] {
            line.as_object_mut().expect("an object").remove(real_time);
        }
    }
    lines
}

#[test]
fn the_actors_come_to_the_same_figures_twice_and_to_about_those_of_the_engines() {
    let incident = ["examples/scenarios/incident.toml", "--actors", "--json"];
    assert_eq!(facts(&incident), facts(&incident), "one seed decides everything");
    // Two orders of draws: latencies differ by tenths of a second, counts of what nobody breaks do not.
    for name in ["s0", "s2", "two-tenants", "weighted", "incident", "application-block"] {
        let path = format!("examples/scenarios/{name}.toml");
        let (engines, actors) =
            (summary(&simulate(&[&path, "--json"])), summary(&simulate(&[&path, "--actors", "--json"])));
        for same in ["submitted", "accepted", "unknown", "exhausted", "pending", "cooldowns"] {
            assert_eq!(engines[same], actors[same], "{name}: {same}");
        }
        assert_eq!(engines["arrivals"]["refused"], actors["arrivals"]["refused"], "{name}");
        let done = |facts: &Value| facts["background"]["done_s"].as_f64().expect("a number");
        assert!((done(&engines) / done(&actors) - 1.0).abs() < 0.01, "{name}: {} {}", done(&engines), done(&actors));
        let p99 = |facts: &Value| facts["foreground"]["wait_p99_s"].as_f64().expect("a number");
        assert!((p99(&engines) - p99(&actors)).abs() < 1.0, "{name}: {} {}", p99(&engines), p99(&actors));
        // What the engines would have asked of a store is what the actors ask, but for what they read.
        for cost in ["store_calls_per_operation", "store_transactions_per_operation"] {
            let (alone, whole) = (engines[cost].as_f64().expect("a number"), actors[cost].as_f64().expect("a number"));
            assert!((1.0..5.0).contains(&whole) && (alone / whole - 1.0).abs() < 0.1, "{name}: {cost} {alone} {whole}");
        }
        assert_eq!(actors["sound"], true, "{name}: {actors}");
    }
}

#[test]
fn the_actors_keep_the_invariants_where_all_goes_wrong() {
    for name in ["brown-out", "foreign-burn", "halved-limit", "hard-block"] {
        let output = simulate(&[&format!("examples/scenarios/{name}.toml"), "--actors"]);
        let out = text(&output.stdout);
        assert!(output.status.success(), "{name}: {out}");
        assert!(out.contains("every invariant held") && out.contains(" sends through the actors in "), "{name}: {out}");
    }
    // A clock that is too fast breaks the window, and both say so.
    let (_folder, path) = scenario(
        "until = \"10m\"\nclock_fast_ppm = 10_000\n[config]\nmailbox = { limits = [\"30 requests / 1m\"] }\n\
         [[load]]\nmailbox = \"a@b.example\"\nlane = \"foreground\"\ncount = 200\n",
    );
    let output = simulate(&[&path, "--actors"]);
    assert_eq!(output.status.code(), Some(1));
    let out = text(&output.stdout);
    assert!(out.contains("BROKEN  no declared window is exceeded (L1): "));
    assert!(out.contains(&format!("\nreplay: mailweir simulate {path} --seed 1 --actors\n")), "{out}");
}

#[test]
fn processes_that_die_lose_nothing_through_the_actors() {
    let (_folder, path) = scenario(
        "seed = 3\nuntil = \"4h\"\nlook_ups = \"answered\"\nclock_slow_ppm = 300\n[config]\n\
         mailbox = { limits = [\"30 requests / 1m\", \"300 requests / 1h\"] }\n\
         application = { limits = [\"60 requests / 1m\"] }\n\
         [[load]]\nmailbox = \"m{n}@b.example\"\nmailboxes = 3\nlane = \"background\"\ncount = 200\ndeadline = \"3h\"\n\
         [[load]]\nmailbox = \"m1@b.example\"\nlane = \"foreground\"\narrivals = \"poisson\"\nper_hour = 120\n\
         until = \"1h\"\n\
         [[restart]]\nat = \"90s\"\ndown = \"1s\"\n[[restart]]\nat = \"10m\"\ndown = \"1m\"\n\
         [[restart]]\nat = \"61m\"\ndown = \"250ms\"\n",
    );
    let output = simulate(&[&path, "--actors", "--json", "--runs", "3"]);
    assert!(output.status.success(), "{}", text(&output.stdout));
    for facts in lines(&output).iter().filter(|line| line["type"] == "summary") {
        assert_eq!((&facts["arrivals"]["duplicates"], &facts["arrivals"]["refused"]), (&0.into(), &0.into()));
        assert_eq!((&facts["pending"], &facts["unknown"]), (&0.into(), &0.into()), "{facts}");
        assert_eq!(facts["accepted"], facts["submitted"]);
    }
}

#[test]
fn a_load_may_be_wanted_for_as_long_as_a_submission_may_and_no_longer() {
    let run = |longest: &str, deadline: &str| {
        let (_folder, path) = scenario(&format!(
            "until = \"1h\"\n[config]\nsubmit = {{ deadline_max = \"{longest}\" }}\n\
             [[load]]\nmailbox = \"a@b.example\"\nlane = \"foreground\"\ncount = 1\n{deadline}\n"
        ));
        simulate(&[&path, "--actors", "--json"])
    };
    // Without a deadline of its own a load has the longest, if that is below its 30 days.
    for output in [run("25h", ""), run("40d", "deadline = \"40d\"")] {
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        assert_eq!(summary(&output)["accepted"], 1);
    }
    let output = run("30d", "deadline = \"40d\"");
    assert_eq!(output.status.code(), Some(2));
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(said.contains("load[1].deadline"), "{said}");
    assert!(said.contains("submit.deadline_max = 720h"), "{said}");
}

#[test]
fn the_documented_keys_are_a_scenario() {
    let page = std::fs::read_to_string("docs/scenarios.md").expect("the page");
    let (_, block) = page.split_once("```toml\n").expect("a block");
    let (_folder, path) = scenario(block.split_once("```").expect("its end").0);
    let output = simulate(&[&path, "--json"]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let facts = summary(&output);
    assert_eq!(facts["recoveries"].as_array().map(Vec::len), Some(6), "{facts}");
}

#[test]
fn the_incident_has_its_block_its_restart_and_its_lowered_limit() {
    let facts = summary(&simulate(&["examples/scenarios/incident.toml", "--json"]));
    let recoveries = facts["recoveries"].as_array().expect("a list");
    assert_eq!(recoveries.len(), 2);
    assert!(recoveries[0]["refused"].as_u64() <= Some(8), "{recoveries:?}");
    assert!(recoveries[1]["first_success_s"].as_f64() < Some(5.0), "{recoveries:?}");
    assert_eq!((facts["pending"].as_u64(), facts["unknown"].as_u64()), (Some(0), Some(0)), "{facts}");
    assert_eq!(facts["arrivals"]["duplicates"], 0);
    let lowered = facts["windows"].as_array().expect("a list").iter().find(|row| row["limit"] == "90 requests / 1m");
    assert!(lowered.expect("the limit of the change")["most"].as_u64() <= Some(90));
    let judged = facts["invariants"].as_array().expect("a list").iter().filter(|row| row["judged"] == true).count();
    assert_eq!(judged, 5, "neither the order after a restart nor 429s under a block: {facts}");
}

#[test]
fn the_four_profiles_are_one_word_away() {
    for profile in ["A", "B", "C", "D"] {
        let facts = summary(&simulate(&[S0, "--profile", profile, "--json"]));
        assert_eq!((facts["profile"].as_str(), facts["arrivals"]["refused"].as_u64()), (Some(profile), Some(0)));
        assert!(facts["background"]["done_s"].as_f64() <= Some(500.0), "{facts}");
    }
    assert_eq!(simulate(&[S0, "--profile", "E"]).status.code(), Some(2));
}

#[test]
fn several_runs_have_means() {
    let output = simulate(&[S0, "--runs", "8", "--json"]);
    let lines = lines(&output);
    assert_eq!(lines.iter().filter(|line| line["type"] == "summary").count(), 8);
    let means = &lines.last().expect("a line")["means"];
    // The figures of the benchmark's first scenario (profile A): at most 480 s and a ratio of at least 0.84.
    assert!(means["background_done_s"].as_f64() <= Some(480.0), "{means}");
    assert!(means["background_ratio"].as_f64() >= Some(0.84), "{means}");
    assert!(means["foreground_wait_p99_s"].as_f64() <= Some(1.5), "{means}");
    let shown = simulate(&[S0, "--runs", "2"]);
    assert!(text(&shown.stdout).contains("2 runs, seeds 0 to 1"), "{}", text(&shown.stdout));
}

#[test]
fn a_key_that_is_not_known_is_refused_with_its_line_and_what_was_meant() {
    let (_folder, path) = scenario(
        "seed = 1\nuntil = \"1h\"\n[config]\nmailbox = { limitz = [] }\n[upstream]\nprofil = \"A\"\n\
         [[load]]\nmailbox = \"a@b.example\"\nlane = \"backgruond\"\ncount = 0\n[[restart]]\n",
    );
    let output = simulate(&[&path]);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    for (line, what) in [
        (4, "mailbox.limitz = []: no such key; did you mean `limits`?"),
        (6, "upstream.profil = \"A\": no such key; did you mean `profile`?"),
        (9, "load[1].lane = \"backgruond\": not one of the words"),
        (10, "load[1].count = 0: below what is allowed"),
        (11, "restart[1].at: needed here"),
    ] {
        assert!(err.contains(&format!("line {line}: {what}")), "{line} {what}\n{err}");
    }
    assert!(err.contains("is not valid: 5 problems"), "{err}");
    let json = lines(&simulate(&[&path, "--json"]));
    assert_eq!(json[0]["problems"].as_array().map(Vec::len), Some(5));
}

#[test]
fn what_cannot_be_read_ends_with_two() {
    assert_eq!(simulate(&["no-such-scenario.toml"]).status.code(), Some(2));
    let (_folder, path) = scenario("until = \"1h\"\nconfig = \"no-such-config.toml\"\n");
    let output = simulate(&[&path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot read the configuration"), "{}", text(&output.stderr));
    let (_folder, path) = scenario("until = \"1h\"\n");
    assert!(text(&simulate(&[&path]).stderr).contains("nothing is submitted"));
    let (_folder, path) = scenario("until = 1h\n");
    assert_eq!(simulate(&[&path]).status.code(), Some(2));
}

#[test]
fn a_broken_invariant_ends_with_one_and_names_itself() {
    // Our clock runs one in a hundred fast, ten times what the guard allows for.
    let (_folder, path) = scenario(
        "until = \"10m\"\nclock_fast_ppm = 10_000\n[config]\nmailbox = { limits = [\"30 requests / 1m\"] }\n\
         [[load]]\nmailbox = \"a@b.example\"\nlane = \"foreground\"\ncount = 200\n",
    );
    let output = simulate(&[&path]);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(out.contains("BROKEN  no declared window is exceeded (L1): "), "{out}");
    assert!(out.contains("BROKEN  no 429 from our own pace: "), "{out}");
    assert!(out.contains(&format!("\nreplay: mailweir simulate {path} --seed 1\n")), "{out}");
    let replay = summary(&simulate(&[&path, "--json"]))["replay"].clone();
    assert_eq!(replay, format!("mailweir simulate {path} --seed 1"));
    let again = simulate(&[&path, "--profile", "B", "--seed", "7"]);
    let again = text(&again.stdout);
    assert!(again.contains(&format!("\nreplay: mailweir simulate {path} --seed 7 --profile B\n")), "{again}");
}

#[test]
fn restarts_lose_nothing_send_nothing_twice_and_grant_no_free_window() {
    for look_ups in ["answered", "unanswered"] {
        let (_folder, path) = scenario(&format!(
            "seed = 3\nuntil = \"4h\"\nlook_ups = \"{look_ups}\"\n[config]\n\
             mailbox = {{ limits = [\"30 requests / 1m\", \"300 requests / 1h\"] }}\n\
             application = {{ limits = [\"60 requests / 1m\"] }}\n\
             [[load]]\nmailbox = \"m{{n}}@b.example\"\nmailboxes = 3\nlane = \"background\"\ncount = 300\n\
             [[load]]\nmailbox = \"m1@b.example\"\nlane = \"foreground\"\narrivals = \"poisson\"\nper_hour = 120\n\
             until = \"1h\"\n\
             [[restart]]\nat = \"90s\"\ndown = \"1s\"\n[[restart]]\nat = \"10m\"\ndown = \"1m\"\n\
             [[restart]]\nat = \"61m\"\ndown = \"250ms\"\n",
        ));
        let output = simulate(&[&path, "--json", "--runs", "5"]);
        assert!(output.status.success(), "{}", text(&output.stdout));
        for facts in lines(&output).iter().filter(|line| line["type"] == "summary") {
            assert_eq!((&facts["arrivals"]["duplicates"], &facts["arrivals"]["refused"]), (&0.into(), &0.into()));
            let ended =
                ["accepted", "unknown", "pending", "exhausted"].map(|name| facts[name].as_u64().expect("a number"));
            assert_eq!(ended.iter().sum::<u64>(), facts["submitted"].as_u64().expect("a number"), "{facts}");
            if look_ups == "answered" {
                assert_eq!(facts["unknown"], 0, "every unknown was found or repeated: {facts}");
            }
        }
    }
}

#[test]
fn pictures_have_axes_with_units_a_legend_and_both_themes() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = folder.path().join("pictures");
    let output = simulate(&["examples/scenarios/hard-block.toml", "--plots", &inside.display().to_string()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for (name, shows) in [
        ("sends.svg", "limit 50 requests / 1m"),
        ("waits.svg", "wait, s"),
        ("breakers.svg", "open: nothing leaves"),
        ("backlog.svg", "Backlog, foreground"),
    ] {
        let picture = std::fs::read_to_string(inside.join(name)).expect("it was drawn");
        assert!(picture.starts_with("<svg ") && picture.trim_end().ends_with("</svg>"), "{name}");
        for part in [shows, "time from the start, min", "prefers-color-scheme:dark", "foreground"] {
            assert!(picture.contains(part) || (part == "foreground" && name == "breakers.svg"), "{name}: {part}");
        }
        assert!(!picture.contains("NaN") && !picture.contains("inf"), "{name}");
    }
    let refused = simulate(&[S0, "--plots", "Cargo.toml/below-a-file"]);
    assert_eq!(refused.status.code(), Some(1));
}
