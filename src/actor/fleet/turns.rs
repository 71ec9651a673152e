//! Whose turn it is to probe a shared scope, and what others say of it.

use std::sync::Arc;
use std::time::Duration;

use super::Membership;
use crate::actor::journal::guard;
use crate::actor::kept;
use crate::actor::shared_item::SharedItem;
use crate::actor::world::World;
use crate::clock::Clock;
use crate::engine::shared::{Ballot, Input as SharedInput};
use crate::engine::{Scope, Timestamp};
use crate::store::Note;
use crate::store::fleet::Probe;

/// The shortest that a token is asked for, or waited for.
const MOMENT: Duration = Duration::from_millis(1);

impl Membership {
    /// Asks for the turn to probe a scope, for `span`.
    pub(in crate::actor) fn elect(self: &Arc<Self>, world: &Arc<World>, scope: Scope, span: Duration) {
        let (fleet, world) = (Arc::clone(self), Arc::clone(world));
        self.host.spawn(async move {
            let asked_at = world.clock.now();
            let answer = guard(|| fleet.api.probe(fleet.member, scope.clone(), span)).await;
            let ballot = match answer {
                Ok(Probe::Theirs { ends_in }) => {
                    // The other one may be done sooner.
                    let wait = ends_in.min(fleet.policy.retry_after).max(MOMENT);
                    Ballot::Theirs { until: world.clock.now().after(wait) }
                }
                // A store that is away elects nobody.
                Ok(Probe::Yours) | Err(_) => Ballot::Ours { until: asked_at.after(span) },
            };
            world.shared.push(SharedItem::Input(SharedInput::Elected { scope, ballot }));
        });
    }

    /// Gives the turn back: a token that is asked for again ends when it was asked for last.
    pub(in crate::actor) fn yield_turn(self: &Arc<Self>, scope: Scope) {
        let fleet = Arc::clone(self);
        self.host.spawn(async move {
            // Otherwise it ends by itself.
            drop(guard(|| fleet.api.probe(fleet.member, scope, MOMENT)).await);
        });
    }

    /// A shared scope is to rest, by the word of another process.
    pub(super) fn rest(&self, world: &World, scope: Scope, until: Timestamp) {
        if until > self.clock.now() && !matches!(scope, Scope::Mailbox(_)) {
            world.shared.push(SharedItem::Input(SharedInput::Cooled { scope, until }));
        }
    }

    /// The same from what the breakers of all processes have written down: a word may have been lost.
    pub(super) fn rest_by_notes(&self, world: &World, notes: &[Note]) {
        for (scope, memory) in kept::breakers(notes) {
            if let Some(cooldown) = &memory.cooldown {
                self.rest(world, scope, cooldown.until);
            }
        }
    }
}
