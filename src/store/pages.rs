//! A long list in pages, so that who takes it over gives back the room of each page that it has gone through.
//!
//! A mailbox can have a million operations when its engine is built. What is read of them and what is built from them
//! then never stand side by side whole; and a list that grows page by page is never copied to grow.

use std::fmt;

/// Items of one page.
const PAGE: usize = 1_024;

/// A list that only grows, and is gone through in order.
#[derive(Clone)]
pub struct Pages<T> {
    /// All but the last are full.
    pages: Vec<Vec<T>>,
}

impl<T> Pages<T> {
    /// Puts an item at the end.
    pub fn push(&mut self, item: T) {
        match self.pages.last_mut() {
            Some(page) if page.len() < PAGE => page.push(item),
            // Most lists are short: only who fills a page gets a second one whole.
            last => {
                let mut page = last.map_or_else(Vec::new, |_| Vec::with_capacity(PAGE));
                page.push(item);
                self.pages.push(page);
            }
        }
    }

    /// How many items there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pages.last().map_or(0, |last| (self.pages.len() - 1) * PAGE + last.len())
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The items in order.
    pub fn iter(&self) -> <&Self as IntoIterator>::IntoIter {
        self.pages.iter().flatten()
    }
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self { pages: Vec::new() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Pages<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self).finish()
    }
}

impl<T> Extend<T> for Pages<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<T> FromIterator<T> for Pages<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut pages = Self::default();
        pages.extend(items);
        pages
    }
}

/// A page is given back with the last of its items.
impl<T> IntoIterator for Pages<T> {
    type Item = T;
    type IntoIter = std::iter::Flatten<std::vec::IntoIter<Vec<T>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.pages.into_iter().flatten()
    }
}

impl<'a, T> IntoIterator for &'a Pages<T> {
    type Item = &'a T;
    type IntoIter = std::iter::Flatten<std::slice::Iter<'a, Vec<T>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: PartialEq> PartialEq for Pages<T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other)
    }
}

impl<T: Eq> Eq for Pages<T> {}

impl<T: PartialEq, const N: usize> PartialEq<[T; N]> for Pages<T> {
    fn eq(&self, other: &[T; N]) -> bool {
        self.iter().eq(other)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn a_list_has_its_items_in_order_whatever_its_length() {
        for length in [0, 1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE, 3 * PAGE + 1] {
            let pages: Pages<usize> = (0..length).collect();
            assert_eq!((pages.len(), pages.is_empty()), (length, length == 0));
            assert_eq!(pages.pages.len(), length.div_ceil(PAGE), "no page is empty");
            assert!(pages.iter().copied().eq(0..length));
            assert_eq!(pages, pages.clone());
            assert!(pages.into_iter().eq(0..length));
        }
    }

    #[test]
    fn lists_are_the_same_by_their_items_alone() {
        let mut pages = Pages::default();
        pages.push(1);
        pages.extend([2, 3]);
        assert_eq!(pages, [1, 2, 3]);
        assert_ne!(pages, [1, 2]);
        assert_ne!(pages, (0..PAGE).collect::<Pages<_>>());
        assert_eq!(format!("{pages:?}"), "[1, 2, 3]");
    }

    #[test]
    fn a_page_is_given_back_before_the_next_is_gone_through_and_the_rest_with_the_list() {
        let item = Rc::new(());
        let pages: Pages<Rc<()>> = std::iter::repeat_n(Rc::clone(&item), 3 * PAGE).collect();
        let room: Vec<usize> = pages.pages.iter().map(Vec::capacity).collect();
        assert_eq!(room, [PAGE; 3], "no page has room that it does not need");
        let mut items = pages.into_iter();
        assert_eq!(items.by_ref().take(PAGE + 1).count(), PAGE + 1);
        assert_eq!(Rc::strong_count(&item), 1 + 2 * PAGE - 1);
        drop(items);
        assert_eq!(Rc::strong_count(&item), 1);
    }
}
