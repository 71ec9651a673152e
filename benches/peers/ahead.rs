//! Where the others are ahead: in each scenario and on each profile, who is done sooner and who lets people wait less.

use mailweir::upstream::Profile;

use crate::report::Row;

/// Below these, two rows are alike: one part in a hundred, and half a second of a person's wait.
const PART: f64 = 0.01;
const WAIT: f64 = 0.5;

/// Every policy's row on each profile.
pub(crate) type Profiles = Vec<(Profile, Vec<Row>)>;

fn sides(rows: &[Row]) -> (Option<&Row>, impl Iterator<Item = &Row>) {
    (rows.last(), rows.iter().filter(|row| !row.is_ours()))
}

fn is_sooner(row: &Row, ours: &Row) -> bool {
    match (row.done_at(), ours.done_at()) {
        (Some(row), Some(ours)) => row < ours * (1.0 - PART),
        (one, other) => one.is_some() && other.is_none() || one.is_none() && other.is_none() && more(row, ours),
    }
}

fn more(row: &Row, ours: &Row) -> bool {
    row.done_share() > ours.done_share() + PART
}

/// Done first; of those that are not done, who did most.
fn soonest(one: &&Row, other: &&Row) -> std::cmp::Ordering {
    let key = |row: &Row| (row.done_at().unwrap_or(f64::MAX), -row.done_share());
    key(one).partial_cmp(&key(other)).unwrap_or(std::cmp::Ordering::Equal)
}

fn sooner(rows: &[Row]) -> String {
    let (Some(ours), others) = sides(rows) else { return String::new() };
    let ahead: Vec<&Row> = others.filter(|row| is_sooner(row, ours)).collect();
    let Some(first) = ahead.iter().copied().min_by(soonest) else {
        return "nobody".to_owned();
    };
    let (count, name, done) = (ahead.len(), first.name(), first.done_text());
    format!("{count}: {name} {done}, {:.0} 429s, {} (ours {})", first.refused(), first.people_text(), ours.done_text())
}

fn waits_less(rows: &[Row]) -> String {
    let (Some(ours), others) = sides(rows) else { return String::new() };
    let ahead: Vec<&Row> = others.filter(|row| row.people_p99() < ours.people_p99() - WAIT).collect();
    let least = |one: &&Row, other: &&Row| one.people_p99().total_cmp(&other.people_p99());
    let Some(first) = ahead.iter().copied().min_by(least) else { return "nobody".to_owned() };
    let (count, name) = (ahead.len(), first.name());
    format!("{count}: {name} {}, {} (ours {})", first.people_text(), first.done_text(), ours.people_text())
}

/// Two tables over all scenarios.
pub(crate) fn tables(scenarios: &[(&str, Profiles)]) -> String {
    let table = |head: &str, cell: fn(&[Row]) -> String| {
        let mut out = format!("{head}\n\n| scenario | A | B | C | D |\n|---|---|---|---|---|\n");
        for (name, profiles) in scenarios {
            out.push_str(&line(name, profiles, cell));
        }
        out
    };
    format!(
        "### Where the others are ahead\n\n{}\n{}",
        table(
            "How many of the eight are done sooner than mailweir, and the soonest of them: when it was done, its 429s, its people's p99.",
            sooner
        ),
        table(
            "How many let people wait less at p99, and the shortest such wait, with when that one was done.",
            waits_less
        )
    )
}

fn line(name: &str, profiles: &[(Profile, Vec<Row>)], cell: fn(&[Row]) -> String) -> String {
    let cells: Vec<String> = profiles.iter().map(|(_, rows)| cell(rows)).collect();
    format!("| {name} | {} |\n", cells.join(" | "))
}
