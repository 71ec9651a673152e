//! The two lanes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Who waits for a send. A lane is an order *and* a share, so it is not called a priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lane {
    /// A person is waiting.
    Foreground,
    /// Nobody is waiting for this one send: campaigns, digests, migrations.
    Background,
}

impl Lane {
    /// Both lanes, foreground first.
    pub const ALL: [Self; 2] = [Self::Foreground, Self::Background];

    /// Its place in a pair of values per lane: foreground first.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Foreground => "foreground",
            Self::Background => "background",
        })
    }
}
