//! Sent Items, which lag behind.

use std::collections::VecDeque;

use crate::engine::Timestamp;

/// Copies kept; the oldest fall out first.
const COPIES_MAX: usize = 100_000;

/// One copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) mailbox: String,
    pub(super) message_id: String,
    pub(super) visible_at: Timestamp,
    /// The item's own id.
    pub(super) number: u64,
}

/// The Sent Items of every mailbox.
#[derive(Debug, Default)]
pub(super) struct SentItems {
    copies: VecDeque<Copy>,
    last: u64,
}

impl SentItems {
    pub(super) fn save(&mut self, mailbox: &str, message_id: &str, visible_at: Timestamp) {
        self.last += 1;
        let (mailbox, message_id) = (mailbox.to_owned(), message_id.to_owned());
        self.copies.push_back(Copy { mailbox, message_id, visible_at, number: self.last });
        while self.copies.len() > COPIES_MAX {
            self.copies.pop_front();
        }
    }

    /// What a look at `now` finds.
    pub(super) fn find(&self, mailbox: &str, message_id: &str, now: Timestamp) -> Vec<Copy> {
        let visible = self.copies.iter().filter(|copy| copy.visible_at <= now);
        visible.filter(|copy| copy.mailbox == mailbox && copy.message_id == message_id).cloned().collect()
    }
}

/// The id in `internetMessageId eq '…'`; a doubled quote within stands for one.
pub(super) fn filtered_id(filter: &str) -> Option<String> {
    let (field, value) = filter.trim().split_once(" eq ")?;
    let quoted = value.trim().strip_prefix('\'')?.strip_suffix('\'')?;
    (field.trim() == "internetMessageId").then(|| quoted.replace("''", "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_found_by_mailbox_and_id_from_its_instant_on() {
        let mut items = SentItems::default();
        items.save("a@x", "<1@x>", Timestamp::from_micros(5));
        let found = |mailbox, id, now| items.find(mailbox, id, Timestamp::from_micros(now)).len();
        assert_eq!([found("a@x", "<1@x>", 4), found("a@x", "<1@x>", 5)], [0, 1]);
        assert_eq!([found("b@x", "<1@x>", 5), found("a@x", "<2@x>", 5)], [0, 0]);
    }

    #[test]
    fn only_a_filter_on_the_message_id_is_understood() {
        let rows = [
            ("internetMessageId eq '<1@x>'", Some("<1@x>")),
            ("internetMessageId eq '<o''neil@x>'", Some("<o'neil@x>")),
            ("subject eq 'x'", None),
            ("internetMessageId eq <1@x>", None),
            ("", None),
        ];
        for (filter, id) in rows {
            assert_eq!(filtered_id(filter).as_deref(), id, "{filter}");
        }
    }
}
