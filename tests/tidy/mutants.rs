//! Every fault that `scripts/mutants` plants still has its place, so that a change which moves it is told at once.

use std::path::Path;

#[test]
fn every_planted_fault_has_exactly_one_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let list = read("scripts/mutants.list");
    let values = |key: &'static str| list.lines().filter_map(move |line| line.strip_prefix(key));
    let places: Vec<_> = values("file: ").zip(values("find: ")).collect();
    assert_eq!(places.len(), values("name: ").count(), "each fault names its file and its place");
    assert!(places.len() >= 12, "{} faults are left", places.len());
    for (file, find) in places {
        assert_eq!(read(file).matches(find).count(), 1, "{file} no longer holds, once: {find}");
    }
}
