//! The kept corpus of every fuzz target, and mutations of it, on a stable compiler.
//!
//! `scripts/fuzz` runs the same functions under libFuzzer for as long as one likes; what it finds is kept in
//! `fuzz/corpus` and replayed here from then on. A failure names the file and prints the command that replays its seed.
#![cfg(all(feature = "graph", feature = "lettre", feature = "sim", feature = "test-util"))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use mailweir::upstream::Random;

use replay::{Replay, number};

mod replay;
#[path = "../fuzz/targets.rs"]
mod targets;

/// Mutations of each kept file.
const MUTATIONS: u64 = 400;

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 11] = [
    ("headers", targets::headers),
    ("answers", targets::answers),
    ("limits", targets::limits),
    ("config", targets::config),
    ("mime", targets::mime),
    ("parts", targets::parts),
    ("batch", targets::batch),
    ("token", targets::token),
    ("draft", targets::draft),
    ("reconcile", targets::reconcile),
    ("scenario", targets::scenario),
];

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort_unstable();
    let read = |path: std::path::PathBuf| (path.display().to_string(), std::fs::read(&path).expect("a kept file"));
    files.into_iter().map(read).collect()
}

/// A few edits of the kinds that break parsers: flips, cuts, repeats, pieces of the other files, long numbers.
fn mutate(random: &mut Random, from: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = from.to_vec();
    let index = |random: &mut Random, len: usize| usize::try_from(random.below(len as u64 + 1)).expect("an index");
    for _ in 0..=random.below(4) {
        let at = index(random, bytes.len());
        match random.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 => bytes.truncate(at),
            2 => bytes.insert(at, u8::try_from(random.below(256)).expect("a byte")),
            3 => drop(bytes.splice(at..at, *b"99999999999999999999")),
            4 => {
                let (start, end) = (index(random, other.len()), index(random, other.len()));
                drop(bytes.splice(at..at, other[start.min(end)..start.max(end)].iter().copied()));
            }
            _ => {
                let end = index(random, bytes.len());
                let piece = bytes[at.min(end)..at.max(end)].to_vec();
                drop(bytes.splice(at..at, piece));
            }
        }
    }
    bytes
}

fn run(target: &str, function: Target, what: &str, bytes: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| function(bytes))) {
        eprintln!("fuzz target {target}, {what}: {:?}", String::from_utf8_lossy(bytes));
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn whatever_others_write_is_read_or_refused() {
    let features = "graph lettre sim test-util";
    let here = Replay { features, test: "fuzz_corpus", name: "whatever_others_write" };
    let seed = number("MAILWEIR_SEED").unwrap_or(1);
    let runs = here.run(seed, replay_corpus);
    println!("{runs} mutations of the kept corpus, seed {seed}: 0 panics");
}

fn replay_corpus(seed: u64) -> u64 {
    let mut runs = 0_u64;
    for (target, function) in TARGETS {
        let kept = corpus(target);
        assert!(kept.len() >= 4, "{target} has lost its corpus");
        let mut random = Random::stream(seed, 11);
        for (name, bytes) in &kept {
            run(target, function, name, bytes);
            for round in 0..MUTATIONS {
                let other = &kept[usize::try_from(random.below(kept.len() as u64)).expect("an index")].1;
                let mutated = mutate(&mut random, bytes, other);
                run(target, function, &format!("{name}, seed {seed}, mutation {round}"), &mutated);
                runs += 1;
            }
        }
    }
    runs
}
