//! The rules: each takes text and returns complaints.

use crate::source::{Source, is_word, line_of};

/// Modules by layer, lowest first. A module may name itself and what lies strictly below it.
pub(crate) const LAYERS: &[&[&str]] = &[
    &["engine", "redact"],
    &["clock", "config", "email", "signals", "telemetry", "upstream"],
    &["store", "transport"],
    &["simulation", "submission"],
    &["actor"],
    &["scheduler"],
];

/// Longest file, its documentation and tests included.
pub(crate) const LINES_MAX: usize = 400;

/// Longest function.
pub(crate) const FUNCTION_LINES_MAX: usize = 60;

/// Nine functions in ten are at most this long.
pub(crate) const FUNCTION_LINES_P90_MAX: usize = 25;

/// The share of `src` that the actor shell may take, in percent.
pub(crate) const SHELL_PERCENT_MAX: usize = 20;

/// The module of a file below `src`: its first path component. `None` for the crate root and the binary, which may
/// name everything.
fn module(path: &str) -> Option<&str> {
    let first = path.strip_prefix("src/")?.split('/').next()?;
    let module = first.strip_suffix(".rs").unwrap_or(first);
    (!["lib", "bin"].contains(&module)).then_some(module)
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Every place where `word` stands in `code` and is not part of a longer name.
fn places<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = at.checked_sub(1).map(|at| code.as_bytes()[at]);
        let after = code.as_bytes().get(at + word.len()).copied();
        let (first, last) = (word.as_bytes()[0], word.as_bytes()[word.len() - 1]);
        let longer = is_word(first) && before.is_some_and(is_word) || is_word(last) && after.is_some_and(is_word);
        !longer
    })
}

fn name_at(code: &str, at: usize) -> &str {
    let rest = &code[at..];
    &rest[..rest.bytes().position(|byte| !is_word(byte)).unwrap_or(rest.len())]
}

/// `crate::NAME` must be the file's own module or lie strictly below it. Reads comments too: a link is an arrow.
pub(crate) fn upward_arrows(source: &Source) -> Vec<String> {
    let Some(own) = module(&source.path) else { return Vec::new() };
    let Some(floor) = layer(own) else {
        return vec![format!("{}: module `{own}` has no layer: give it one in LAYERS", source.path)];
    };
    let judge = |at: usize| {
        let name = name_at(&source.text, at + "crate::".len());
        match layer(name) {
            Some(other) if name == own || other < floor => None,
            Some(_) => Some(source.complain(at, &format!("`{own}` may not use `crate::{name}`: it is not below it"))),
            None => Some(source.complain(at, &format!("`crate::{name}` names no layer: write `crate::MODULE::...`"))),
        }
    };
    places(&source.text, "crate::").filter_map(judge).collect()
}

/// No `super` of a `super`: such a path breaks when a file moves one floor.
pub(crate) fn climbing_paths(source: &Source) -> Vec<String> {
    places(&source.code, "super::super::")
        .map(|at| source.complain(at, "climbs two floors: start at `crate::`"))
        .collect()
}

/// At most [`LINES_MAX`] lines.
pub(crate) fn long_files(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    let complaint = format!("{}: {lines} lines, at most {LINES_MAX}: split it by idea", source.path);
    (lines > LINES_MAX).then_some(complaint).into_iter().collect()
}

/// At most [`FUNCTION_LINES_MAX`] lines.
pub(crate) fn long_functions(source: &Source) -> Vec<String> {
    let long = source.functions().into_iter().filter(|function| function.lines > FUNCTION_LINES_MAX);
    long.map(|f| {
        format!("{}:{}: `{}` has {} lines, at most {FUNCTION_LINES_MAX}", source.path, f.line, f.name, f.lines)
    })
    .collect()
}

/// The 90th percentile is at most [`FUNCTION_LINES_P90_MAX`].
pub(crate) fn long_tail(mut lengths: Vec<usize>) -> Vec<String> {
    lengths.sort_unstable();
    let p90 = lengths.get(lengths.len() * 9 / 10).copied().unwrap_or_default();
    let complaint = format!("one function in ten has {p90} lines or more, at most {FUNCTION_LINES_P90_MAX}");
    (p90 > FUNCTION_LINES_P90_MAX).then_some(complaint).into_iter().collect()
}

/// A file of more than one line opens with `//!`: what it is, and why not the obvious other way.
pub(crate) fn missing_argument(source: &Source) -> Vec<String> {
    let opens = source.text.starts_with("//!") || source.text.lines().count() <= 1;
    (!opens).then(|| format!("{}: opens without `//!`", source.path)).into_iter().collect()
}

/// The engine has no clock, no I/O, no luck, no runtime, no floating point.
pub(crate) fn impure_engine(source: &Source) -> Vec<String> {
    const BANNED: &[&str] = &[
        "async",
        "await",
        "tokio",
        "actix",
        "futures",
        "tracing",
        "metrics",
        "fastrand",
        "uuid",
        "std::thread",
        "std::fs",
        "std::net",
        "std::io",
        "std::env",
        "std::process",
        "Instant",
        "SystemTime",
        "println!",
        "eprintln!",
        "f32",
        "f64",
    ];
    let code = source.shipped();
    let banned = BANNED.iter().flat_map(|word| places(&code, word).map(move |at| (at, *word)));
    let foreign = places(&code, "use ").map(|at| (at, name_at(&code, at + "use ".len())));
    let foreign = foreign.filter(|(_, name)| {
        let own = code.contains(&format!("mod {name};")) || name.starts_with(|c: char| c.is_ascii_uppercase());
        !own && !["std", "core", "serde", "thiserror", "crate", "super", "self"].contains(name)
            && !BANNED.contains(name)
    });
    banned
        .chain(foreign)
        .map(|(at, word)| source.complain(at, &format!("`{word}` has no place in the engine")))
        .collect()
}

