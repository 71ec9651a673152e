//! What this process takes of the budgets that all of them share: the engine's rule, carried out over the table in the store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Membership;
use crate::actor::journal::guard;
use crate::actor::shared::SharedItem;
use crate::actor::world::World;
use crate::clock::Clock;
use crate::engine::chunks::{Ask, ChunkRules, Gained, take};
use crate::engine::shared::Input as SharedInput;
use crate::engine::{OperationKey, Scope, Timestamp};
use crate::store::StoreError;
use crate::store::fleet::{MemberId, NewPart, Put, Renewals};

/// How often a table is read again because others wrote it meanwhile: each time one of them got on.
const TRIES: usize = 16;
/// So much longer than it counts a table is kept.
const KEPT_LONGER: Duration = Duration::from_secs(60);

/// What is known here of tokens.
#[derive(Debug)]
pub(super) struct Tokens {
    /// Until when what was granted on tokens has to leave.
    leaves_by: Mutex<BTreeMap<OperationKey, Timestamp>>,
    /// The last time that each scope was asked for: what was asked before says less than the table by now.
    last: Mutex<BTreeMap<Scope, u64>>,
    /// The last failover of the store that was heard of.
    failover_at: Mutex<Option<Timestamp>>,
}

impl Tokens {
    pub(super) fn new(failover_at: Option<Timestamp>) -> Self {
        Self { leaves_by: Mutex::default(), last: Mutex::default(), failover_at: Mutex::new(failover_at) }
    }

    fn last(&self) -> MutexGuard<'_, BTreeMap<Scope, u64>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, scope: &Scope) -> u64 {
        let mut last = self.last();
        let number = last.entry(scope.clone()).or_default();
        *number += 1;
        *number
    }

    fn leaves_by(&self) -> MutexGuard<'_, BTreeMap<OperationKey, Timestamp>> {
        self.leaves_by.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Membership {
    /// Takes what is wanted of a scope, and tells the engine.
    pub(in crate::actor) fn exchange(self: &Arc<Self>, world: &Arc<World>, scope: Scope, ask: Box<Ask>) {
        let (fleet, world) = (Arc::clone(self), Arc::clone(world));
        let number = self.tokens.next(&scope);
        self.host.spawn(async move {
            let rules = ChunkRules::new(&fleet.policy, &world.settings.load().shared());
            fleet.forget_tokens(rules.attempt);
            let taking = fleet.take((&scope, number), &ask, &rules);
            let gained = tokio::time::timeout(rules.ttl, taking).await.ok().and_then(Result::ok).flatten();
            let asked_at = ask.asked_at;
            world.shared.push(SharedItem::Input(SharedInput::Chunk { scope, asked_at, gained }));
        });
    }

    /// `None`: others were always faster, or an engine that was made anew has asked again.
    async fn take(
        &self,
        (scope, number): (&Scope, u64),
        ask: &Ask,
        rules: &ChunkRules,
    ) -> Result<Option<Vec<Gained>>, StoreError> {
        for _ in 0..TRIES {
            let table = guard(|| self.api.parts(self.member, self.terms, scope.clone())).await?;
            let parts = table.parts.into_iter().map(|(member, part)| (member.0, part)).collect();
            let failover_at = table.failover_ago.map(|ago| table.time.before(ago));
            let taken = take(table.time, (self.member.0, ask), &parts, failover_at, rules);
            let over = taken.over.into_iter().map(MemberId).collect();
            let keep = taken.ends_at.since(table.time).saturating_add(KEPT_LONGER);
            let new = NewPart { part: taken.part, version: table.version, over, keep };
            if self.tokens.last().get(scope) != Some(&number) {
                return Ok(None);
            }
            match guard(|| self.api.put_part(self.member, scope.clone(), new)).await? {
                Put::Written => return Ok(Some(taken.gained)),
                Put::Stale => {}
            }
        }
        Ok(None)
    }

    /// After a failover that is news the shared budgets are told again what was used of them.
    pub(super) fn look_for_failover(&self, world: &World, renewals: &Renewals) {
        let last = renewals.failover_ago.map(|ago| renewals.time.before(ago));
        let mut known = self.tokens.failover_at.lock().unwrap_or_else(PoisonError::into_inner);
        if last > *known {
            *known = last;
            world.shared.push(SharedItem::Input(SharedInput::Forgotten));
        }
    }

    /// An operation was granted on tokens.
    pub(in crate::actor) fn has_tokens(&self, key: OperationKey, leaves_by: Timestamp) {
        self.tokens.leaves_by().insert(key, leaves_by);
    }

    /// It has come back, or has ended.
    pub(in crate::actor) fn needs_no_tokens(&self, key: OperationKey) {
        self.tokens.leaves_by().remove(&key);
    }

    /// Forgets operations that nobody ever settled: whatever waits to leave has a deadline of its own by then.
    fn forget_tokens(&self, after: Duration) {
        let now = self.clock.now();
        self.tokens.leaves_by().retain(|_, until| until.after(after) > now);
    }

    /// Whether the tokens of an operation may still be used, if it needs any: the last look, right before it leaves.
    pub(in crate::actor) fn may_use_tokens(&self, key: OperationKey) -> bool {
        let now = self.clock.now();
        self.tokens.leaves_by().get(&key).is_none_or(|until| now < *until)
    }
}
