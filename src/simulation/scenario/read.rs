//! From TOML to a scenario, with every problem and its line.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use toml::de::DeValue;

use super::codecs::{Numbers, Range, Sizes};
use super::loads::External;
use super::provider::{self, END};
use super::{Arrivals, Change, LoadSpec, Restart, Scenario, Stop};
use crate::config::{Config, ConfigError, Count, Fields, Line, Sheet, Span, Word, overlay, show_duration};
use crate::engine::Lane;
use crate::simulation::LookUps;

/// How long an operation of a load is wanted unless it says otherwise: long enough for most runs to end before it.
const DEADLINE: Duration = Duration::from_secs(30 * 86_400);
const MS: Duration = Duration::from_millis(1);
/// Most operations of one burst, or of a load that comes at once.
const COUNT_MAX: u32 = 10_000_000;
/// Most mailboxes of one load.
const MAILBOXES_MAX: u32 = 100_000;
/// Longest id of a mailbox or tenant, in bytes.
const ID_BYTES_MAX: usize = 253;
const LANES: [(&str, Lane); 2] = [("foreground", Lane::Foreground), ("background", Lane::Background)];
const STOPS: [(&str, Stop); 2] = [("when-done", Stop::WhenDone), ("at-cut-off", Stop::AtCutOff)];
const LOOK_UPS: [(&str, LookUps); 2] = [("unanswered", LookUps::Unanswered), ("answered", LookUps::Answered)];
const EXTERNALS: [(&str, External); 2] = [("none", External::None), ("all", External::All)];

/// How operations come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    AtOnce,
    Poisson,
    Bursts,
}

const FORMS: [(&str, Form); 3] = [("at-once", Form::AtOnce), ("poisson", Form::Poisson), ("bursts", Form::Bursts)];

/// Reads `text`; errors call it `file`. Files that it names are looked for in `folder`.
pub(super) fn scenario(text: &str, file: &str, name: &str, folder: &Path) -> Result<Scenario, ConfigError> {
    let sheet = Sheet::new(text);
    let root = sheet.parse();
    let read = match &root {
        Some(root) => whole(&sheet, Fields::root(&sheet, root), name, folder)?,
        None => None,
    };
    drop(root);
    Ok(sheet.conclude(file, read)?)
}

fn whole(
    sheet: &Sheet<'_>,
    mut fields: Fields<'_, '_>,
    name: &str,
    folder: &Path,
) -> Result<Option<Scenario>, ConfigError> {
    let name = fields.or("name", &Line(120), name.to_owned());
    let about = fields.or("about", &Line(1_000), String::new());
    let seed = fields.or("seed", &Count(0_u64, i64::MAX as u64), 1);
    let until = fields.need("until", &Span(MS, END));
    let stop = fields.or("stop", &Word(&STOPS), Stop::WhenDone);
    let clock_ppm = fields.or("clock_fast_ppm", &Count(0_u32, 10_000), 0);
    let slow = fields.or("clock_slow_ppm", &Count(0_u32, 10_000), 0);
    let look_ups = fields.or("look_ups", &Word(&LOOK_UPS), LookUps::Unanswered);
    let config = config(sheet, &mut fields, folder)?;
    let mut mailboxes = Vec::new();
    let tables = fields.tables("load");
    let nothing = tables.is_empty();
    let loads: Vec<LoadSpec> =
        tables.into_iter().filter_map(|load| self::load(load, &config, &mut mailboxes)).collect();
    if nothing {
        fields.conflict("load", "nothing is submitted", "at least one [[load]]");
    }
    let provider = provider::read(fields.table("upstream"), &config, &mailboxes);
    let restarts = fields.tables("restart").into_iter().filter_map(restart).collect();
    let changes = changes(sheet, &mut fields, &config);
    fields.close();
    Ok(until.map(|until| Scenario {
        name,
        about,
        seed,
        until,
        stop,
        clock_ppm: i32::try_from(clock_ppm).unwrap_or(0) - i32::try_from(slow).unwrap_or(0),
        look_ups,
        config,
        provider,
        loads,
        restarts,
        changes,
        mailboxes,
    }))
}

/// The configuration: a table here, or a file beside this one, or the defaults.
fn config(sheet: &Sheet<'_>, fields: &mut Fields<'_, '_>, folder: &Path) -> Result<Config, ConfigError> {
    let Some(value) = fields.raw("config") else { return Ok(Config::default()) };
    match value.get_ref() {
        DeValue::String(file) => Config::from_path(folder.join(file.as_ref())),
        DeValue::Table(table) => {
            let (config, problems) = overlay(sheet.text, table, None);
            sheet.add(problems);
            Ok(config)
        }
        _ => {
            fields.conflict("config", "neither a table nor a file's name", "[config] and its keys, or \"FILE.toml\"");
            Ok(Config::default())
        }
    }
}

