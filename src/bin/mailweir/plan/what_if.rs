//! What the command line wants to be otherwise.

use std::num::NonZeroU32;
use std::str::FromStr;

use mailweir::engine::policy::ScopePolicy;
use mailweir::engine::{Limit, ScopeKind};

/// A limit at a scope: `60 requests / 1m`, `application:200_000 requests / 10s`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limited {
    pub(super) scope: ScopeKind,
    pub(super) limit: Limit,
}

/// Attempts at once at a scope: `8`, `application:unlimited`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Concurrency {
    pub(super) scope: ScopeKind,
    pub(super) most: Option<NonZeroU32>,
}

impl FromStr for Limited {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scope, limit) = scoped(text)?;
        let limit = limit.parse().map_err(|error: mailweir::engine::limit::LimitError| error.to_string())?;
        Ok(Self { scope, limit })
    }
}

impl FromStr for Concurrency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scope, most) = scoped(text)?;
        let most = match most {
            "unlimited" => None,
            number => Some(number.parse().map_err(|_| {
                format!("concurrency {number:?} is not a number from 1 on: write one, or \"unlimited\"")
            })?),
        };
        Ok(Self { scope, most })
    }
}

/// `tenant:…`, `application:…` or, for the mailbox, nothing before it.
fn scoped(text: &str) -> Result<(ScopeKind, &str), String> {
    let Some((scope, rest)) = text.split_once(':') else { return Ok((ScopeKind::Mailbox, text.trim())) };
    let scope = match scope.trim() {
        "mailbox" => ScopeKind::Mailbox,
        "tenant" => ScopeKind::Tenant,
        "application" => ScopeKind::Application,
        other => {
            return Err(format!("no scope is called {other:?}: write mailbox, tenant or application before the colon"));
        }
    };
    Ok((scope, rest.trim()))
}

/// What a scope's policy comes to.
pub(super) fn changed(
    mut policy: ScopePolicy,
    kind: ScopeKind,
    limits: &[Limited],
    concurrency: &[Concurrency],
) -> ScopePolicy {
    limits.iter().filter(|limited| limited.scope == kind).for_each(|limited| policy.put(limited.limit));
    if let Some(last) = concurrency.iter().rfind(|concurrency| concurrency.scope == kind) {
        policy.concurrency = last.most;
    }
    policy
}
