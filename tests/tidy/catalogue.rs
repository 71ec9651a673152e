//! What stands both in a page and in the code: event names, invariant numbers, transition numbers.

use std::collections::BTreeSet;

/// The components that event names start with.
const COMPONENTS: [&str; 9] =
    ["breaker", "budget", "operation", "lane", "resume", "send", "store", "mailbox", "scheduler"];

/// Every `component.thing.state` in quotes or backticks.
pub(crate) fn events(text: &str) -> BTreeSet<String> {
    let quoted = text.split(['"', '`']).filter(|word| {
        let parts: Vec<_> = word.split('.').collect();
        let plain = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte == b'.');
        plain && parts.len() == 3 && COMPONENTS.contains(&parts[0]) && !parts.contains(&"")
    });
    quoted.map(str::to_owned).collect()
}

/// Every invariant number in `text`: an L or O and one or two digits, standing alone.
pub(crate) fn numbers(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let numbers = words.filter(|word| {
        let (head, digits) = word.split_at(word.len().min(1));
        ["L", "O"].contains(&head)
            && (1..=2).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    numbers.map(str::to_owned).collect()
}

/// What stands on one side alone.
pub(crate) fn names_differ(what: &str, code: &BTreeSet<String>, page: &BTreeSet<String>) -> Vec<String> {
    let unwritten = page.difference(code).map(|name| format!("{what} {name} of ARCHITECTURE.md is not in the code"));
    undocumented(what, code, page).into_iter().chain(unwritten).collect()
}

/// What the code names and the page does not.
pub(crate) fn undocumented(what: &str, code: &BTreeSet<String>, page: &BTreeSet<String>) -> Vec<String> {
    code.difference(page).map(|name| format!("{what} {name} is not in ARCHITECTURE.md")).collect()
}

/// The numbers from 1 to `last` that have no list entry of their own (`**L1**`).
pub(crate) fn gaps(page: &str, letter: char, last: u32) -> Vec<String> {
    let missing = (1..=last).filter(|number| !page.contains(&format!("**{letter}{number}**")));
    missing.map(|number| format!("ARCHITECTURE.md: no entry for {letter}{number}")).collect()
}

/// The transitions that have no row in the page (`| 3 |`), and those the code knows (`/// 3:`) beyond the page.
pub(crate) fn transitions(page: &str, code: &str) -> Vec<String> {
    let in_page = |number: u32| page.lines().any(|line| line.starts_with(&format!("| {number} |")));
    let missing = (1..=19).filter(|&number| !in_page(number));
    let missing = missing.map(|number| format!("ARCHITECTURE.md: no row for transition {number}"));
    let numbered = code.lines().filter_map(|line| line.trim().strip_prefix("/// ")?.split(':').next()?.parse().ok());
    let unknown = numbered.filter(|&number| !in_page(number));
    missing.chain(unknown.map(|number| format!("transition {number} of the code has no row"))).collect()
}