/// Nothing left to do.
pub(crate) fn unfinished(source: &Source) -> Vec<String> {
    let words = [concat!("to", "do!"), concat!("unimple", "mented!"), concat!("d", "bg!")];
    let notes = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
    let left = words.iter().flat_map(|word| places(&source.code, word).map(move |at| (at, *word)));
    let noted = notes.iter().flat_map(|word| places(&source.text, word).map(move |at| (at, *word)));
    left.chain(noted).map(|(at, word)| source.complain(at, &format!("`{word}`: finish it or leave it out"))).collect()
}

/// Signatures of public functions: from `pub ... fn` to the body or semicolon.
fn public_signatures(code: &str) -> Vec<(usize, &str)> {
    let starts = ["pub fn ", "pub async fn ", "pub const fn "].into_iter().flat_map(|head| places(code, head));
    starts.map(|at| (at, &code[at..at + code[at..].find(['{', ';']).unwrap_or(code.len() - at)])).collect()
}

/// No `bool` parameter in a public function: an enum says at the call what is meant.
pub(crate) fn flags_in_public_functions(source: &Source) -> Vec<String> {
    let code = source.shipped();
    let flagged = public_signatures(&code).into_iter().filter(|(_, signature)| {
        let parameters = signature.split("->").next().unwrap_or_default();
        places(parameters, ": bool").next().is_some()
    });
    flagged.map(|(at, _)| source.complain(at, "a `bool` parameter in a public function: take an enum")).collect()
}

/// Every public async function has a `# Cancel safety` section.
pub(crate) fn silent_cancellation(source: &Source) -> Vec<String> {
    let code = source.shipped();
    let silent = places(&code, "pub async fn ").filter(|&at| {
        let above = source.text[..at].lines().rev().skip(1);
        let docs = above.take_while(|line| ["///", "#["].iter().any(|head| line.trim_start().starts_with(head)));
        !docs.into_iter().any(|line| line.contains("# Cancel safety"))
    });
    silent.map(|at| source.complain(at, "no `# Cancel safety` section")).collect()
}

/// No type of actix and no instant of tokio's in a public item.
pub(crate) fn foreign_types(source: &Source) -> Vec<String> {
    let code = source.shipped();
    let foreign = |text: &str| ["actix::", "actix_rt::", "tokio::time::Instant"].iter().any(|name| text.contains(name));
    let functions = public_signatures(&code).into_iter().filter(|(_, signature)| foreign(signature)).map(|(at, _)| at);
    let others = places(&code, "pub ").filter(|&at| {
        let line = code[at..].lines().next().unwrap_or_default();
        !line.contains("fn ") && foreign(line)
    });
    functions.chain(others).map(|at| source.complain(at, "a foreign type in the public interface")).collect()
}

/// Events of `tracing` come from the catalogue; only the binary may say more.
pub(crate) fn stray_tracing(source: &Source) -> Vec<String> {
    if source.path.starts_with("src/telemetry/catalogue") || source.path.starts_with("src/bin/") {
        return Vec::new();
    }
    let code = source.shipped();
    let macros = ["event!", "trace!", "debug!", "info!", "warn!", "error!"];
    let stray = macros.iter().flat_map(|name| places(&code, name));
    stray.map(|at| source.complain(at, "an event outside src/telemetry/catalogue.rs")).collect()
}

/// A message is a lone string in the catalogue: lowercase at the start, no period at the end.
pub(crate) fn log_messages(source: &Source) -> Vec<String> {
    let messages = source.text.lines().enumerate().filter_map(|(index, line)| {
        let message = line.trim().strip_prefix('"')?.strip_suffix('"')?;
        let wrong = message.starts_with(char::is_uppercase) || message.ends_with('.');
        wrong.then(|| format!("{}:{}: message \"{message}\"", source.path, index + 1))
    });
    messages.collect()
}

/// The actor shell translates and performs; what decides belongs below it.
pub(crate) fn thick_shell(actor: usize, all: usize) -> Vec<String> {
    let complaint = format!("src/actor has {actor} of {all} lines, at most {SHELL_PERCENT_MAX} %");
    (actor * 100 > all * SHELL_PERCENT_MAX).then_some(complaint).into_iter().collect()
}

/// No path of somebody's machine.
pub(crate) fn machine_paths(path: &str, text: &str) -> Vec<String> {
    let paths = [
        concat!("/wo", "rk/"),
        concat!("/tm", "p/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("C:", "\\"),
    ];
    let found = paths.iter().flat_map(|name| text.match_indices(name));
    found.map(|(at, name)| format!("{path}:{}: names `{name}`", line_of(text, at))).collect()
}

/// Every dependency says why it is here and takes no default features.
pub(crate) fn dependencies(manifest: &str) -> Vec<String> {
    let mut within = false;
    let mut complaints = Vec::new();
    for (index, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            within = line.contains("dependencies");
        } else if within && line.contains('=') && !line.starts_with('#') {
            let name = line.split([' ', '=']).next().unwrap_or_default();
            if !line.contains("} # ") {
                complaints.push(format!("Cargo.toml:{}: `{name}` gives no reason", index + 1));
            }
            let bare = line.contains("path =") || line.contains("default-features = false");
            if !bare && !line.contains("tempfile") {
                complaints.push(format!("Cargo.toml:{}: `{name}` takes its default features", index + 1));
            }
        }
    }
    complaints
}
