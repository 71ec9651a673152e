//! What a provider's answer says: waits, scopes, use, and the verdict. Bytes in, values out; nothing here does I/O.
//!
//! Classifying by status alone is wrong in both directions: some 403s and 503s are throttles, some answers that look
//! final may already have sent the mail, and a 2xx with `Retry-After` is no invitation to repeat. So the status is read
//! first, then the most specific code in the body, then its text, then the headers.
//!
//! Providers bend every format they document, so parsers are lenient about what they understand and strict about
//! what they do not: a value that cannot be read is *no hint*, never zero, and the scheduler falls back to its own,
//! longer wait. No input panics; bodies are read up to [`BODY_BYTES_MAX`], nesting up to a fixed depth.
//!
//! What is not promised: texts change without notice. They only refine a throttle's kind, never whether an email was
//! accepted.

mod body;
mod codes;
mod rate_limit;
mod retry_after;
mod throttle;
mod verdict;

pub use body::BODY_BYTES_MAX;
pub use rate_limit::{RateLimit, RateLimitPolicy, rate_limit_policies, rate_limit_wait, rate_limits};
pub use retry_after::{WAIT_MAX, retry_after, wait_hint};
pub use throttle::{throttle_scope, usage};
#[cfg(feature = "graph")]
pub(crate) use verdict::says_item_not_found;
pub use verdict::{Unavailable, judge, judge_with};
