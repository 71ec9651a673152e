//! Where operations belong: mailbox, tenant and campaign, each name and each place once, by numbers.
//!
//! A number is given back with the last row that has it, so a store that has seen a million mailboxes remembers those
//! that it has rows of.

use std::collections::HashMap;
use std::sync::Arc;

use fnv::FnvHashMap;

use super::run::NIL;
use super::shelf::Shelf;

/// The number of a name; [`NIL`]: none.
pub(super) type NameId = u32;

/// Mailbox, tenant and campaign.
pub(super) type Names = [NameId; 3];

/// One place, with the runs of its rows.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) names: Names,
    rows: u32,
    pub(super) roots: [u32; Shelf::COUNT],
}

#[derive(Clone, Debug)]
struct Named {
    name: Arc<str>,
    places: u32,
}

/// Places that rows share.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    places: Vec<Place>,
    by_names: FnvHashMap<Names, u32>,
    names: Vec<Option<Named>>,
    by_name: HashMap<Arc<str>, NameId>,
    free_places: Vec<u32>,
    free_names: Vec<NameId>,
}

impl Places {
    pub(super) fn get(&self, place: u32) -> &Place {
        &self.places[place as usize]
    }

    pub(super) fn get_mut(&mut self, place: u32) -> &mut Place {
        &mut self.places[place as usize]
    }

    /// Places, among them some that have no row any more.
    #[cfg(any(test, feature = "test-util"))]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Place> {
        self.places.iter()
    }

    /// The number of a name that some row has.
    pub(super) fn find(&self, name: &str) -> Option<NameId> {
        self.by_name.get(name).copied()
    }

    pub(super) fn name(&self, id: NameId) -> Option<&Arc<str>> {
        Some(&self.names.get(id as usize)?.as_ref()?.name)
    }

    /// A place for one row more.
    pub(super) fn enter(&mut self, names: [Option<&Arc<str>>; 3]) -> u32 {
        let names = names.map(|name| name.map_or(NIL, |name| self.number(name)));
        if let Some(place) = self.by_names.get(&names) {
            self.places[*place as usize].rows += 1;
            return *place;
        }
        for id in names {
            self.used(id, |places| places.saturating_add(1));
        }
        let place = Place { names, rows: 1, roots: [NIL; Shelf::COUNT] };
        let at = match self.free_places.pop() {
            Some(at) => {
                self.places[at as usize] = place;
                at
            }
            None => {
                self.places.push(place);
                (self.places.len() - 1) as u32 // no more than there are rows, and those have slots of 32 bits
            }
        };
        self.by_names.insert(names, at);
        at
    }

    /// A place has one row less.
    pub(super) fn leave(&mut self, place: u32) {
        let found = &mut self.places[place as usize];
        found.rows -= 1;
        if found.rows > 0 {
            return;
        }
        let names = found.names;
        self.by_names.remove(&names);
        self.free_places.push(place);
        for id in names {
            self.used(id, |places| places.saturating_sub(1));
            self.forget_unused(id);
        }
    }

    fn number(&mut self, name: &Arc<str>) -> NameId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let named = Some(Named { name: Arc::clone(name), places: 0 });
        let id = match self.free_names.pop() {
            Some(id) => {
                self.names[id as usize] = named;
                id
            }
            None => {
                self.names.push(named);
                (self.names.len() - 1) as u32 // at most three names a place
            }
        };
        self.by_name.insert(Arc::clone(name), id);
        id
    }

    fn used(&mut self, id: NameId, count: impl FnOnce(u32) -> u32) {
        if let Some(Some(named)) = self.names.get_mut(id as usize) {
            named.places = count(named.places);
        }
    }

    fn forget_unused(&mut self, id: NameId) {
        let Some(slot) = self.names.get_mut(id as usize) else { return };
        if let Some(named) = slot.take_if(|named| named.places == 0) {
            self.by_name.remove(&named.name);
            self.free_names.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_names_go_with_their_last_row() {
        let mut places = Places::default();
        let name = |n: u32| Arc::<str>::from(format!("name-{n}"));
        let kept = places.enter([Some(&name(0)), Some(&name(0)), None]);
        assert_eq!(places.enter([Some(&name(0)), Some(&name(0)), None]), kept);
        places.leave(kept);
        for n in 1..1_000 {
            let place = places.enter([Some(&name(n)), None, Some(&name(0))]);
            assert_ne!(place, kept);
            assert_eq!(places.name(places.get(place).names[0]), Some(&name(n)));
            places.leave(place);
        }
        assert_eq!((places.places.len(), places.by_names.len()), (2, 1));
        assert_eq!((places.names.len(), places.by_name.len()), (2, 1));
        assert_eq!(places.get(kept).names, [0, 0, NIL]);
    }
}
