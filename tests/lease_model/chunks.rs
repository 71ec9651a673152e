//! The application's budget: a process takes a chunk of it for a while and spends it without asking again.
//!
//! A token may leave until its chunk is over, and arrive D later: charges are kept TTL + D + W where nothing was
//! reported, and W after the report of a completion where something was.

use std::sync::atomic::{AtomicUsize, Ordering};

use stateright::{Model, Property};

use crate::protocol::{EVERY, REACHED, WITHIN};

/// A rule that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkRule {
    /// A charge without a report is kept for the chunk's time as well.
    KeptForChunk,
    /// The quarantine after a failover covers the chunk's time as well.
    QuarantineForChunk,
    /// What is not reported of an ended chunk counts as spent.
    SilenceIsSpent,
    /// An ended chunk is not spent.
    ChunkEnds,
}

#[derive(Clone, Debug)]
pub(crate) struct Chunks {
    pub(crate) limit: u8,
    pub(crate) window: u8,
    pub(crate) latency: u8,
    /// Tokens in a chunk, and for how long it may be spent.
    pub(crate) size: u8,
    pub(crate) ttl: u8,
    pub(crate) processes: u8,
    pub(crate) failovers: u8,
    pub(crate) without: Option<ChunkRule>,
}

impl Chunks {
    fn kept(&self) -> u8 {
        let chunk = if self.without == Some(ChunkRule::KeptForChunk) { 0 } else { self.ttl };
        let silent = if self.without == Some(ChunkRule::SilenceIsSpent) { 0 } else { self.latency + self.window };
        chunk + silent
    }

    fn quarantine(&self) -> u8 {
        let chunk = if self.without == Some(ChunkRule::QuarantineForChunk) { 0 } else { self.ttl };
        chunk + self.latency + self.window
    }

    fn ends(&self) -> u8 {
        if self.without == Some(ChunkRule::ChunkEnds) { self.kept() } else { self.ttl }
    }
}

/// Where a token is. Ages are ticks since its chunk was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Token {
    Held { age: u8 },
    Sent { age: u8, since: u8 },
    Done { age: u8 },
}

/// A charge of the ledger, by its holder and the age of its chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Charge {
    holder: u8,
    age: u8,
    done: Option<u8>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Pool {
    charges: Vec<Charge>,
    replica: Option<Vec<Charge>>,
    quarantine: u8,
    holders: Vec<Vec<Token>>,
    /// Requests of dead processes, by the ticks since they were sent.
    orphans: Vec<u8>,
    arrivals: Vec<u8>,
    failovers: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// Reports completions and takes a chunk; heard of it or not.
    Take {
        holder: usize,
        heard: Heard,
    },
    Send(usize, usize),
    Arrive(usize, usize),
    OrphanArrives(usize),
    Crash(usize),
    Replicated,
    Failover,
    Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Yes,
    No,
}

pub(crate) struct ChunkModel {
    pub(crate) rules: Chunks,
    pub(crate) most: AtomicUsize,
}

const NOBODY: u8 = u8::MAX;

fn name(holder: usize) -> u8 {
    u8::try_from(holder).expect("few processes")
}

impl ChunkModel {
    fn take(&self, pool: &mut Pool, holder: usize, heard: Heard) -> Option<()> {
        let completed = pool.holders[holder].iter().filter_map(|token| match token {
            Token::Done { age } => Some(*age),
            Token::Held { .. } | Token::Sent { .. } => None,
        });
        for age in completed.collect::<Vec<_>>() {
            let open = |charge: &&mut Charge| (charge.holder, charge.age, charge.done) == (name(holder), age, None);
            pool.charges.iter_mut().find(open).into_iter().for_each(|charge| charge.done = Some(0));
        }
        // Whether the report was heard matters to the ledger alone: told twice, it finds nothing open the second time.
        pool.holders[holder].retain(|token| !matches!(token, Token::Done { .. }));
        let room = usize::from(self.rules.limit).saturating_sub(pool.charges.len());
        if pool.quarantine > 0 || room < usize::from(self.rules.size) {
            return Some(());
        }
        for _ in 0..self.rules.size {
            pool.charges.push(Charge { holder: name(holder), age: 0, done: None });
            if heard == Heard::Yes {
                pool.holders[holder].push(Token::Held { age: 0 });
            }
        }
        Some(())
    }

    fn tick(&self, pool: &mut Pool) {
        let rules = &self.rules;
        pool.quarantine = pool.quarantine.saturating_sub(1);
        for charges in [Some(&mut pool.charges), pool.replica.as_mut()].into_iter().flatten() {
            for charge in charges.iter_mut() {
                charge.age += 1;
                charge.done = charge.done.map(|done| done + 1);
            }
            charges.retain(|charge| charge.age < rules.kept() && charge.done.is_none_or(|done| done < rules.window));
        }
        for token in pool.holders.iter_mut().flatten() {
            *token = match *token {
                Token::Held { age } => Token::Held { age: age + 1 },
                Token::Sent { age, since } if since == rules.latency => Token::Done { age: age + 1 },
                Token::Sent { age, since } => Token::Sent { age: age + 1, since: since + 1 },
                Token::Done { age } => Token::Done { age: age + 1 },
            };
        }
        for tokens in &mut pool.holders {
            tokens.retain(|token| match token {
                Token::Held { age } => *age < rules.ends(),
                Token::Sent { .. } => true,
                Token::Done { age } => *age < rules.kept(),
            });
        }
        pool.orphans.iter_mut().chain(&mut pool.arrivals).for_each(|age| *age += 1);
        pool.orphans.retain(|&age| age <= rules.latency);
        pool.arrivals.retain(|&age| age < rules.window);
    }

