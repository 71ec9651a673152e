//! The failure of a seeded run ends with the command that replays it.

#[path = "mod.rs"]
mod replay;

use std::panic::catch_unwind;

use replay::Replay;

const HERE: Replay = Replay { features: "sim", test: "replay", name: "one_seed" };

fn failure(run: impl FnOnce(u64) + std::panic::UnwindSafe) -> String {
    let panic = catch_unwind(|| HERE.run(41, run)).expect_err("the run fails");
    panic.downcast_ref::<String>().expect("words").clone()
}

#[test]
fn a_failure_of_any_kind_ends_with_the_command_that_replays_it() {
    let command = "MAILWEIR_SEED=41 cargo test --features \"sim\" --test replay -- --nocapture one_seed";
    let judged = |seed: u64| if seed == 42 { Ok(()) } else { Err("3 of 2 in a window".to_owned()) };
    let kinds = [
        (failure(|seed| assert_eq!(seed, 42, "the wrong seed")), "the wrong seed"),
        (failure(|_| debug_assert!(false, "L2: no reserve")), "L2: no reserve"),
        (failure(move |seed| judged(seed).unwrap_or_else(|what| panic!("{what}"))), "3 of 2 in a window"),
        (failure(|_| std::panic::panic_any(7_u8)), "a panic without words"),
    ];
    for (found, words) in kinds {
        assert!(found.starts_with("seed 41: ") && found.contains(words), "{found}");
        assert_eq!(found.lines().last(), Some(&*format!("replay: {command}")), "{found}");
    }
}

#[test]
fn what_else_decides_the_run_stands_before_the_command() {
    let run = || HERE.with(Some("MAILWEIR_TEST_BLOWS=9".to_owned())).run(3, |_| panic!("a blow"));
    let panic = catch_unwind(run).expect_err("the run fails");
    let found = panic.downcast_ref::<String>().expect("words");
    assert!(found.contains("\nreplay: MAILWEIR_TEST_BLOWS=9 MAILWEIR_SEED=3 cargo test "), "{found}");
}

#[test]
fn a_run_that_holds_gives_what_it_came_to() {
    assert_eq!(HERE.run(6, |seed| seed * 7), 42);
    assert!(!Replay::seeds(3).is_empty());
    assert_eq!(replay::number("MAILWEIR_A_VARIABLE_THAT_NOBODY_SETS"), None);
}
