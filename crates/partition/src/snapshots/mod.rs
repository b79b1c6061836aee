//! The data that a partition keeps for readers of its past: the open snapshots, and its past state beside its records.
//!
//! ```text
//!   open ──> mark in the log ──> every member keeps later changes: the engine older versions, this module deadlines and names
//!   read at a time ──> closed? nothing can be committed at or below it any more ──> the state at that time
//!   close, lease over, too much kept ──> mark in the log ──> every member drops the data
//! ```
//!
//! The marks in the log define how far back clients can read. No member drops data before the mark that allows it is committed. A
//! member that has followed the log since a snapshot was opened can serve it as the next primary. The kept data is in memory
//! only. A member that restarts, or installs a snapshot of the partition, knows no open snapshot, and reports that.

mod answer_ids;
mod past_versions;
pub(crate) mod view;

use std::collections::BTreeMap;

use zerohop_wire::ids::{SnapshotId, Timestamp};

use crate::limits::SNAPSHOTS_CLOSING_MAX;
use crate::planted::{Bug, is_planted};

pub use answer_ids::answer_snapshot;
use answer_ids::is_for_answer;
pub(crate) use past_versions::PastVersions;

/// The snapshots of a partition; see the module.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// Snapshots whose marks are appended here and not committed, by log index.
    appended: BTreeMap<u64, (SnapshotId, SnapshotRetention)>,
    open: BTreeMap<SnapshotId, SnapshotRetention>,
    /// The tokens of those that this member has opened as primary for answers; some may have ended.
    holders: BTreeMap<SnapshotId, u64>,
    past: PastVersions,
    /// When the lease of each snapshot is over, in milliseconds since 1970, as far as this member knows. Only a primary acts on
    /// it.
    leases: BTreeMap<SnapshotId, u64>,
    /// As primary: at or below this time nothing is committed any more that readers do not see.
    closed: Timestamp,
    /// As primary: times that are closed once this log index is committed.
    closing_times: BTreeMap<Timestamp, u64>,
    /// As primary: the log index of the last mark that ends overdue snapshots.
    end_mark: u64,
}

/// What a snapshot is for. Each use has a limit of its own, so that none keeps the others from opening snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotUse {
    /// A client's program, such as a backup.
    Client,
    /// A long stream of a blob.
    Stream,
    /// One long answer to a Redis client.
    Answer,
}

impl SnapshotUse {
    pub(crate) fn of(id: SnapshotId) -> Self {
        match id {
            id if is_for_answer(id) => Self::Answer,
            id if id.is_for_stream() => Self::Stream,
            _ => Self::Client,
        }
    }
}

/// How a snapshot is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotRetention {
    /// Any time from here on can be read.
    pub(crate) floor: Timestamp,
    /// The lease that its client has requested.
    pub(crate) lease_ms: u32,
    /// When it is closed in any case, in milliseconds since 1970.
    pub(crate) ends_ms: u64,
}

impl Snapshots {
    /// The earliest time that a client can read. Versions that ended before it are not needed.
    pub(crate) fn horizon(&self) -> Option<Timestamp> {
        let appended = self.appended.values().map(|(_, kept)| kept.floor);
        let floors = self.open.values().map(|kept| kept.floor).chain(appended);
        if is_planted(Bug::VersionsDroppedEarly) { floors.max() } else { floors.min() }
    }

    /// The number of open snapshots and of those about to be opened.
    pub(crate) fn len(&self) -> usize {
        self.open.len() + self.appended.len()
    }

    /// The number of those that are for the same use as this one.
    pub(crate) fn count_like(&self, id: SnapshotId) -> usize {
        let appended = self.appended.values().map(|(id, _)| id);
        let requested = SnapshotUse::of(id);
        self.open.keys().chain(appended).filter(|id| SnapshotUse::of(**id) == requested).count()
    }

    /// A snapshot is counted to a token from now on.
    pub(crate) fn hold(&mut self, id: SnapshotId, holder: u64) {
        let Snapshots { open, appended, holders, .. } = self;
        holders.retain(|id, _| open.contains_key(id) || appended.values().any(|(other, _)| other == id));
        holders.insert(id, holder);
    }

    /// The number of snapshots that are counted to a token.
    pub(crate) fn count_of(&self, holder: u64) -> usize {
        let is_there = |id: &SnapshotId| self.open.contains_key(id) || self.appended(*id).is_some();
        self.holders.iter().filter(|(id, of)| **of == holder && is_there(id)).count()
    }

    pub(crate) fn get(&self, id: SnapshotId) -> Option<&SnapshotRetention> {
        self.open.get(&id)
    }

    /// The log index of its mark, if that is not committed.
    pub(crate) fn appended(&self, id: SnapshotId) -> Option<(u64, SnapshotRetention)> {
        self.appended.iter().find(|(_, (other, _))| *other == id).map(|(index, (_, kept))| (*index, *kept))
    }

