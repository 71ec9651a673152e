//! Every rule, shown to fail: a planted fault each, and beside it the nearest text that is fine.

use crate::catalogue;
use crate::rules;
use crate::source::Source;

type Rule = fn(&Source) -> Vec<String>;

/// Fails unless `rule` complains about `bad` exactly once and not about `good`, both in a file at `path`.
#[track_caller]
fn planted(rule: Rule, path: &str, bad: &str, good: &str) {
    let complaints = rule(&Source::new(path, bad));
    assert_eq!(complaints.len(), 1, "the planted fault: {complaints:?}");
    assert!(complaints[0].starts_with(path), "a complaint names its file: {}", complaints[0]);
    assert_eq!(rule(&Source::new(path, good)), Vec::<String>::new(), "the text beside it is fine");
}

#[test]
fn an_upward_arrow_is_seen() {
    planted(rules::upward_arrows, "src/engine/lane.rs", "use crate::store::Store;", "use crate::engine::Lane;");
    planted(rules::upward_arrows, "src/store/memory.rs", "use crate::transport::Attempt;", "use crate::email::Email;");
    planted(rules::upward_arrows, "src/clock.rs", "//! [`x`](crate::config::Config)", "//! crate names are fine");
}

#[test]
fn a_module_without_a_layer_and_a_path_without_a_module_are_seen() {
    assert_eq!(rules::upward_arrows(&Source::new("src/helpers.rs", "fn f() {}")).len(), 1);
    planted(rules::upward_arrows, "src/clock.rs", "use crate::{engine::Lane};", "use crate::engine::{Lane, Scope};");
}

#[test]
fn a_climbing_path_is_seen() {
    let (bad, good) = (concat!("use super::", "super::Lane;"), "use super::Lane; // not super of super");
    planted(rules::climbing_paths, "src/engine/lane.rs", bad, good);
}

#[test]
fn the_line_after_the_last_allowed_one_is_seen() {
    let (bad, good) = ("x\n".repeat(rules::LINES_MAX + 1), "x\n".repeat(rules::LINES_MAX));
    planted(rules::long_files, "src/a.rs", &bad, &good);
}

#[test]
fn a_function_one_line_too_long_is_seen() {
    let of = |lines: usize| {
        format!("impl A {{\n    fn f(a: [u8; 2]) -> u8 {{\n{}    }}\n}}\n", "        x();\n".repeat(lines - 2))
    };
    planted(rules::long_functions, "src/a.rs", &of(rules::FUNCTION_LINES_MAX + 1), &of(rules::FUNCTION_LINES_MAX));
}

#[test]
fn the_rows_of_a_table_do_not_make_a_function_long() {
    let table =
        |row: &str| Source::new("src/a.rs", format!("fn f() {{\n{}}}\n", row.repeat(rules::FUNCTION_LINES_MAX)));
    assert!(rules::long_functions(&table("        (\"2\", 2),\n")).is_empty());
    assert_eq!(rules::long_functions(&table("        g(2);\n")).len(), 1);
}

#[test]
fn a_long_tail_of_long_functions_is_seen() {
    let lengths = |tall: usize| [vec![3; 100 - tall], vec![rules::FUNCTION_LINES_P90_MAX + 1; tall]].concat();
    assert_eq!(rules::long_tail(lengths(10)).len(), 1);
    assert!(rules::long_tail(lengths(9)).is_empty());
}

#[test]
fn a_missing_argument_is_seen() {
    planted(rules::missing_argument, "src/a.rs", "use std::fmt;\nuse std::io;\n", "//! What it is.\nuse std::fmt;\n");
}

#[test]
fn impurity_is_seen_outside_comments_strings_and_tests() {
    let path = "src/engine/a.rs";
    planted(rules::impure_engine, path, "async fn f() {}", "// async\nconst A: &str = \"async\"; fn asynchronous() {}");
    planted(rules::impure_engine, path, "use std::fs;", "use std::fmt;");
    planted(
        rules::impure_engine,
        path,
        "use std::time::Instant;",
        "#[cfg(test)]\nmod tests { use std::time::Instant; }",
    );
    planted(rules::impure_engine, path, "fn f(x: f64) {}", "const A: u32 = 0xf64; const B: &str = r#\"f64\"#;");
}

#[test]
fn a_crate_that_the_engine_may_not_use_is_seen() {
    let good = "mod lane;\nuse std::fmt;\nuse serde::Serialize;\npub use lane::Lane;\nuse Lane::Foreground;\n";
    planted(rules::impure_engine, "src/engine/mod.rs", "use governor::Quota;\n", good);
}

