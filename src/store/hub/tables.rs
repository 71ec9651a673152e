//! The tables of shared budgets.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::engine::chunks::Part;
use crate::engine::{Scope, Timestamp};
use crate::store::fleet::{MemberId, NewPart, Parts, Put};

#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    tables: BTreeMap<Scope, Table>,
    last_version: u64,
}

#[derive(Clone, Debug, Default)]
struct Table {
    version: u64,
    parts: BTreeMap<MemberId, Part>,
}

impl Tables {
    pub(super) fn read(&self, time: Timestamp, failover_ago: Option<Duration>, scope: &Scope) -> Parts {
        let Table { version, parts } = self.tables.get(scope).cloned().unwrap_or_default();
        Parts { time, failover_ago, version, parts }
    }

    pub(super) fn put(&mut self, member: MemberId, scope: Scope, new: NewPart) -> Put {
        let table = self.tables.entry(scope).or_default();
        if table.version != new.version {
            return Put::Stale;
        }
        self.last_version += 1;
        table.version = self.last_version;
        table.parts.retain(|other, _| !new.over.contains(other));
        table.parts.insert(member, new.part);
        Put::Written
    }

    /// Another copy took over: whatever was read from the one before is of no version of this one.
    pub(super) fn fail_over(&mut self, now: Timestamp) {
        self.last_version = self.last_version.max(now.as_micros());
        for table in self.tables.values_mut() {
            self.last_version += 1;
            table.version = self.last_version;
        }
    }
}
