//! The upstream behind Graph's wire format, on a real socket.
//!
//! What a Graph client meets here is what it meets there: client-credentials tokens that expire, `sendMail` with JSON
//! or base64 MIME, drafts that are created and then sent, `$batch`, a look at Sent Items that lags behind, throttles with their headers, and connections that
//! break. Behind it is the same [`Upstream`] as everywhere, in real time: latencies are waited for, and
//! instants come from the clock that the caller hands in.
//!
//! It is an upstream to test against, not a Graph emulator: no other endpoint exists, only what a refusal or a
//! verdict depends on is checked, and a `dependsOn` in a batch is refused. Reads and tokens are neither limited nor
//! logged: the log holds sends. A request that the client gave up on while it was under way still arrives, as it does
//! at a provider. A connection that is cut *before* its body looks to the client like one cut after it (the body has
//! left the client's machine either way); the two differ in whether the email was taken.
//!
//! Everything is bounded: body, connections, tokens, Sent Items, and the log by its model. It listens on the loopback
//! address only.

mod answer;
mod batch;
mod drafts;
mod mime;
mod payload;
mod send;
mod sent_items;
mod server;
mod socket;
mod text;
mod token;

pub use server::{ServerOptions, UpstreamServer};

#[cfg(doc)]
use super::Upstream;
