//! Several schedulers over one store, under paused time: one owner per mailbox, one upstream that counts.
//!
//! The upstream's log is the judge: it sees what arrived, whichever process sent it.

mod clocks;
mod deaths;
mod letters;
mod outages;
mod probes;
mod rates;
mod remote;
mod support;
mod tickets;
