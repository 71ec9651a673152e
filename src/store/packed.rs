//! An operation's id in 24 bytes, which a million of them may be kept in.
//!
//! As a text of its own a UUID takes 52 bytes and 16 more wherever it is pointed at. Here it is the 16 bytes that it was
//! made from, and a short text lies in place; only a long one is shared. What goes in comes out, letter by letter.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use uuid::Uuid;

/// The longest text that lies in place.
const SHORT_MAX: usize = 22;

/// An id as it is kept.
#[derive(Clone)]
pub(crate) enum PackedId {
    /// A UUID in its usual form: lower case, with hyphens.
    Uuid([u8; 16]),
    Short {
        length: u8,
        bytes: [u8; SHORT_MAX],
    },
    Long(Arc<str>),
}

/// An id as it is compared and looked for: equal texts give equal views.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum IdView<'a> {
    Uuid([u8; 16]),
    Text(&'a [u8]),
}

impl<'a> IdView<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        uuid_of(text).map_or(Self::Text(text.as_bytes()), Self::Uuid)
    }
}

impl PackedId {
    pub(crate) fn view(&self) -> IdView<'_> {
        match self {
            Self::Uuid(bytes) => IdView::Uuid(*bytes),
            Self::Short { length, bytes } => IdView::Text(&bytes[..usize::from(*length)]),
            Self::Long(text) => IdView::Text(text.as_bytes()),
        }
    }

    /// The text of it. Only a long one is there already.
    pub(crate) fn text(&self) -> Arc<str> {
        match self {
            Self::Uuid(bytes) => {
                let mut text = Uuid::encode_buffer();
                Arc::from(&*Uuid::from_bytes(*bytes).hyphenated().encode_lower(&mut text))
            }
            Self::Short { length, bytes } => {
                let text = std::str::from_utf8(&bytes[..usize::from(*length)]);
                Arc::from(text.expect("a whole text was put in"))
            }
            Self::Long(text) => Arc::clone(text),
        }
    }
}

impl From<Arc<str>> for PackedId {
    fn from(text: Arc<str>) -> Self {
        if let Some(bytes) = uuid_of(&text) {
            return Self::Uuid(bytes);
        }
        let mut bytes = [0; SHORT_MAX];
        match (u8::try_from(text.len()), bytes.get_mut(..text.len())) {
            (Ok(length), Some(room)) => {
                room.copy_from_slice(text.as_bytes());
                Self::Short { length, bytes }
            }
            _ => Self::Long(text),
        }
    }
}

impl PartialEq for PackedId {
    fn eq(&self, other: &Self) -> bool {
        self.view() == other.view()
    }
}

impl Eq for PackedId {}

impl Hash for PackedId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.view().hash(state);
    }
}

impl fmt::Debug for PackedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

/// The bytes of a UUID in its usual form. In any other (capitals, no hyphens) it is another text, so another id.
fn uuid_of(text: &str) -> Option<[u8; 16]> {
    if text.len() != uuid::fmt::Hyphenated::LENGTH {
        return None;
    }
    let uuid = Uuid::try_parse(text).ok()?;
    let mut usual = Uuid::encode_buffer();
    (*uuid.hyphenated().encode_lower(&mut usual) == *text).then(|| uuid.into_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UUID: &str = "01930b5e-8f9a-7c3d-b1e2-0a9f8e7d6c5b";

    #[test]
    fn it_takes_twenty_four_bytes() {
        assert_eq!(size_of::<PackedId>(), 24);
        assert!(matches!(PackedId::from(Arc::from(UUID)), PackedId::Uuid(_)));
        assert!(matches!(PackedId::from(Arc::from("reset-01JAZ8YF4Q")), PackedId::Short { .. }));
    }

    /// Texts of every kind, and those that are nearly of another.
    fn texts() -> impl Strategy<Value = String> {
        let bytes = any::<[u8; 16]>().prop_map(|bytes| Uuid::from_bytes(bytes).to_string());
        let capitals = bytes.clone().prop_map(|text| text.to_uppercase());
        let plain = bytes.clone().prop_map(|text| text.replace('-', ""));
        prop_oneof![
            bytes,
            capitals,
            plain,
            "[a-f0-9-]{36}",
            ".{0,12}",
            "[a-z-]{20,24}",
            ".{0,80}",
            Just(UUID.to_owned())
        ]
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out_and_only_equal_texts_are_equal(one in texts(), other in texts()) {
            let [first, second] = [&one, &other].map(|text| PackedId::from(Arc::from(text.as_str())));
            prop_assert_eq!(&*first.text(), &one);
            prop_assert_eq!(&*second.text(), &other);
            prop_assert_eq!(first == second, one == other);
            prop_assert_eq!(first.view() == IdView::of(&other), one == other);
            prop_assert_eq!(first.view(), IdView::of(&one));
        }
    }
}
