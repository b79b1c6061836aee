//! Programs over the records of a partition, as they are now or as they were when a snapshot was opened.

use zerohop_engine::disk::Disk;
use zerohop_wire::ids::{SnapshotId, Timestamp};
use zerohop_wire::{BadRequestReason, Failure};

use crate::atomic_batch::Unit;
use crate::snapshots::view::PastView;

/// What runs over the records of one partition in one step.
pub trait Program {
    /// Reads and changes records, and appends what is to be answered to `reply`. After `Ok(false)` and after a failure
    /// none of its changes happens; the reply is handed on after `Ok` only.
    ///
    /// # Errors
    /// Why it could not go on, usually what the unit has said.
    fn run<D: Disk>(&mut self, unit: &mut Unit<'_, D>, reply: &mut Vec<u8>)
    -> Result<bool, Failure<'static>>;

    /// Whether it may change anything: what only reads is run also while there are too few copies to write to.
    fn may_write(&self) -> bool {
        true
    }

    /// Whether it may change more than one record. Such a program waits while a split of its partition is pending.
    fn may_write_several(&self) -> bool {
        self.may_write()
    }

    /// Asked once [`Program::run`] has answered `Ok(false)`: the snapshot from which it is to be answered instead. It is opened at the
    /// moment at which the program has run, in the same step.
    fn opens(&self) -> Option<SnapshotOpening> {
        None
    }

    /// That snapshot is there, and is read at this time: appends what is to be answered to `reply`.
    fn opened(&mut self, at: Timestamp, reply: &mut Vec<u8>) {
        let _ = (at, reply);
    }

    /// The snapshot, and the time, that it reads instead of the present: then [`Program::run_past`] is called, and not
    /// [`Program::run`]. Each call renews the snapshot for the duration of its lease.
    fn reads_past(&self) -> Option<(SnapshotId, Timestamp)> {
        None
    }

    /// Reads the past, and appends what is to be answered to `reply`. After `Ok(true)` the snapshot is closed.
    ///
    /// # Errors
    /// Why it could not be read.
    fn run_past<D: Disk>(
        &mut self,
        past: &mut PastView<'_, D>,
        reply: &mut Vec<u8>,
    ) -> Result<bool, Failure<'static>> {
        let _ = (past, reply);
        Err(BadRequestReason::Unexpected.into())
    }
}

/// A snapshot that is opened for one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotOpening {
    /// New, and of [`crate::answer_snapshot`].
    pub id: SnapshotId,
    /// How long it is kept without being read, in milliseconds.
    pub lease_ms: u32,
    /// How long it is kept in any case, in milliseconds.
    pub age_ms: u64,
    /// The token that it is counted to. `None`: its client has none, and may use what tokens leave.
    pub holder: Option<u64>,
}

/// What became of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramResult {
    /// All that its reply depends on is committed, and the reply has been appended.
    Now,
    /// The reply comes as [`crate::PartitionEffect::Reply`].
    Later,
}
