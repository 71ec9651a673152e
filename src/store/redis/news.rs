//! Words among members: one channel, and a board from which each member of this process reads what is new to it.
//!
//! A word may be lost; that some may have been is told (`News::Missed`) whenever the connection that listens was away or
//! a member did not read for long. A connection that is silent is asked whether it lives.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use redis::RedisResult;
use redis::aio::PubSub;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::address::Address;
use super::context::Context;
use super::fault::{broken, unavailable};
use super::row;
use crate::store::StoreError;
use crate::store::fleet::{MemberId, News};

/// News kept for a member that does not read.
const NEWS_MAX: usize = 4_096;
/// Silence after which the connection is asked whether it lives.
const SILENCE: Duration = Duration::from_secs(1);

/// What members of this process have not read yet.
#[derive(Debug, Default)]
pub(super) struct Board {
    kept: Mutex<Kept>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Kept {
    queues: HashMap<MemberId, VecDeque<News>>,
    listens: bool,
    /// Why not, where the server says so.
    refusal: Option<StoreError>,
}

impl Board {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing in it panics half-way.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new member. What was said while it joined it may have missed.
    pub(super) fn add(&self, member: MemberId) {
        self.kept().queues.entry(member).or_default().push_front(News::Missed);
        self.changed.notify_waiters();
    }

    /// The connection listens, or not: either way something may have been missed.
    fn set_listening(&self, listens: bool) {
        let mut kept = self.kept();
        (kept.listens, kept.refusal) = (listens, None);
        for queue in kept.queues.values_mut() {
            queue.clear();
            queue.push_back(News::Missed);
        }
        drop(kept);
        self.changed.notify_waiters();
    }

    fn tell(&self, from: Option<MemberId>, news: &News) {
        for (_, queue) in self.kept().queues.iter_mut().filter(|(member, _)| Some(**member) != from) {
            if queue.len() >= NEWS_MAX {
                queue.clear();
                queue.push_back(News::Missed);
            }
            queue.push_back(news.clone());
        }
        self.changed.notify_waiters();
    }

    /// Waits for news for one member.
    pub(super) async fn read(&self, member: MemberId) -> Result<Vec<News>, StoreError> {
        let mut changed = std::pin::pin!(self.changed.notified());
        loop {
            changed.as_mut().enable();
            {
                let mut kept = self.kept();
                if !kept.listens {
                    let refusal = kept.refusal.clone();
                    return Err(refusal.unwrap_or_else(|| unavailable("redis: news do not come through")));
                }
                let queue = kept.queues.entry(member).or_default();
                if !queue.is_empty() {
                    return Ok(std::mem::take(queue).into());
                }
            }
            changed.as_mut().await;
            changed.set(self.changed.notified());
        }
    }
}

/// A word as it goes over the channel: who is not to hear it, and what it says.
pub(super) fn word(from: Option<MemberId>, news: &News) -> String {
    let from = from.map(|member| member.0.to_string()).unwrap_or_default();
    // Words of our own types: they are always JSON.
    format!("{from}|{}", row::json(news).unwrap_or_default())
}

fn heard(word: &[u8]) -> Option<(Option<MemberId>, News)> {
    let (from, news) = std::str::from_utf8(word).ok()?.split_once('|')?;
    let from = if from.is_empty() { None } else { Some(MemberId(from.parse().ok()?)) };
    // What only a newer version can say is passed over.
    Some((from, serde_json::from_str(news).ok()?))
}

/// Listens for as long as the store lives, once somebody has joined.
pub(super) async fn listen(context: Rc<Context>, board: Arc<Board>) {
    context.joined().await;
    loop {
        let listening = timeout(3 * context.options.connection_timeout, subscribe(&context)).await;
        match listening {
            Ok(Ok(connection)) => {
                board.set_listening(true);
                follow(connection, &context, &board).await;
                board.set_listening(false);
            }
            Ok(Err(error)) => board.kept().refusal = Some(broken(&error)),
            Err(_) => {}
        }
        tokio::time::sleep(context.options.retry_after).await;
    }
}

async fn subscribe(context: &Context) -> RedisResult<PubSub> {
    let client = match context.link.address() {
        Address::One(client) => (**client).clone(),
        #[cfg(feature = "redis-sentinel")]
        Address::Sentinel(sentinels) => sentinels.master().await?,
        // Every node of a Cluster hears every word.
        #[cfg(feature = "redis-cluster")]
        Address::Cluster(nodes, trust) => {
            let node = nodes
                .first()
                .cloned()
                .ok_or(redis::ErrorKind::InvalidClientConfig)
                .map_err(|kind| (kind, "no node"))?;
            trust.client(node)?
        }
    };
    let mut connection = client.get_async_pubsub().await?;
    connection.subscribe(context.names.news()).await?;
    Ok(connection)
}

/// Until the connection is gone.
async fn follow(connection: PubSub, context: &Context, board: &Board) {
    let (mut sink, mut stream) = connection.split();
    loop {
        match timeout(SILENCE, stream.next()).await {
            Ok(None) => return,
            Ok(Some(message)) => {
                if let Some((from, news)) = heard(message.get_payload_bytes()) {
                    board.tell(from, &news);
                }
            }
            Err(_) => {
                // The reply comes by the stream's side of the connection, which works on by itself.
                let lives = timeout(context.options.response_timeout, sink.ping::<redis::Value>()).await;
                if !matches!(lives, Ok(Ok(_))) {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_heard_as_it_was_said_and_an_odd_one_is_passed_over() {
        let news = News::Changed { id: "a|b \"c\"".into() };
        for from in [None, Some(MemberId(7))] {
            assert_eq!(heard(word(from, &news).as_bytes()), Some((from, news.clone())));
        }
        for odd in ["", "|", "x|{}", "7|{\"tomorrow\":1}"] {
            assert_eq!(heard(odd.as_bytes()), None, "{odd}");
        }
    }
}
