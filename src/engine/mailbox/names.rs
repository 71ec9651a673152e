//! Tenants' and campaigns' names, each kept once.
//!
//! A name that nobody uses any more is kept for a while, since the next operation is likely to bring it again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::lanes::NIL;

/// Unused names that are worth keeping.
const UNUSED_MAX: u32 = 16;

/// A name's number, or that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameId(u32);

impl NameId {
    pub(super) const NONE: Self = Self(NIL);
}

#[derive(Clone, Debug)]
struct Named {
    name: Option<Arc<str>>,
    uses: u32,
}

/// The names in use.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    names: Vec<Named>,
    by_name: BTreeMap<Arc<str>, u32>,
    free: Vec<u32>,
    unused: u32,
}

impl Names {
    /// The number of `name`, used once more.
    pub(super) fn enter(&mut self, name: Option<&Arc<str>>) -> NameId {
        let Some(name) = name else { return NameId::NONE };
        let at = match self.by_name.get(name) {
            Some(at) => *at,
            None => self.add(name),
        };
        let named = &mut self.names[at as usize];
        self.unused -= u32::from(named.uses == 0);
        named.uses += 1;
        NameId(at)
    }

    pub(super) fn get(&self, id: NameId) -> Option<&Arc<str>> {
        self.names.get(id.0 as usize)?.name.as_ref()
    }

    /// `id` is used once less.
    pub(super) fn leave(&mut self, id: NameId) {
        let Some(named) = self.names.get_mut(id.0 as usize) else { return };
        named.uses -= 1;
        if named.uses == 0 {
            self.unused += 1;
            if self.unused > UNUSED_MAX {
                self.forget_unused();
            }
        }
    }

    fn add(&mut self, name: &Arc<str>) -> u32 {
        let named = Named { name: Some(Arc::clone(name)), uses: 0 };
        let at = match self.free.pop() {
            Some(at) => {
                self.names[at as usize] = named;
                at
            }
            None => {
                self.names.push(named);
                (self.names.len() - 1) as u32 // at most two names an operation, and those are counted in a u32
            }
        };
        self.unused += 1;
        self.by_name.insert(Arc::clone(name), at);
        at
    }

    fn forget_unused(&mut self) {
        let (names, free) = (&mut self.names, &mut self.free);
        self.by_name.retain(|_, at| {
            let named = &mut names[*at as usize];
            if named.uses == 0 {
                named.name = None;
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
    fn a_name_has_one_number_while_it_is_used_and_unused_ones_do_not_pile_up() {
        let mut names = Names::default();
        let name = |n: u32| Arc::<str>::from(format!("tenant-{n}"));
        let first = names.enter(Some(&name(0)));
        assert_eq!(names.enter(Some(&name(0))), first);
        names.leave(first);
        for n in 1..1_000 {
            let id = names.enter(Some(&name(n)));
            assert_eq!(names.get(id), Some(&name(n)));
            assert_ne!(id, first);
            names.leave(id);
        }
        assert_eq!(names.get(first), Some(&name(0)));
        assert!(names.names.len() <= 20 && names.by_name.len() <= 20);
        assert_eq!((names.enter(None), names.get(NameId::NONE)), (NameId::NONE, None));
    }
}
