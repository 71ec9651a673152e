//! Access tokens: who may send, and until when.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::Timestamp;
use crate::upstream::random::Random;

/// Tokens kept; at the bound the one that expires first goes.
const TOKENS_MAX: usize = 10_000;

/// The tokens given out.
#[derive(Debug)]
pub(super) struct Tokens {
    tokens: BTreeMap<String, (Arc<str>, Timestamp)>,
    random: Random,
}

/// What a token is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bearer {
    /// It lets this tenant in.
    Tenant(Arc<str>),
    /// It did once.
    Expired,
    /// There is none, or it was never given out.
    Unknown,
}

impl Tokens {
    pub(super) const fn new(random: Random) -> Self {
        Self { tokens: BTreeMap::new(), random }
    }

    pub(super) fn issue(&mut self, tenant: &str, expires_at: Timestamp) -> String {
        while self.tokens.len() >= TOKENS_MAX {
            let first =
                self.tokens.iter().min_by_key(|(_, (_, expires_at))| *expires_at).map(|(token, _)| token.clone());
            first.map(|token| self.tokens.remove(&token));
        }
        let token = format!("{:016x}{:016x}", self.random.next_u64(), self.random.next_u64());
        self.tokens.insert(token.clone(), (tenant.into(), expires_at));
        token
    }

    /// What an `Authorization` header is worth.
    pub(super) fn bearer(&self, authorization: Option<&str>, now: Timestamp) -> Bearer {
        let token = authorization.and_then(|value| value.strip_prefix("Bearer "));
        match token.and_then(|token| self.tokens.get(token.trim())) {
            Some((tenant, expires_at)) if now < *expires_at => Bearer::Tenant(Arc::clone(tenant)),
            Some(_) => Bearer::Expired,
            None => Bearer::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    #[test]
    fn a_token_is_good_until_the_instant_it_expires() {
        let mut tokens = Tokens::new(Random::new(1));
        let header = format!("Bearer {}", tokens.issue("t", at(10)));
        assert_eq!(tokens.bearer(Some(&header), at(9)), Bearer::Tenant("t".into()));
        assert_eq!(tokens.bearer(Some(&header), at(10)), Bearer::Expired);
        assert_eq!(tokens.bearer(Some("Bearer x"), at(9)), Bearer::Unknown);
        assert_eq!(tokens.bearer(None, at(9)), Bearer::Unknown);
    }

    #[test]
    fn the_number_of_tokens_is_bounded() {
        let mut tokens = Tokens::new(Random::new(1));
        let first = format!("Bearer {}", tokens.issue("t", at(1_000)));
        for n in 1..=TOKENS_MAX as u64 {
            tokens.issue("t", at(1_000 + n));
        }
        assert_eq!(tokens.tokens.len(), TOKENS_MAX);
        assert_eq!(tokens.bearer(Some(&first), at(0)), Bearer::Unknown, "the first to expire went");
    }
}
