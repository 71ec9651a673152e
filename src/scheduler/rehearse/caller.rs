//! Who submits: a program that hands over what the plan says and waits for every ticket.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::locked;
use super::process::Shared;
use crate::email::Email;
use crate::engine::mailbox::Outcome;
use crate::scheduler::SchedulerHandle;
use crate::simulation::Planned;
use crate::submission::{Submission, SubmitError};

/// Who was turned away comes back after this.
const AGAIN: Duration = Duration::from_secs(1);
/// What is not taken in never sends: it has used no attempt.
const NEVER: Outcome = Outcome::Exhausted { attempts: 0, throttled: None, maybe_sent: false };

/// Submits a group together and writes down how each of it ended.
pub(super) async fn submit(shared: Arc<Shared>, handle: SchedulerHandle, group: Vec<Planned>) {
    let mut left = group;
    let mut tickets = FuturesUnordered::new();
    loop {
        let batch: Vec<Submission> = left.iter().map(|planned| submission(&shared, planned)).collect();
        let mut again = Vec::new();
        for (planned, answer) in left.into_iter().zip(handle.submit_many(batch).await) {
            match answer {
                Ok(ticket) => {
                    locked(&shared.notes).taken_in.insert(planned.key);
                    tickets.push(async move { (planned.key, ticket.outcome().await) });
                }
                Err(SubmitError::Interrupted { .. }) => again.push(planned),
                Err(error) if error.is_retryable() => again.push(planned),
                Err(_) => locked(&shared.notes).end(planned.key, shared.now(), NEVER),
            }
        }
        left = again;
        // Paused time: whoever was turned away comes back, and nobody waits for real.
        let mut pause = std::pin::pin!(tokio::time::sleep(AGAIN));
        loop {
            tokio::select! {
                biased;
                Some((key, outcome)) = tickets.next(), if !tickets.is_empty() => {
                    if let Ok(outcome) = outcome {
                        locked(&shared.notes).end(key, shared.now(), outcome);
                    }
                }
                () = &mut pause, if !left.is_empty() => break,
                else => return,
            }
        }
    }
}

/// The same one each time that it is handed over, so that its id finds it again.
fn submission(shared: &Shared, planned: &Planned) -> Submission {
    let deadline = shared.clock.shown(planned.at).after(planned.deadline);
    let deadline = SystemTime::UNIX_EPOCH + Duration::from_micros(deadline.as_micros());
    let submission = Submission::new(Arc::clone(&planned.mailbox), Email::clone(&shared.email))
        .operation_id(planned.key.0.to_string())
        .lane(planned.lane)
        .cost(planned.cost)
        .deadline_at(deadline);
    match &planned.tenant {
        Some(tenant) => submission.tenant(Arc::clone(tenant)),
        None => submission,
    }
}