/// Changes in order of their instants; each is laid over the one before it.
fn changes(sheet: &Sheet<'_>, fields: &mut Fields<'_, '_>, config: &Config) -> Vec<Change> {
    let (mut changes, mut before, mut last) = (Vec::new(), config.clone(), Duration::ZERO);
    for mut change in fields.tables("change") {
        let at = change.need("at", &Span(Duration::ZERO, END));
        let table = change.raw("config").map(|value| value.get_ref().as_table());
        match (at, table) {
            (_, None | Some(None)) => change.conflict("config", "it changes nothing", "[change.config] and its keys"),
            (Some(at), _) if at < last => {
                change.conflict("at", "earlier than the change before it", "changes in the order of their instants");
            }
            (Some(at), Some(Some(table))) => {
                let (config, problems) = overlay(sheet.text, table, Some(&before));
                sheet.add(problems);
                (before, last) = (config.clone(), at);
                changes.push(Change { at, config });
            }
            _ => {}
        }
        change.close();
    }
    changes
}

fn restart(mut fields: Fields<'_, '_>) -> Option<Restart> {
    let at = fields.need("at", &Span(Duration::ZERO, END));
    let down = fields.or("down", &Span(MS, END), Duration::from_secs(5));
    fields.close();
    Some(Restart { at: at?, down })
}

fn load(mut fields: Fields<'_, '_>, config: &Config, known: &mut Vec<Arc<str>>) -> Option<LoadSpec> {
    let mailboxes = mailboxes(&mut fields, known);
    let lane = fields.need("lane", &Word(&LANES));
    let tenant = fields.get("tenant", &Line(ID_BYTES_MAX)).filter(|tenant| !tenant.is_empty());
    let arrivals = arrivals(&mut fields);
    let recipients = fields.or("recipients", &Numbers(1, 100_000), Range::always(1));
    let external = fields.or("external", &Word(&EXTERNALS), External::None);
    let bytes = fields.or("bytes", &Sizes(1, 1 << 40), Range::always(4_096));
    let deadline = deadline(&mut fields, config.submit.deadline_max);
    fields.close();
    let (mailboxes, tenant) = (mailboxes?, tenant.map(Arc::from));
    Some(LoadSpec { mailboxes, lane: lane?, tenant, arrivals: arrivals?, recipients, external, bytes, deadline })
}

/// As a submission's: the scheduler would not take a longer one.
fn deadline(fields: &mut Fields<'_, '_>, deadline_max: Duration) -> Duration {
    let deadline = fields.or("deadline", &Span(MS, END), DEADLINE.min(deadline_max));
    if deadline > deadline_max {
        let allowed = format!("at most submit.deadline_max = {}", show_duration(deadline_max));
        fields.conflict("deadline", "longer than a submission's may be", &allowed);
    }
    deadline
}

/// One mailbox, or as many as `mailboxes` says, numbered in place of `{n}`.
fn mailboxes(fields: &mut Fields<'_, '_>, known: &mut Vec<Arc<str>>) -> Option<Vec<usize>> {
    let name = fields.need("mailbox", &Line(ID_BYTES_MAX))?;
    let count = fields.or("mailboxes", &Count(1_u32, MAILBOXES_MAX), 1);
    if count > 1 && !name.contains("{n}") {
        fields.conflict("mailbox", "every one of the mailboxes would have this name", "a name with {n} in it");
        return None;
    }
    let mut place = |name: String| {
        let at = known.iter().position(|id| **id == *name).unwrap_or(known.len());
        if at == known.len() {
            known.push(Arc::from(name));
        }
        at
    };
    Some((1..=count).map(|n| place(name.replace("{n}", &n.to_string()))).collect())
}

fn arrivals(fields: &mut Fields<'_, '_>) -> Option<Arrivals> {
    let instant = Span(Duration::ZERO, END);
    match fields.or("arrivals", &Word(&FORMS), Form::AtOnce) {
        Form::AtOnce => {
            let at = fields.or("at", &instant, Duration::ZERO);
            Some(Arrivals::AtOnce { at, count: fields.need("count", &Count(1, COUNT_MAX))? })
        }
        Form::Poisson => {
            let per_hour = fields.need("per_hour", &Count(1_u32, 100_000_000));
            let size = fields.or("size", &Count(1, COUNT_MAX), 1);
            let from = fields.or("from", &instant, Duration::ZERO);
            let until = fields.get("until", &instant);
            Some(Arrivals::Poisson { per_hour: per_hour?, size, from, until })
        }
        Form::Bursts => {
            let every = fields.need("every", &Span(MS, END));
            let size = fields.or("size", &Count(1, COUNT_MAX), 1);
            let from = fields.or("from", &instant, Duration::ZERO);
            let until = fields.get("until", &instant);
            Some(Arrivals::Bursts { every: every?, size, from, until })
        }
    }
}
