//! Opens a partition: its state comes from the engine's checkpoint, and from the entries behind it.

use std::fmt;

use zerohop_engine::disk::Disk;
use zerohop_engine::{Durability, Engine, EngineError, EntryKind, Handle, PartitionId, PartitionOptions};
use zerohop_wire::ids::{PartitionEpoch, Timestamp};

use super::{Buffers, Partition, WriteTerms};
use crate::clock::Clock;
use crate::entry_metadata::Mark;
use crate::log_writer::LogWriter;
use crate::overlay::Overlay;
use crate::pending_replies::PendingReplies;
use crate::planted::{Bug, is_planted};
use crate::state::{PartitionState, StateError};
use crate::waits::WaitTable;

/// Options of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberOptions {
    /// When its entries survive a crash.
    pub durability: Durability,
    /// Seed of the engine's index.
    pub index_seed: u64,
    /// Whether it keeps the order of its keys.
    pub is_ordered: bool,
    /// The epoch of its replica group; at least 1. The log must not have entries of a higher epoch.
    pub epoch: PartitionEpoch,
}

/// The result of opening a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Log index of the checkpoint's state; 0 without a checkpoint.
    pub from_checkpoint: u64,
    /// Entries read behind it.
    pub from_log: u64,
    /// Whether entries that contain sessions or deadlines are missing or corrupt. In that case all sessions are expired, so that
    /// no write is done twice, and records may have lost their deadlines.
    pub has_lost_state: bool,
}

/// Why a partition cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionOpenError {
    /// The engine has failed.
    Engine(EngineError),
    /// The state in its checkpoint cannot be read.
    State(StateError),
    /// The log has an entry of an unknown kind.
    Entry {
        /// Its log index.
        index: u64,
    },
    /// The log has entries of a higher epoch than the given one.
    Epoch {
        /// The epoch in the log.
        found: u32,
        /// The given epoch.
        given: PartitionEpoch,
    },
}

impl fmt::Display for PartitionOpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartitionOpenError::Engine(error) => write!(f, "{error}"),
            PartitionOpenError::State(error) => write!(f, "{error}"),
            PartitionOpenError::Entry { index } => {
                write!(f, "log entry {index} is of a kind that is not known here; use a newer zerohop")
            }
            PartitionOpenError::Epoch { found, given } => write!(
                f,
                "the log has entries of epoch {found}, later than epoch {given} that it is to be served in: \
                 fetch the cluster map again"
            ),
        }
    }
}

impl std::error::Error for PartitionOpenError {}

impl From<EngineError> for PartitionOpenError {
    fn from(error: EngineError) -> PartitionOpenError {
        PartitionOpenError::Engine(error)
    }
}

impl Partition {
    /// Opens a partition as its only member: all entries in its log count. The engine keeps entries until checkpoints cover them.
    /// It must not start checkpoints alone ([`zerohop_engine::EngineOptions::starts_checkpoints`]), since they would lack
    /// the state.
    ///
    /// # Errors
    /// See [`PartitionOpenError`].
    pub fn open<D: Disk>(
        engine: &mut Engine<D>,
        id: PartitionId,
        options: MemberOptions,
    ) -> Result<(Partition, RestoreReport), PartitionOpenError> {
        let last = Partition::prepare(engine, id, options)?.1;
        if u64::from(last.0) > options.epoch.0.max(1) {
            return Err(PartitionOpenError::Epoch { found: last.0, given: options.epoch });
        }
        Partition::restore(engine, id, options, u64::MAX)
    }

    /// Opens a partition that may have other members. Only entries known to be committed count, and the epoch comes with the
    /// group.
    pub fn open_as_member<D: Disk>(
        engine: &mut Engine<D>,
        id: PartitionId,
        options: MemberOptions,
    ) -> Result<(Partition, RestoreReport), PartitionOpenError> {
        let (mut partition, restored) = Partition::restore(engine, id, options, 0)?;
        partition.log_writer.may_be_joined(partition.log_writer.last());
        Ok((partition, restored))
    }

