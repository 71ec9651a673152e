//! One mailbox of a campaign, as a copy.

use super::feed::Feed;
use super::{Part, Plan};
use crate::engine::constraint::Constraint;
use crate::engine::limit::Limit;
use crate::engine::mailbox::{Line, Mailbox, Snapshot};
use crate::engine::shared::{MailboxKey, Shared};
use crate::engine::time::Timestamp;

/// One mailbox of the campaign.
pub(super) struct Member {
    pub(super) mailbox: Mailbox,
    pub(super) key: MailboxKey,
    pub(super) feeds: Vec<Feed>,
    /// When an email that it has not sent is given up.
    pub(super) deadline: Timestamp,
    /// What it has sent of the campaign.
    pub(super) count: u64,
    pub(super) binding: Option<Constraint>,
    /// The limit that holds no email of the campaign: it sends none.
    pub(super) never_fits: Option<Limit>,
}

impl Member {
    pub(super) fn new(plan: &Plan, part: &Part, snapshot: Snapshot, shared: Option<&Shared>, start: Timestamp) -> Self {
        let line = |line: Line| Feed::new(line.lane, line.tenant, (line.count, line.cost));
        let mut feeds: Vec<Feed> = snapshot.lines.into_iter().map(line).collect();
        let mailbox = snapshot.mailbox;
        let of_shared = || shared?.limit_below(part.tenant.as_ref(), &plan.cost);
        let never_fits = mailbox.limit_below(&plan.cost).or_else(of_shared);
        if never_fits.is_none() {
            match feeds.iter_mut().find(|feed| feed.lane == plan.lane && feed.tenant == part.tenant) {
                Some(feed) => feed.put_campaign(plan.cost),
                None => {
                    let mut feed = Feed::new(plan.lane, part.tenant.clone(), (0, plan.cost));
                    feed.put_campaign(plan.cost);
                    feeds.push(feed);
                }
            }
        }
        let deadline = start.after(mailbox.deadline_default());
        Self { mailbox, key: part.key, feeds, deadline, count: 0, binding: None, never_fits }
    }
}
