//! Whether anything was lost: whatever was submitted and is not over has to be with somebody.

use std::collections::BTreeSet;

use super::load::Traced;
use super::{World, place_of};
use crate::engine::OperationKey;

/// Who has what is not over.
#[derive(Debug, Default)]
pub(super) enum Keeper {
    /// The world's own engines.
    #[default]
    Engines,
    /// Actors that carried out its plan: the live rows of their store, and what its callers still have.
    Actors(BTreeSet<OperationKey>),
}

impl World {
    /// Operations that were submitted, are not over, and are with nobody: neither its mailbox's engine nor the inbox of a busy
    /// actor, nor, while the process is gone, the outbox; after a run through the actors, neither the store nor its caller.
    /// Gathers them anew.
    #[must_use]
    pub fn lost(&self) -> Vec<OperationKey> {
        let keys = (1..=self.traced.len() as u64).map(OperationKey);
        keys.filter(|key| self.get(*key).is_some_and(|traced| self.has_lost(*key, traced))).collect()
    }

    fn has_lost(&self, key: OperationKey, traced: &Traced) -> bool {
        if traced.over {
            return false;
        }
        match &self.keeper {
            Keeper::Actors(kept) => traced.submitted_at <= self.now && !kept.contains(&key),
            Keeper::Engines if !traced.submitted => false,
            Keeper::Engines if self.down_until.is_some() => !self.is_in_outbox(traced),
            Keeper::Engines => {
                self.mailboxes[traced.mailbox].state(key).is_none() && !self.busy.holds(traced.mailbox, key)
            }
        }
    }

    /// What actors and callers had in the end.
    pub(super) fn kept_by_actors(&mut self, kept: BTreeSet<OperationKey>) {
        for ended in &self.ended {
            let is_over = !matches!(ended.outcome, crate::engine::mailbox::Outcome::Unknown);
            if let Some(traced) = self.traced.get_mut(place_of(ended.key)) {
                traced.over = is_over;
            }
        }
        self.keeper = Keeper::Actors(kept);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use crate::engine::policy::MailboxPolicy;
    use crate::engine::{Lane, OperationKey};
    use crate::simulation::{KeepOutbox, Load, World};
    use crate::upstream::{Model, Upstream};

    #[test]
    fn what_a_process_without_an_outbox_takes_with_it_is_lost() {
        let lost = |keep| {
            let upstream = Upstream::new(Model::new([]), 1);
            let mut world = World::new(1, &Arc::new(MailboxPolicy::default()), None, upstream).keep_outbox(keep);
            let (start, second) = (world.start(), Duration::from_secs(1));
            world.burst(start, 3, &Load::new(Lane::Foreground));
            world.submit(start.after(2 * second), &Load::new(Lane::Foreground));
            // All three are on their way.
            world.crash(start.after(Duration::from_micros(1)), second);
            world.run_until(start.after(second / 2));
            let meanwhile = world.lost();
            world.run_until(start.after(3 * second));
            assert_eq!(meanwhile, world.lost());
            meanwhile
        };
        assert_eq!(lost(KeepOutbox::No), [1, 2, 3].map(OperationKey));
        assert_eq!(lost(KeepOutbox::Yes), []);
    }
}