#[test]
fn impurity_after_a_test_module_is_seen() {
    let bad = "#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod more { fn f() {} }\nuse tokio::sync::mpsc;\n";
    planted(rules::impure_engine, "src/engine/a.rs", bad, "#[cfg(test)]\nmod tests;\n");
}

#[test]
fn unfinished_work_is_seen() {
    planted(rules::unfinished, "src/a.rs", concat!("fn f() { to", "do!() }"), "fn f() { todos() }");
    planted(rules::unfinished, "src/a.rs", concat!("// TO", "DO: later"), "// nothing to do");
}

#[test]
fn a_flag_in_a_public_function_is_seen() {
    let good = "pub struct A { pub on: bool }\nfn f(on: bool) {}\npub fn g(self) -> bool { true }\npub(crate) fn h(on: bool) {}";
    planted(rules::flags_in_public_functions, "src/a.rs", "pub fn f(\n    on: bool,\n) {}", good);
}

#[test]
fn a_silent_async_function_is_seen() {
    let good = "/// Sends.\n///\n/// # Cancel safety\n/// Safe.\n#[must_use]\npub async fn send() {}\n";
    planted(rules::silent_cancellation, "src/a.rs", "/// Sends.\npub async fn send() {}\n", good);
}

#[test]
fn a_foreign_type_in_the_public_interface_is_seen() {
    let good = "use actix::Addr;\nfn f(a: actix::Addr<A>) {}\npub fn g() { actix::spawn(x) }";
    planted(rules::foreign_types, "src/a.rs", "pub fn f(\n    a: actix::Addr<A>,\n) {}", good);
    planted(rules::foreign_types, "src/a.rs", "pub type A = tokio::time::Instant;\n", good);
}

#[test]
fn an_event_outside_the_catalogue_is_seen() {
    planted(rules::stray_tracing, "src/store/a.rs", "fn f() { tracing::warn!(\"x\") }", "fn warn() { forewarn!() }");
    let event = Source::new("src/telemetry/catalogue.rs", "fn f() { warn!(\"x\") }");
    assert!(rules::stray_tracing(&event).is_empty());
}

#[test]
fn a_shouting_message_is_seen() {
    planted(rules::log_messages, "src/a.rs", "    \"Breaker opened\"\n", "    \"breaker opened\"\n");
    planted(rules::log_messages, "src/a.rs", "    \"breaker opened.\"\n", "    const A: &str = \"Breaker.\";\n");
}

#[test]
fn a_thick_shell_is_seen() {
    assert_eq!(rules::thick_shell(201, 1_000).len(), 1);
    assert!(rules::thick_shell(200, 1_000).is_empty());
}

#[test]
fn a_path_of_a_machine_is_seen() {
    assert_eq!(rules::machine_paths("README.md", concat!("see /ho", "me/me/x")).len(), 1);
    assert!(rules::machine_paths("README.md", "see homes/me and work/x").is_empty());
}

#[test]
fn a_dependency_without_reason_or_with_default_features_is_seen() {
    let manifest = |line: &str| format!("[package]\nname = \"a\"\n[dependencies]\n{line}\n[lints.rust]\na = \"b\"\n");
    let complaints = |line: &str| rules::dependencies(&manifest(line)).len();
    assert_eq!(complaints("fnv = { version = \"1\", default-features = false }"), 1);
    assert_eq!(complaints("fnv = { version = \"1\" } # spreads"), 1);
    assert_eq!(complaints("fnv = { version = \"1\", default-features = false } # spreads"), 0);
}

#[test]
fn names_on_one_side_alone_are_seen() {
    let (code, page) = ("const A: &str = \"breaker.scope.opened\";", "| `breaker.scope.closed` |");
    assert_eq!(catalogue::names_differ("event", &catalogue::events(code), &catalogue::events(page)).len(), 2);
    assert_eq!(catalogue::numbers("L1 and O11, not L123, XL2 or O_3"), ["L1", "O11"].map(String::from).into());
    assert_eq!(catalogue::gaps("**L1** yes, L2 no", 'L', 2).len(), 1);
}

#[test]
fn a_transition_without_a_row_is_seen() {
    let rows: String = (1..=19).filter(|row| *row != 7).map(|row| format!("| {row} | a → b |\n")).collect();
    assert_eq!(
        catalogue::transitions(&rows, "    /// 3: queued → attempting.\n"),
        ["ARCHITECTURE.md: no row for transition 7"]
    );
    assert_eq!(catalogue::transitions(&rows, "    /// 20: invented.\n").len(), 2);
}
