//! The four upstreams that results are reported for.

use std::time::Duration;

use super::limit::{Algorithm, UpstreamLimit};
use super::model::{Model, Refusals};
use super::random::Random;

/// What is not known of a provider, in four answers (algorithms 7.1). Report all four, none alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Accruing rolling: rolling windows, refusals counted. What Microsoft's text says.
    A,
    /// Mild rolling: rolling windows, refusals free.
    B,
    /// Fixed windows of random phase, refusals free.
    C,
    /// Buckets of depth N, refusals free.
    D,
}

impl Profile {
    /// All four.
    pub const ALL: [Self; 4] = [Self::A, Self::B, Self::C, Self::D];

    /// An upstream with these limits, counted the profile's way. `seed` gives the phases of [`Profile::C`].
    #[must_use]
    pub fn model(self, limits: impl IntoIterator<Item = UpstreamLimit>, seed: u64) -> Model {
        let mut phases = Random::stream(seed, 0xC);
        let counted = limits.into_iter().map(|limit| {
            let phase = Duration::from_micros(phases.below(limit.window_micros()));
            let algorithm = match self {
                Self::A | Self::B => Algorithm::Rolling,
                Self::C => Algorithm::Fixed { phase },
                Self::D => Algorithm::Bucket { depth: limit.amount },
            };
            limit.counted_by(algorithm)
        });
        let mut model = Model::new(counted);
        if self == Self::A {
            model.refusals = Refusals::Counted;
        }
        model
    }
}
