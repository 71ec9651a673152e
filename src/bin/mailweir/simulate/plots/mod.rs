//! Pictures of one run, as SVG: sends against each limit, waits, breakers, backlog.
//!
//! Written by hand and not with a plotting library: an SVG that follows the reader's light or dark theme needs classes
//! and a media query, which those that we know do not write, and four kinds of mark are all that is drawn here.

mod axis;
mod chart;
mod data;

use std::io;
use std::path::Path;

use mailweir::simulation::World;
use mailweir::simulation::scenario::Scenario;

/// Draws everything into `folder`, which is made if it is not there.
pub(crate) fn draw(folder: &Path, scenario: &Scenario, world: &World) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let pictures = [
        ("sends.svg", data::sends(scenario, world)),
        ("waits.svg", data::waits(scenario, world)),
        ("breakers.svg", data::breakers(scenario, world)),
        ("backlog.svg", data::backlog(scenario, world)),
    ];
    pictures.into_iter().try_for_each(|(name, charts)| std::fs::write(folder.join(name), chart::picture(&charts)))
}
