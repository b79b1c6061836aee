//! A unit of Redis commands as a program over a partition's records.

use std::ops::Range;

use zerohop_engine::disk::Disk;
use zerohop_partition::{PastView, Program, SnapshotOpening, Unit};
use zerohop_resp::limits::{ANSWER_AGE_MS, ANSWER_LEASE_MS};
use zerohop_resp::{
    Args, Deadline, ExecutionOutcome, Info, PagedReply, PastRecords, RecordType, Records, Scratch, execute,
    execute_past,
};
use zerohop_wire::Failure;
use zerohop_wire::ids::{SnapshotId, Timestamp};
use zerohop_wire::messages::Expiry;

use super::planted::{Bug, is_planted};

/// One run of a unit.
pub(super) struct Execution<'e> {
    pub(super) unit: &'e zerohop_resp::Unit<'e>,
    pub(super) scratch: &'e mut Scratch,
    /// The wait that it has ended with, if any; then nothing has changed and nothing was answered.
    pub(super) waits: Option<RecordWait>,
    /// The snapshot that it opens if its reply is long.
    pub(super) snapshot: SnapshotId,
    /// The long reply that it has ended with, if any; then nothing was answered.
    pub(super) paged: Option<PagedReply>,
    /// The time of day in milliseconds.
    pub(super) now_ms: u64,
}

/// A wait of a unit: until this record no longer has this version.
#[derive(Clone, Debug)]
pub(super) struct RecordWait {
    pub(super) key: Vec<u8>,
    pub(super) version: Timestamp,
    /// When the wait times out, in milliseconds since 1970.
    pub(super) until_ms: u64,
}

impl Program for Execution<'_> {
    fn may_write(&self) -> bool {
        self.unit.may_write()
    }

    fn may_write_several(&self) -> bool {
        self.unit.may_write() && self.unit.keys().len() > 1
    }

    fn opens(&self) -> Option<SnapshotOpening> {
        self.paged.map(|_| SnapshotOpening {
            id: self.snapshot,
            lease_ms: ANSWER_LEASE_MS,
            age_ms: ANSWER_AGE_MS,
            holder: self.unit.paging_token(),
        })
    }

    fn opened(&mut self, at: Timestamp, reply: &mut Vec<u8>) {
        if let Some(paged) = self.paged {
            paged.opened(self.unit, self.snapshot, at, reply);
        }
    }

    fn reads_past(&self) -> Option<(SnapshotId, Timestamp)> {
        let past = self.unit.reads_past();
        if is_planted(Bug::PagesOfLaterMoments) {
            let now = Timestamp::from_millis(self.now_ms);
            return past.map(|(snapshot, at)| (snapshot, at.max(now)));
        }
        past
    }

    fn run_past<D: Disk>(
        &mut self,
        past: &mut PastView<'_, D>,
        reply: &mut Vec<u8>,
    ) -> Result<bool, Failure<'static>> {
        execute_past(self.unit, &mut PastAdapter(past), self.scratch, reply)
    }

    #[inline]
    fn run<D: Disk>(
        &mut self,
        unit: &mut Unit<'_, D>,
        reply: &mut Vec<u8>,
    ) -> Result<bool, Failure<'static>> {
        match execute(self.unit, &mut Adapter(unit), self.scratch, reply) {
            ExecutionOutcome::Done => Ok(true),
            // Its reply stands, and its changes are undone.
            ExecutionOutcome::Refused => Ok(false),
            ExecutionOutcome::Aborted(failure) => Err(failure),
            ExecutionOutcome::Paged(paged) => {
                self.paged = Some(paged);
                Ok(false)
            }
            ExecutionOutcome::Wait { key, until_ms } => {
                let version = unit.inspect(&key)?.map_or(Timestamp::ZERO, |found| found.version);
                self.waits = Some(RecordWait { key, version, until_ms });
                Ok(false)
            }
        }
    }
}

/// The records of a partition as `zerohop-resp` sees them.
struct Adapter<'a, 'u, D>(&'a mut Unit<'u, D>);