    /// Opens its log. Returns its handle and the name of its last entry.
    pub(crate) fn prepare<D: Disk>(
        engine: &mut Engine<D>,
        id: PartitionId,
        options: MemberOptions,
    ) -> Result<(Handle, (u32, u64)), EngineError> {
        let MemberOptions { durability, index_seed, is_ordered, .. } = options;
        let handle = engine.partition(id, PartitionOptions { durability, index_seed })?;
        if is_ordered {
            match engine.key_order(handle)?.keep() {
                // It does not keep the partition from being opened, and repaired: ranges are refused until then.
                Ok(()) | Err(EngineError::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        engine.declare_state_in_log(handle)?;
        // No snapshot is known here after a start, so versions that a parent of this partition kept for snapshots are dropped.
        engine.move_horizon(handle, None)?;
        Ok((handle, engine.partition_stats(handle)?.last))
    }

    /// Restores state and clock from checkpoint and log, up to the last entry that is known to be committed, or that this call
    /// commits.
    fn restore<D: Disk>(
        engine: &mut Engine<D>,
        id: PartitionId,
        options: MemberOptions,
        commit_through: u64,
    ) -> Result<(Partition, RestoreReport), PartitionOpenError> {
        let MemberOptions { epoch, .. } = options;
        let (handle, last) = Partition::prepare(engine, id, options)?;
        engine.commit(handle, commit_through)?;
        let commit = engine.partition_stats(handle)?.commit;
        // A log with entries on disk does not go back into memory.
        let durability = engine.set_durability(handle, options.durability)?;
        let epoch_given = u32::try_from(epoch.0).unwrap_or(u32::MAX);
        let mut restored = RestoreReport::default();
        let mut state = PartitionState::default();
        if let Some((commit, extra)) = engine.recovered_extra(handle)? {
            // An engine without a partition above it wrote a checkpoint without a payload. No entry up to there
            // has a session or a deadline.
            if !extra.is_empty() {
                state = PartitionState::decode(&extra).map_err(PartitionOpenError::State)?;
            }
            // The checkpoint itself states its log index.
            (state.applied, restored.from_checkpoint) = (commit, commit);
        }
        let mut unknown = None;
        engine.entries_after(handle, state.applied, |entry, is_good| {
            let meta = entry.head.meta;
            if meta.index > commit {
                return;
            }
            restored.from_log += 1;
            let is_filler = meta.kind == EntryKind::Mark
                && Mark::decode(entry.payload, Timestamp(meta.timestamp)) == Some(Mark::Filler);
            restored.has_lost_state |= !is_good || is_filler || meta.index != state.applied + 1;
            if !is_good {
                state.applied = meta.index;
            } else if state.apply(&meta, entry.key, entry.payload).is_err() {
                unknown = unknown.or(Some(meta.index));
            }
        })?;
        if let Some(index) = unknown {
            return Err(PartitionOpenError::Entry { index });
        }
        restored.has_lost_state |= state.applied != commit;
        state.applied = commit;
        if restored.has_lost_state {
            state.sessions.clear(state.newest.next());
        }
        if is_planted(Bug::SessionsNotRestoredAtStart) {
            state.sessions.clear(Timestamp::ZERO);
        }
        let mut clock = Clock::default();
        clock.witness(state.newest);
        clock.witness(state.sessions.session_mark());
        let partition = Partition {
            log_writer: LogWriter::new(handle, epoch_given, durability, last),
            clock,
            state,
            overlay: Overlay::default(),
            pending_replies: PendingReplies::default(),
            waits: WaitTable::default(),
            sweep_at_ms: 0,
            counts: Default::default(),
            split_cleanup: Default::default(),
            transacting: None,
            transactions_after: 0,
            read_locks_end_ms: 0,
            unknown_read_locks_end_ms: 0,
            snapshots: None,
            feed: Default::default(),
            terms: WriteTerms::default(),
            buffers: Buffers::default(),
        };
        Ok((partition, restored))
    }
}
