//! The same deaths over an SQLite file: its writer ends before or after the commit, and the next process opens the file.

use crate::points::{Point, count, number, points};
use crate::scenarios;
use crate::shelf::Shelf;

/// Every how many points of a scenario. Odd, so that both kinds of deaths come up.
const STRIDE: usize = 61;

#[test]
fn a_file_survives_a_death_at_its_commits() {
    let stride = number("MAILWEIR_CRASH_FILE_STRIDE").map_or(STRIDE, |stride| usize::try_from(stride).expect("small"));
    let (mut died, mut all) = (0, 0);
    for scenario in scenarios::ALL {
        let writes = count(&scenario, 0).len();
        all += 2 * writes;
        for point in points(&scenario, 0, writes).skip(died % 7).step_by(stride.max(1) | 1) {
            survives(point);
            died += 1;
        }
    }
    println!("{died} of {all} points over files");
    assert!(died > 0);
}

fn survives(point: Point) {
    drop(point.run_on(&Shelf::file()).unwrap_or_else(|what| panic!("over a file: {what}")));
}