/// What `WATCH` compares: the version mixed with the deadline. A new deadline alone does not raise
/// the version.
fn watched_version(version: Timestamp, deadline_ms: Option<u64>) -> Timestamp {
    if is_planted(Bug::WatchIgnored) {
        return Timestamp(1);
    }
    match deadline_ms {
        None => version,
        // Odd and far from any version. Two states of a record that differ in either have different
        // numbers, unless their versions differ by exactly this multiple.
        Some(deadline_ms) => {
            Timestamp(version.0 ^ deadline_ms.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) | 1)
        }
    }
}

impl<D: Disk> Records for Adapter<'_, '_, D> {
    fn now_ms(&self) -> u64 {
        self.0.now_ms()
    }

    fn inspect(&mut self, key: &[u8]) -> Result<Option<Info>, Failure<'static>> {
        let found = self.0.inspect(key)?;
        Ok(found.map(|found| Info {
            record: found.record,
            length: found.length,
            version: watched_version(found.version, found.deadline_ms),
            deadline_ms: found.deadline_ms,
        }))
    }

    fn check(&mut self, key: &[u8]) -> Result<(), Failure<'static>> {
        self.0.check(key)
    }

    #[inline]
    fn lookup(
        &mut self,
        key: &[u8],
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<RecordType>, Failure<'static>> {
        self.0.lookup(key, take)
    }

    fn read(&mut self, key: &[u8], range: Range<u64>, into: &mut Vec<u8>) -> Result<(), Failure<'static>> {
        self.0.read(key, range, into)
    }

    fn values(
        &mut self,
        key: &[u8],
        range: Range<u64>,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Failure<'static>> {
        self.0.values(key, range, each)
    }

    #[inline]
    fn put(&mut self, key: &[u8], contents: &[u8], deadline: Deadline) -> Result<(), Failure<'static>> {
        let expiry = match deadline {
            Deadline::Never => Expiry::Never,
            Deadline::AtMs(ms) => Expiry::AtMs(ms),
            Deadline::Unchanged => Expiry::Unchanged,
        };
        self.0.put(key, contents, expiry)
    }

    fn extend(&mut self, key: &[u8], bytes: &[u8]) -> Result<(), Failure<'static>> {
        self.0.extend(key, bytes)
    }

    fn append(&mut self, key: &[u8], values: Args<'_>) -> Result<(), Failure<'static>> {
        self.0.append(key, values.iter())
    }

    fn trim(&mut self, key: &[u8], keep: Range<u64>) -> Result<(), Failure<'static>> {
        self.0.trim(key, keep)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Failure<'static>> {
        self.0.remove(key)
    }

    fn set_deadline(&mut self, key: &[u8], deadline_ms: Option<u64>) -> Result<(), Failure<'static>> {
        self.0.set_deadline(key, deadline_ms)
    }

    fn scan(&mut self, cursor: u32, each: &mut dyn FnMut(&[u8])) -> Result<Option<u32>, Failure<'static>> {
        self.0.scan(cursor, each)
    }

    fn partitions(&self) -> u32 {
        self.0.partitions()
    }

    fn count(&mut self) -> u64 {
        self.0.count().unwrap_or(0)
    }
}

/// The records of a snapshot as `zerohop-resp` sees them.
struct PastAdapter<'a, 'v, D>(&'a mut PastView<'v, D>);

impl<D: Disk> PastRecords for PastAdapter<'_, '_, D> {
    fn lookup(
        &mut self,
        key: &[u8],
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<RecordType>, Failure<'static>> {
        self.0.lookup(key, take)
    }

    fn values(
        &mut self,
        key: &[u8],
        range: Range<u64>,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Failure<'static>> {
        self.0.values(key, range, each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadline_changes_invalidate_watch() {
        let version = Timestamp::from_millis(1_000);
        let versions = [None, Some(5), Some(6)].map(|deadline| watched_version(version, deadline));
        assert!(versions[0] != versions[1] && versions[1] != versions[2] && versions[0] != versions[2]);
    }
}
