//! The structure of the repository, tested like behaviour: layers, lengths, banned words, documented names.
//!
//! Each rule is a function from text to complaints (`rules.rs`), so that `planted.rs` can show every one of them fail
//! once. The checker reads text and knows no more of Rust than comments, strings, braces and `fn`: it can be fooled
//! on purpose, not by accident. What the compiler or clippy can check is left to them.

mod catalogue;
mod mutants;
mod planted;
mod rules;
mod source;

use std::fs;
use std::path::{Path, PathBuf};

use source::Source;

/// The repository.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `folder` whose name ends in one of `ends`, by path from the root.
fn files(folder: &str, ends: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(next) = folders.pop() {
        let Ok(entries) = fs::read_dir(&next) else { continue };
        for entry in entries {
            let path = entry.expect("a folder that was just opened lists its entries").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            if path.is_dir() {
                let skipped = ["target", "node_modules", ".git"].contains(&name.as_str());
                folders.extend((!skipped).then_some(path));
            } else if ends.iter().any(|end| name.ends_with(end)) {
                found.push((relative(&path), fs::read_to_string(&path).unwrap_or_default()));
            }
        }
    }
    found.sort();
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).expect("found below the root").to_string_lossy().replace('\\', "/")
}

fn sources(folder: &str) -> Vec<Source> {
    files(folder, &[".rs"]).into_iter().map(|(path, text)| Source::new(path, text)).collect()
}

fn every_source() -> Vec<Source> {
    ["src", "tests", "examples", "benches"].into_iter().flat_map(sources).collect()
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Fails with every complaint there is, not with the first.
#[track_caller]
fn expect_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// Applies `rule` to every file of `sources`.
#[track_caller]
fn check(sources: &[Source], rule: impl Fn(&Source) -> Vec<String>) {
    assert!(!sources.is_empty(), "nothing to check: the folder has moved");
    expect_none(sources.iter().flat_map(rule).collect());
}

#[test]
fn arrows_between_layers_point_down() {
    check(&sources("src"), rules::upward_arrows);
}

#[test]
fn paths_start_at_the_crate_and_not_two_floors_up() {
    check(&every_source(), rules::climbing_paths);
}

#[test]
fn no_file_is_longer_than_one_idea() {
    check(&every_source(), rules::long_files);
}

#[test]
fn no_function_is_longer_than_a_screen() {
    check(&every_source(), rules::long_functions);
}

#[test]
fn nine_functions_in_ten_fit_in_25_lines() {
    let lengths = sources("src").iter().flat_map(|source| source.functions()).map(|f| f.lines).collect();
    expect_none(rules::long_tail(lengths));
}

#[test]
fn every_module_opens_with_its_argument() {
    check(&sources("src"), rules::missing_argument);
}

#[test]
fn the_engine_is_pure() {
    check(&sources("src/engine"), rules::impure_engine);
}

#[test]
fn nothing_is_left_to_do() {
    check(&every_source(), rules::unfinished);
}

#[test]
fn public_functions_take_no_flags() {
    check(&sources("src"), rules::flags_in_public_functions);
}

#[test]
fn public_async_functions_say_what_dropping_them_does() {
    check(&sources("src"), rules::silent_cancellation);
}

#[test]
fn no_actix_type_and_no_tokio_instant_is_public() {
    check(&sources("src"), rules::foreign_types);
}

#[test]
fn tracing_events_are_written_in_the_catalogue_alone() {
    check(&sources("src"), rules::stray_tracing);
}

#[test]
fn log_messages_start_lowercase_and_end_without_a_period() {
    let catalogue = |source: &&Source| source.path.starts_with("src/telemetry/catalogue");
    let all = sources("src/telemetry");
    let found: Vec<_> = all.iter().filter(catalogue).collect();
    assert!(found.len() > 1, "the catalogue and the folder beside it");
    expect_none(found.into_iter().flat_map(rules::log_messages).collect());
}

#[test]
fn actors_stay_a_thin_shell() {
    let lines = |folder| sources(folder).iter().map(|source| source.text.lines().count()).sum();
    expect_none(rules::thick_shell(lines("src/actor"), lines("src")));
}

#[test]
fn no_page_names_a_machine() {
    let ends = [".rs", ".toml", ".md", ".sh", ".yml", ".json", "run", "test", ".snap"];
    let all = files("", &ends);
    assert!(all.len() > 30, "only {} files found", all.len());
    expect_none(all.iter().flat_map(|(path, text)| rules::machine_paths(path, text)).collect());
}

#[test]
fn every_dependency_has_its_reason_and_its_default_features_off() {
    expect_none(rules::dependencies(&page("Cargo.toml")));
}

#[test]
fn event_names_are_documented() {
    let beside: String = sources("src/telemetry/catalogue").into_iter().map(|source| source.text).collect();
    let code = page("src/telemetry/catalogue.rs") + &beside;
    expect_none(catalogue::names_differ(
        "event",
        &catalogue::events(&code),
        &catalogue::events(&page("ARCHITECTURE.md")),
    ));
}

#[test]
fn invariants_and_transitions_are_numbered_alike_in_page_and_code() {
    let page = page("ARCHITECTURE.md");
    expect_none(catalogue::gaps(&page, 'L', 10));
    expect_none(catalogue::gaps(&page, 'O', 11));
    expect_none(catalogue::transitions(&page, &self::page("src/engine/operation/state.rs")));
    let text = |folder| sources(folder).into_iter().map(|source| source.text).collect::<String>();
    let (page, named) = (catalogue::numbers(&page), catalogue::numbers(&text("src/engine/invariants")));
    expect_none(catalogue::names_differ("invariant", &named, &page));
    expect_none(catalogue::undocumented("invariant", &catalogue::numbers(&text("src")), &page));
}