    /// A mark is about to be appended, here or by the primary.
    pub(crate) fn append(&mut self, index: u64, id: SnapshotId, kept: SnapshotRetention) {
        self.appended.insert(index, (id, kept));
    }

    /// Marks behind this log index were truncated.
    pub(crate) fn truncate_after(&mut self, index: u64) {
        self.appended.retain(|at, _| *at <= index);
    }

    /// The mark of this log index is committed. If the mark was not seen when it was appended, it opens nothing, since later
    /// changes may not have been kept.
    pub(crate) fn opened(&mut self, index: u64) {
        if let Some((id, kept)) = self.appended.remove(&index) {
            self.open.insert(id, kept);
        }
    }

    /// The log closes these snapshots.
    pub(crate) fn ended(&mut self, ids: &[SnapshotId]) {
        for id in ids {
            self.open.remove(id);
            self.leases.remove(id);
        }
        self.past.drop_below(self.horizon());
    }

    /// All open snapshots, and those about to be opened.
    pub(crate) fn retained_ids(&self) -> Vec<SnapshotId> {
        self.open.keys().copied().chain(self.appended.values().map(|(id, _)| *id)).collect()
    }

    /// The open snapshots that are not in this list.
    pub(crate) fn others(&self, kept: &[SnapshotId]) -> Vec<SnapshotId> {
        self.open.keys().filter(|id| !kept.contains(id)).copied().collect()
    }

    /// Renews the lease of a snapshot from now, by its current length or a new one.
    pub(crate) fn renew(&mut self, id: SnapshotId, now_ms: u64, lease_ms: Option<u32>) {
        if let Some(kept) = self.open.get_mut(&id) {
            kept.lease_ms = lease_ms.unwrap_or(kept.lease_ms);
            self.leases.insert(id, now_ms.saturating_add(u64::from(kept.lease_ms)));
        }
    }

    /// Snapshots that are open for too long, by their leases or their limit.
    pub(crate) fn overdue(&self, now_ms: u64) -> Vec<SnapshotId> {
        let ends = self.open.iter().map(|(id, kept)| (*id, self.ends_ms(*id, kept)));
        ends.filter(|(_, ends_ms)| now_ms >= *ends_ms).map(|(id, _)| id).collect()
    }

    /// A mark that ends overdue snapshots is appended at this log index.
    pub(crate) fn set_end_mark(&mut self, index: u64) {
        self.end_mark = index;
    }

    /// Whether such a mark is in the log, which ends here, and is not applied yet. A log that was truncated may have another entry
    /// at its index. Once that is applied, the mark is appended again.
    pub(crate) fn is_ending(&self, (applied, last): (u64, u64)) -> bool {
        applied < self.end_mark && self.end_mark <= last
    }

    /// When the next snapshot is overdue.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.open.iter().map(|(id, kept)| self.ends_ms(*id, kept)).min()
    }

    fn ends_ms(&self, id: SnapshotId, kept: &SnapshotRetention) -> u64 {
        self.leases.get(&id).map_or(kept.ends_ms, |until_ms| kept.ends_ms.min(*until_ms))
    }

    /// The snapshot that keeps the most.
    pub(crate) fn oldest(&self) -> Option<SnapshotId> {
        self.open.iter().min_by_key(|(_, kept)| kept.floor).map(|(id, _)| *id)
    }

    pub(crate) fn past(&self) -> &PastVersions {
        &self.past
    }

    pub(crate) fn past_mut(&mut self) -> &mut PastVersions {
        &mut self.past
    }

    /// The member becomes primary: closed times must be determined again, and every lease starts again.
    pub(crate) fn become_primary(&mut self, now_ms: u64) {
        (self.closed, self.closing_times) = (Timestamp::ZERO, BTreeMap::new());
        let Snapshots { open, leases, .. } = self;
        *leases =
            open.iter().map(|(id, kept)| (*id, now_ms.saturating_add(u64::from(kept.lease_ms)))).collect();
    }

    pub(crate) fn is_closed(&self, at: Timestamp) -> bool {
        at <= self.closed
    }

    /// No transaction can commit at or below this time any more, and no timestamp is assigned there. The log ends with this
    /// entry, so the time is closed once the entry is committed. `false`: too many times are being closed.
    pub(crate) fn close_behind(&mut self, at: Timestamp, last: u64, applied: u64) -> bool {
        let has_room =
            self.closing_times.len() < SNAPSHOTS_CLOSING_MAX || self.closing_times.contains_key(&at);
        let behind = match has_room {
            true => *self.closing_times.entry(at).or_insert(last),
            false => return false,
        };
        if applied < behind {
            return false;
        }
        self.closed = self.closed.max(at);
        let closed = self.closed;
        self.closing_times.retain(|at, _| *at > closed);
        true
    }
}
