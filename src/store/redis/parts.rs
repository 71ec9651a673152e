//! The tables of shared budgets: one hash per scope, one field per member. What is in them is the engine's affair.

use std::collections::BTreeMap;

use super::context::Context;
use super::fault::damaged;
use super::lease::present;
use super::{row, scripts, value};
use crate::engine::Scope;
use crate::engine::chunks::Part;
use crate::store::StoreError;
use crate::store::fleet::{MemberId, NewPart, Parts, Put, Terms};

fn key(context: &Context, scope: &Scope) -> String {
    context.names.global(&format!("parts:{scope}"))
}

pub(super) async fn read(
    context: &Context,
    member: MemberId,
    terms: Terms,
    scope: &Scope,
) -> Result<Parts, StoreError> {
    // The server is asked who it is first: what it has forgotten is known then before anything is taken from the table.
    let present = present(context, Some(member), terms).await?;
    let mut command = redis::cmd("HGETALL");
    command.arg(key(context, scope));
    let mut items = value::items(context.link.one(command).await?)?.into_iter();
    let (mut version, mut parts) = (0, BTreeMap::new());
    while let Some(field) = items.next() {
        let (field, found) = (value::some_bytes(Some(field))?, value::some_bytes(items.next())?);
        let field = String::from_utf8_lossy(&field);
        match field.strip_prefix('m').map(str::parse) {
            None => {
                version = String::from_utf8_lossy(&found).parse().map_err(|_| damaged("a table without a version"))?
            }
            Some(Ok(member)) => {
                let part: Part = serde_json::from_slice(&found).map_err(|error| damaged(error.to_string()))?;
                parts.insert(MemberId(member), part);
            }
            Some(Err(_)) => return Err(damaged("a part of nobody")),
        }
    }
    let run = context.met();
    if context.link.server().unwrap_or_default() != run {
        return Err(changed());
    }
    context.parts_read.borrow_mut().insert(scope.clone(), run);
    Ok(Parts { time: present.time, failover_ago: present.failover_ago, version, parts })
}

pub(super) async fn put(context: &Context, member: MemberId, scope: &Scope, new: &NewPart) -> Result<Put, StoreError> {
    let mut command = scripts::call(&scripts::PART, &[&key(context, scope)]);
    let keep = u64::try_from(new.keep.as_millis()).unwrap_or(u64::MAX).clamp(1_000, KEPT_MAX);
    command.arg(new.version).arg(member.0).arg(row::json(&new.part).map_err(damaged)?).arg(keep);
    for over in &new.over {
        command.arg(over.0);
    }
    let written = value::number(Some(context.link.one(command).await?))?;
    if context.link.server() != context.parts_read.borrow().get(scope).cloned() {
        // Another server may have the same version, and have forgotten a later one.
        return Err(changed());
    }
    Ok(if written == 1 { Put::Written } else { Put::Stale })
}

fn changed() -> StoreError {
    StoreError::Unavailable { reason: "the server changed while a shared budget was read or written".to_owned() }
}

/// Two years, in milliseconds: longer than any window.
const KEPT_MAX: u64 = 63_072_000_000;
