//! What a limit or a throttle applies to.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The kinds of scope, narrowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScopeKind {
    /// One mail account.
    Mailbox,
    /// One tenant: an organisation whose mailboxes share limits.
    Tenant,
    /// Everything this application sends.
    Application,
}

impl fmt::Display for ScopeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mailbox => "mailbox",
            Self::Tenant => "tenant",
            Self::Application => "application",
        })
    }
}

/// One scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// One mail account.
    Mailbox(Arc<str>),
    /// One tenant.
    Tenant(Arc<str>),
    /// The application.
    Application,
}

impl Scope {
    /// The kind of this scope.
    #[must_use]
    pub const fn kind(&self) -> ScopeKind {
        match self {
            Self::Mailbox(_) => ScopeKind::Mailbox,
            Self::Tenant(_) => ScopeKind::Tenant,
            Self::Application => ScopeKind::Application,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mailbox(id) => write!(f, "mailbox:{id}"),
            Self::Tenant(id) => write!(f, "tenant:{id}"),
            Self::Application => f.write_str("application"),
        }
    }
}
