//! Tenants' and campaigns' names: each pair that operations have is kept once.
//!
//! A pair that nobody uses any more is kept for a while, since the next operation is likely to bring it again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::lanes::NIL;

/// Unused pairs that are worth keeping.
const UNUSED_MAX: u32 = 16;

/// A tenant and a campaign, of which either may be missing.
type Pair = [Option<Arc<str>>; 2];

/// A pair's number, or that both are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NamesId(u32);

impl NamesId {
    pub(super) const NONE: Self = Self(NIL);
}

#[derive(Clone, Debug)]
struct Named {
    pair: Pair,
    uses: u32,
}

/// The names in use.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    names: Vec<Named>,
    by_pair: BTreeMap<Pair, u32>,
    free: Vec<u32>,
    unused: u32,
}

impl Names {
    /// The number of a tenant and a campaign, used once more.
    pub(super) fn enter(&mut self, pair: [Option<&Arc<str>>; 2]) -> NamesId {
        if pair == [None; 2] {
            return NamesId::NONE;
        }
        let pair = pair.map(Option::<&Arc<str>>::cloned);
        let at = match self.by_pair.get(&pair) {
            Some(at) => *at,
            None => self.add(pair),
        };
        let named = &mut self.names[at as usize];
        self.unused -= u32::from(named.uses == 0);
        named.uses += 1;
        NamesId(at)
    }

    pub(super) fn tenant(&self, id: NamesId) -> Option<&Arc<str>> {
        self.names.get(id.0 as usize)?.pair[0].as_ref()
    }

    pub(super) fn campaign(&self, id: NamesId) -> Option<&Arc<str>> {
        self.names.get(id.0 as usize)?.pair[1].as_ref()
    }

    /// `id` is used once less.
    pub(super) fn leave(&mut self, id: NamesId) {
        let Some(named) = self.names.get_mut(id.0 as usize) else { return };
        named.uses -= 1;
        if named.uses == 0 {
            self.unused += 1;
            if self.unused > UNUSED_MAX {
                self.forget_unused();
            }
        }
    }

    fn add(&mut self, pair: Pair) -> u32 {
        let named = Named { pair: pair.clone(), uses: 0 };
        let at = match self.free.pop() {
            Some(at) => {
                self.names[at as usize] = named;
                at
            }
            None => {
                self.names.push(named);
                (self.names.len() - 1) as u32 // at most one an operation, and those are counted in a u32
            }
        };
        self.unused += 1;
        self.by_pair.insert(pair, at);
        at
    }

    fn forget_unused(&mut self) {
        let (names, free) = (&mut self.names, &mut self.free);
        self.by_pair.retain(|_, at| {
            let named = &mut names[*at as usize];
            if named.uses == 0 {
                named.pair = [const { None }; 2];
                free.push(*at);
            }
            named.uses > 0
        });
        self.unused = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_has_one_number_while_it_is_used_and_unused_ones_do_not_pile_up() {
        let mut names = Names::default();
        let name = |n: u32| Arc::<str>::from(format!("tenant-{n}"));
        let first = names.enter([Some(&name(0)), None]);
        assert_eq!(names.enter([Some(&name(0)), None]), first);
        assert_ne!(names.enter([None, Some(&name(0))]), first);
        names.leave(first);
        for n in 1..1_000 {
            let id = names.enter([Some(&name(0)), Some(&name(n))]);
            assert_eq!((names.tenant(id), names.campaign(id)), (Some(&name(0)), Some(&name(n))));
            assert_ne!(id, first);
            names.leave(id);
        }
        assert_eq!((names.tenant(first), names.campaign(first)), (Some(&name(0)), None));
        assert!(names.names.len() <= 20 && names.by_pair.len() <= 20);
        assert_eq!((names.enter([None; 2]), names.tenant(NamesId::NONE)), (NamesId::NONE, None));
    }
}
