//! The kept corpus of every fuzz target, and mutations of it, on a stable compiler.
//!
//! `scripts/fuzz` runs the same functions under libFuzzer for as long as one likes; what it finds is kept in
//! `fuzz/corpus` and replayed here from then on. A failure names the file and the seed;
//! `MAILWEIR_SEED=<seed> cargo test --all-features --test fuzz_corpus` replays it.
#![cfg(all(feature = "http-signals", feature = "lettre"))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use mailweir::upstream::Random;

#[path = "../fuzz/targets.rs"]
mod targets;

/// Mutations of each kept file.
const MUTATIONS: u64 = 400;

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 6] = [
    ("headers", targets::headers),
    ("answers", targets::answers),
    ("limits", targets::limits),
    ("config", targets::config),
    ("mime", targets::mime),
    ("parts", targets::parts),
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
    let seed = std::env::var("MAILWEIR_SEED").ok().map_or(1, |seed| seed.parse().expect("MAILWEIR_SEED is a number"));
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
    println!("{runs} mutations of the kept corpus, seed {seed}: 0 panics");
}