    fn crash(pool: &mut Pool, holder: usize) {
        let tokens = std::mem::take(&mut pool.holders[holder]);
        pool.orphans.extend(tokens.into_iter().filter_map(|token| match token {
            Token::Sent { since, .. } => Some(since),
            Token::Held { .. } | Token::Done { .. } => None,
        }));
        for charges in [Some(&mut pool.charges), pool.replica.as_mut()].into_iter().flatten() {
            let own = charges.iter_mut().filter(|charge| charge.holder == name(holder));
            own.for_each(|charge| charge.holder = NOBODY);
        }
    }

    fn apply(&self, pool: &mut Pool, step: Move) -> Option<()> {
        match step {
            Move::Take { holder, heard } => return self.take(pool, holder, heard),
            Move::Send(holder, at) => {
                let token = &mut pool.holders[holder][at];
                let Token::Held { age } = *token else { return None };
                *token = Token::Sent { age, since: 0 };
            }
            Move::Arrive(holder, at) => {
                let token = &mut pool.holders[holder][at];
                let Token::Sent { age, .. } = *token else { return None };
                *token = Token::Done { age };
                pool.arrivals.push(0);
            }
            Move::OrphanArrives(at) => {
                pool.orphans.remove(at);
                pool.arrivals.push(0);
            }
            Move::Crash(holder) => Self::crash(pool, holder),
            Move::Replicated => pool.replica = Some(pool.charges.clone()),
            Move::Failover => {
                pool.failovers = pool.failovers.checked_sub(1)?;
                pool.charges = pool.replica.take()?;
                pool.quarantine = pool.quarantine.max(self.rules.quarantine());
            }
            Move::Tick => self.tick(pool),
        }
        Some(())
    }
}

impl Pool {
    /// One order for what has none, and one for processes, which are alike.
    fn sorted(mut self) -> Self {
        self.arrivals.sort_unstable();
        self.orphans.sort_unstable();
        self.holders.iter_mut().for_each(|tokens| tokens.sort_unstable());
        let mut order: Vec<_> = (0..self.holders.len()).collect();
        let charges = |holder: usize, all: &[Charge]| {
            let mut own: Vec<_> = all.iter().filter(|charge| charge.holder == name(holder)).copied().collect();
            own.iter_mut().for_each(|charge| charge.holder = 0);
            own.sort_unstable();
            own
        };
        order.sort_by_key(|&holder| {
            let replica = self.replica.as_ref().map(|all| charges(holder, all));
            (self.holders[holder].clone(), charges(holder, &self.charges), replica)
        });
        let place = |holder: u8| order.iter().position(|&old| name(old) == holder).map_or(NOBODY, name);
        for all in [Some(&mut self.charges), self.replica.as_mut()].into_iter().flatten() {
            all.iter_mut().for_each(|charge| charge.holder = place(charge.holder));
            all.sort_unstable();
        }
        self.holders = order.iter().map(|&holder| self.holders[holder].clone()).collect();
        self
    }
}

impl Model for ChunkModel {
    type State = Pool;
    type Action = Move;

    fn init_states(&self) -> Vec<Pool> {
        let holders = vec![Vec::new(); usize::from(self.rules.processes)];
        vec![Pool { holders, failovers: self.rules.failovers, ..Pool::default() }]
    }

    fn actions(&self, pool: &Pool, moves: &mut Vec<Move>) {
        for (holder, tokens) in pool.holders.iter().enumerate() {
            moves.extend([Heard::Yes, Heard::No].map(|heard| Move::Take { holder, heard }));
            for (at, token) in tokens.iter().enumerate() {
                let repeated = at > 0 && tokens[at - 1] == *token;
                match token {
                    Token::Held { .. } if !repeated => moves.push(Move::Send(holder, at)),
                    Token::Sent { .. } if !repeated => moves.push(Move::Arrive(holder, at)),
                    Token::Held { .. } | Token::Sent { .. } | Token::Done { .. } => {}
                }
            }
            moves.extend((!tokens.is_empty()).then_some(Move::Crash(holder)));
        }
        moves.extend((0..pool.orphans.len()).map(Move::OrphanArrives));
        if pool.failovers > 0 {
            moves.push(if pool.replica.is_some() { Move::Failover } else { Move::Replicated });
        }
        moves.push(Move::Tick);
    }

    fn next_state(&self, last: &Pool, step: Move) -> Option<Pool> {
        let mut pool = last.clone();
        self.apply(&mut pool, step)?;
        self.most.fetch_max(pool.arrivals.len(), Ordering::Relaxed);
        let pool = pool.sorted();
        (pool != *last).then_some(pool)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(WITHIN, |model: &Self, pool: &Pool| pool.arrivals.len() <= usize::from(model.rules.limit)),
            Property::sometimes(REACHED, |model: &Self, pool: &Pool| {
                pool.arrivals.len() >= usize::from(model.rules.limit)
            }),
            Property::always(EVERY, |model: &Self, pool: &Pool| {
                pool.holders.len() == usize::from(model.rules.processes)
            }),
        ]
    }
}
