//! The limits that a scenario's provider has of its own, and how each of them counts.

use super::{Counting, INSTANT, SCOPES};
use crate::config::{Count, Fields, Limits, Word};
use crate::engine::{Limit, ScopeKind};
use crate::upstream::{Algorithm, UpstreamLimit};

/// Most limits of one scope of the provider.
const LIMITS_MAX: usize = 16;

/// An algorithm without its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Rolling,
    Fixed,
    Anchored,
    Sliding,
    Bucket,
}

const FORMS: [(&str, Form); 5] = [
    ("rolling", Form::Rolling),
    ("fixed", Form::Fixed),
    ("anchored", Form::Anchored),
    ("sliding", Form::Sliding),
    ("bucket", Form::Bucket),
];

/// Every limit that `[upstream]` names; `None`: it names none.
pub(super) fn read(fields: &mut Fields<'_, '_>) -> Option<Vec<(UpstreamLimit, Counting)>> {
    let names = [
        ("limits", ScopeKind::Mailbox),
        ("tenant_limits", ScopeKind::Tenant),
        ("application_limits", ScopeKind::Application),
    ];
    let mut rows = Vec::new();
    let mut said = false;
    for (name, kind) in names {
        if let Some(limits) = fields.get(name, &Limits(LIMITS_MAX)) {
            said = true;
            let row = |limit: &Limit| (UpstreamLimit::declared(kind, limit, Algorithm::Rolling), Counting::Profile);
            rows.extend(limits.iter().map(row));
        }
    }
    for limit in fields.tables("limit") {
        said = true;
        rows.extend(own_limit(limit));
    }
    said.then_some(rows)
}

/// `[[upstream.limit]]`: a limit with an algorithm of its own.
fn own_limit(mut fields: Fields<'_, '_>) -> Option<(UpstreamLimit, Counting)> {
    let list = fields.need("limits", &Limits(1)).unwrap_or_default();
    let scope = fields.or("scope", &Word(&SCOPES), ScopeKind::Mailbox);
    let form = fields.get("algorithm", &Word(&FORMS));
    let phase = fields.get("phase", &INSTANT);
    let depth = fields.get("depth", &Count(1_u64, 1 << 50));
    if depth.is_none() && form == Some(Form::Bucket) {
        fields.conflict("depth", "a bucket has one", "a whole number, in the limit's unit");
    }
    if depth.is_some() && form != Some(Form::Bucket) {
        fields.conflict("depth", "a bucket alone has one", "algorithm = \"bucket\", or no depth");
    }
    if phase.is_some() && !matches!(form, Some(Form::Fixed | Form::Sliding)) {
        fields.conflict("phase", "other windows have none", "algorithm = \"fixed\" or \"sliding\", or no phase");
    }
    let phase = phase.unwrap_or_default();
    fields.close();
    let limit = UpstreamLimit::declared(scope, list.first()?, Algorithm::Rolling);
    let depth = depth.unwrap_or(limit.amount);
    Some(match form {
        None => (limit, Counting::Profile),
        Some(Form::Rolling) => (limit, Counting::Own),
        Some(Form::Fixed) => (limit.counted_by(Algorithm::Fixed { phase }), Counting::Own),
        Some(Form::Anchored) => (limit.counted_by(Algorithm::Anchored), Counting::Own),
        Some(Form::Sliding) => (limit.counted_by(Algorithm::SlidingCounter { phase }), Counting::Own),
        Some(Form::Bucket) => (limit.counted_by(Algorithm::Bucket { depth }), Counting::Own),
    })
}
