//! What one operation takes from the budgets: a vector over the units that providers count.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A unit in which a provider counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Unit {
    /// Calls to the provider.
    Requests,
    /// Envelope recipients.
    Recipients,
    /// Envelope recipients outside the sender's own organisation.
    ExternalRecipients,
    /// Bytes of the email as sent, headers and transfer encoding included.
    Bytes,
    /// A provider's own unit (Gmail: one send is 100).
    QuotaUnits,
}

impl Unit {
    /// Every unit, in declaration order.
    pub const ALL: [Self; 5] =
        [Self::Requests, Self::Recipients, Self::ExternalRecipients, Self::Bytes, Self::QuotaUnits];
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requests => "requests",
            Self::Recipients => "recipients",
            Self::ExternalRecipients => "external recipients",
            Self::Bytes => "bytes",
            Self::QuotaUnits => "quota units",
        })
    }
}

/// What one operation takes, per [`Unit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cost {
    /// Calls to the provider; 1 for an ordinary send.
    pub requests: u32,
    /// Envelope recipients.
    pub recipients: u32,
    /// Envelope recipients outside the sender's own organisation.
    pub external_recipients: u32,
    /// The provider's own units.
    pub quota_units: u32,
    /// Bytes as sent.
    pub bytes: u64,
}

impl Cost {
    /// One request, nothing else.
    pub const ONE_REQUEST: Self = Self { requests: 1, recipients: 0, external_recipients: 0, quota_units: 0, bytes: 0 };

    /// One request to `recipients` recipients of `bytes` bytes; none of them counted as external.
    #[must_use]
    pub const fn email(recipients: u32, bytes: u64) -> Self {
        Self { requests: 1, recipients, external_recipients: 0, quota_units: 0, bytes }
    }

    /// The part of this cost that a limit in `unit` counts.
    #[must_use]
    #[inline]
    pub const fn of(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Requests => self.requests as u64,
            Unit::Recipients => self.recipients as u64,
            Unit::ExternalRecipients => self.external_recipients as u64,
            Unit::Bytes => self.bytes,
            Unit::QuotaUnits => self.quota_units as u64,
        }
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self::ONE_REQUEST
    }
}

/// A sum of costs: what waits ahead of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CostSum {
    units: [u64; 5],
}

impl CostSum {
    pub(crate) fn add(&mut self, cost: &Cost) {
        for (sum, unit) in self.units.iter_mut().zip(Unit::ALL) {
            *sum = sum.saturating_add(cost.of(unit));
        }
    }

    pub(crate) fn subtract(&mut self, cost: &Cost) {
        for (sum, unit) in self.units.iter_mut().zip(Unit::ALL) {
            *sum = sum.saturating_sub(cost.of(unit));
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (sum, more) in self.units.iter_mut().zip(other.units) {
            *sum = sum.saturating_add(more);
        }
    }

    pub(crate) fn of(&self, unit: Unit) -> u64 {
        self.units[unit as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_of_costs_keeps_each_unit_apart() {
        let cost = Cost { requests: 1, recipients: 20, external_recipients: 3, quota_units: 100, bytes: 4_096 };
        let mut sum = CostSum::default();
        sum.add(&cost);
        sum.add(&cost);
        sum.subtract(&Cost::email(5, 96));
        let units = Unit::ALL.map(|unit| sum.of(unit));
        assert_eq!(units, [1, 35, 6, 8_096, 200]);
    }
}
