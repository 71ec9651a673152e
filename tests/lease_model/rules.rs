//! The sizes of one model, and the rules of the protocol that can be left out one by one.

/// A rule of the protocol. Each is here because leaving it out lets too much through, and the tests show that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A charge in the ledger is kept for the window **and** the longest latency.
    KeptForLatency,
    /// Who takes over from an owner that did not release has half the rate until that one is silent.
    SuccessorGrace,
    /// That grace lasts G + D + W: the last send of the cut-off owner may arrive D after its G is over.
    GraceOutlastsLatency,
    /// An owner that does not reach the ledger has half the rate.
    HalfWhenCutOff,
    /// Who has no lease sends nothing, reachable or not.
    NothingWithoutLease,
    /// An owner in its own grace does not send unrecorded.
    NothingUnrecordedInGrace,
    /// After a failover nothing is granted for W + D.
    Quarantine,
    /// After a failover the rate is half for TTL + G + D + W.
    UncleanAfterFailover,
    /// It is half also where the lease that survived was released cleanly: an ACQUIRE may have been lost.
    LostAcquireIsUnclean,
    /// What was sent unrecorded is in the ledger before the next RESERVE.
    MergeBeforeReserve,
    /// A release brings the own ledger with it.
    MergeOnRelease,
    /// A clean release ends the lease, not the grace that was running.
    GraceSurvivesRelease,
    /// A successor counts what it found in the ledger as its own when it is cut off.
    LedgerTakenOver,
    /// The record of a lease outlives the lease.
    LeaseRemembered,
    /// A repeated RESERVE has the deadline of the first.
    FirstDeadline,
    /// Who has spoken to the new master does not go back to the old one.
    NeverBack,
    /// After a failover nothing is granted as long as the old master may still serve somebody.
    QuarantineOutlastsSplit,
}

/// When a charge leaves the shared ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retention {
    /// W + D after the send, always.
    Fixed,
    /// W after the completion was reported, and W + D after the send at the latest.
    Reported,
}

/// When the answer to a request reaches its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// At the instant of its arrival: the earliest, which frees the slot first.
    AtOnce,
    /// At any instant after it, or never.
    AnyTime,
}

/// One model: sizes in ticks, and what is left out.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// N: arrivals that a window may hold.
    pub(crate) limit: u8,
    /// W.
    pub(crate) window: u8,
    /// D: from the claim of a slot to the last instant at which its request can arrive.
    pub(crate) latency: u8,
    /// The lease's length.
    pub(crate) ttl: u8,
    /// G: for how long a cut-off owner goes on after its lease.
    pub(crate) grace: u8,
    pub(crate) processes: u8,
    pub(crate) failovers: u8,
    /// Whether a failover may also lead to a server that holds nothing.
    pub(crate) flush: bool,
    /// For how long the old master of a failover still serves who asks it.
    pub(crate) split: u8,
    /// Whether a RESERVE without a reply may be repeated under its id.
    pub(crate) retry: bool,
    /// After how many ticks the record of an ended lease is forgotten; `None`: never.
    pub(crate) forgotten_after: Option<u8>,
    pub(crate) retention: Retention,
    pub(crate) answers: Answers,
    pub(crate) without: Vec<Rule>,
}

impl Rules {
    /// The whole protocol: N, W, D and processes; TTL 2, G 1, no failover.
    pub(crate) fn new(limit: u8, window: u8, latency: u8, processes: u8) -> Self {
        Self {
            limit,
            window,
            latency,
            ttl: 2,
            grace: 1,
            processes,
            failovers: 0,
            flush: true,
            split: 0,
            retry: false,
            forgotten_after: None,
            retention: Retention::Reported,
            answers: Answers::AtOnce,
            without: Vec::new(),
        }
    }

    pub(crate) fn failovers(self, failovers: u8) -> Self {
        Self { failovers, ..self }
    }

    pub(crate) fn no_flush(self) -> Self {
        Self { flush: false, ..self }
    }

    pub(crate) fn lease(self, ttl: u8, grace: u8) -> Self {
        Self { ttl, grace, ..self }
    }

    pub(crate) fn fixed(self) -> Self {
        Self { retention: Retention::Fixed, ..self }
    }

    pub(crate) fn slow_answers(self) -> Self {
        Self { answers: Answers::AnyTime, ..self }
    }

    pub(crate) fn retrying(self) -> Self {
        Self { retry: true, ..self }
    }

    pub(crate) fn split(self, split: u8) -> Self {
        Self { split, ..self }
    }

    pub(crate) fn forgetting(self, after: u8) -> Self {
        Self { forgotten_after: Some(after), ..self }
    }

    pub(crate) fn without(mut self, rule: Rule) -> Self {
        self.without.push(rule);
        self
    }

    pub(crate) fn has(&self, rule: Rule) -> bool {
        !self.without.contains(&rule)
    }

    pub(crate) fn half(&self) -> u8 {
        self.limit / 2
    }

    /// How long a charge without a report is kept.
    pub(crate) fn kept(&self) -> u8 {
        self.window + if self.has(Rule::KeptForLatency) { self.latency } else { 0 }
    }

    /// How long a takeover stays at half.
    pub(crate) fn unclean(&self) -> u8 {
        match (self.has(Rule::SuccessorGrace), self.has(Rule::GraceOutlastsLatency)) {
            (false, _) => 0,
            (true, false) => self.grace + self.window,
            (true, true) => self.grace + self.latency + self.window,
        }
    }

    /// How long nothing is granted after a failover.
    pub(crate) fn quarantine(&self) -> u8 {
        let split = if self.has(Rule::QuarantineOutlastsSplit) { self.split } else { 0 };
        if self.has(Rule::Quarantine) { split + self.window + self.latency } else { 0 }
    }

    /// How long the rate is half after a failover, counted from it.
    pub(crate) fn unclean_after_failover(&self) -> u8 {
        let all = self.split + self.ttl + self.grace + self.latency + self.window;
        if self.has(Rule::UncleanAfterFailover) { all } else { 0 }
    }
}
