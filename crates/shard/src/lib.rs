//! One instance without its sockets and its clock: an engine, its partitions, and the map that it knows.
//!
//! ```text
//!   request ──> map, partition table ──> Replica::step ──┬─> answer at once
//!                                                        └─> needs a flush
//!   end_of_batch ──> one Engine::flush for all that need it ──> Flushed ──> pending replies
//!                ──> partitions whose wake time has come: Tick
//!   maintain     ──> background maintenance of the engine, in small steps
//!   apply_map    ──> partitions are added, changed and removed
//! ```
//!
//! An instance is a pure state machine like its partitions. The owner passes in events and the time, and carries out the
//! [`InstanceEffect`]s at once. `server` runs it on a reactor, `sim` on a simulated network. One thread owns it (ARCHITECTURE.md,
//! "Rules that carry the structure"); no part of it is shared.

mod batch;
mod clock;
mod connections;
mod effects_adapter;
mod engine_name;
mod limits;
mod local;
mod mapping;
mod member_options;
mod open;
mod open_error;
mod partitions;
mod read_locks;
mod readiness;
mod region_sizes;
mod requests;
mod splits;
mod stats;
mod stored_contents;
#[cfg(test)]
mod tests;
mod transactions;
mod watches;

use std::fmt;
use std::sync::Arc;

use zerohop_base::invariant::BrokenInvariant;
use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineError, EngineResult};
use zerohop_placement::{ClusterMap, MapHistory};
use zerohop_wire::ids::{
    Incarnation, InstanceId, KeyspaceId, MapEpoch, PartitionEpoch, PartitionId, Timestamp,
};
use zerohop_wire::messages::{ClusterId, Member};
use zerohop_wire::{Envelope, Failure, Message};

use zerohop_partition::limits::UNAVAILABLE_RETRY_MS;
use zerohop_partition::{FlushNeed, Token};
use zerohop_replication::ReplicaEvent;

pub use clock::ClockReading;
pub use local::{IndexPage, LocalCalls};
pub use mapping::MapChangeError;
pub use open::{InstanceOptions, OpenReport};
pub use open_error::InstanceOpenError;
pub use region_sizes::LargeRegion;
pub use stats::{FailedLogs, InstanceStats, KeyspaceFigures, PendingSplits};
pub use stored_contents::{StoredContents, StoredInstance, StoredPartition};
pub use watches::{InstanceWatch, InstanceWatches, KeyspaceWatches, WatchProgress};

use clock::InstanceClock;
use connections::Connections;
use effects_adapter::EffectsAdapter;
use partitions::PartitionTable;
use splits::Splits;
use stats::RequestCounters;
use transactions::PendingMessages;

/// The identity of the instance, for answers to `Hello`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The instance.
    pub instance: InstanceId,
    /// The start of its process.
    pub incarnation: Incarnation,
}

/// The origin of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerOrigin {
    /// The keyspace that the request named.
    pub keyspace: KeyspaceId,
    /// The partition that the request named.
    pub partition: PartitionId,
    /// The epoch of the group that answers; zero if no group does.
    pub epoch: PartitionEpoch,
    /// For how many microseconds, from the time of the request, the record is read-locked; 0: it is not.
    pub read_lock_us: u32,
}

/// An effect that an instance requests from its owner, to be carried out at once and in order.
#[derive(Debug)]
pub enum InstanceEffect<'e> {
    /// Sends an answer.
    Answer {
        /// The receiver.
        to: Token,
        /// The origin of the answer.
        place: AnswerOrigin,
        /// The answer.
        message: &'e Message<'e>,
    },
    /// Sends the reply of an atomic batch that was answered [`zerohop_partition::ProgramResult::Later`].
    Reply {
        /// The receiver.
        to: Token,
        /// The reply.
        bytes: &'e [u8],
    },
    /// Drops a request without an answer: its client already has it.
    Dropped {
        /// The receiver that gets no answer.
        to: Token,
    },
    /// Sends a message to another instance, gathered with others for it until the batch has ended. A lost or repeated message
    /// does no harm. An owner without other nodes may therefore drop it.
    Send {
        /// The receiver.
        to: Member,
        /// The header fields of the message.
        envelope: &'e Envelope,
        /// The message.
        message: &'e Message<'e>,
    },
    /// Requests a change of the group at this place from the control group, if its epoch is still this one. The request is
    /// repeated until the map has another epoch.
    ProposeChange {
        /// The group.
        place: AnswerOrigin,
        /// The change.
        change: zerohop_replication::GroupChange,
    },
    /// Fetches the map: another instance has a newer one.
    FetchMap,
    /// Writes this timestamp bound to disk in place of the last one, syncs it, and then calls [`Instance::timestamp_bound_synced`]. Until
    /// then writes of shared partitions may have to wait. After a start the owner passes the bound to [`Instance::begin_above`].
    SyncTimestampBound(Timestamp),
    /// Reports that an invariant of a partition here is broken. The partition has stopped. The report is for the log.
    InvariantBroken {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The partition.
        partition: PartitionId,
        /// The invariant.
        broken: BrokenInvariant,
    },
    /// Reports to the control group that no transaction is in progress in a keyspace that is being dropped, or that the partitions
    /// which are to be split have committed all units over several keys. The report covers all such partitions whose primary this
    /// instance is by the map of this epoch. It is repeated until the keyspace is gone or split.
    Drained {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// The epoch of the map.
        map: MapEpoch,
    },
    /// Requests a split of a region from the control group. The request is repeated, with growing pauses, while the region is too large.
    SplitRegion(&'e LargeRegion),
    /// Reports a stage of a flush, for measurements. An owner that measures nothing ignores it.
    Flush(FlushStage),
}

/// A stage of a flush of the instance's disk. One flush is in progress at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushStage {
    /// The present step has appended an entry. What depends on it waits for the end of a flush that begins later.
    Wanted,
    /// A flush has begun. It covers all entries that were appended before.
    Begun,
    /// The flush has ended or failed. The answers that waited for it alone follow.
    Ended,
    /// All these answers have been sent.
    Notified,
}

/// Takes the effects of an instance. The enum is exhaustive, so that no owner leaves an effect out unnoticed.
pub trait InstanceEffects {
    /// Takes one effect.
    fn push(&mut self, effect: InstanceEffect<'_>);
}

/// One instance; see the module.
pub struct Instance<D: Disk> {
    identity: Identity,
    engine: Engine<D>,
    partitions: PartitionTable,
    splits: Splits,
    failed_map_changes: mapping::MapBacklog,
    readiness: readiness::Readiness,
    history: MapHistory,
    /// The newest keyspace of any map that it has known. A keyspace with a higher id is still to come. A keyspace with a lower id
    /// that the map does not have is gone.
    newest_keyspace: KeyspaceId,
    connections: Connections,
    clock: InstanceClock,
    counters: RequestCounters,
    transit: PendingMessages,
    maintenance: Maintenance,
    holding: read_locks::ReadLocks,
    /// See [`Instance::stop`].
    is_stopping: bool,
}

/// The schedule of the engine's background maintenance.
#[derive(Clone, Copy, Debug, Default)]
struct Maintenance {
    /// The engine has more to do at once.
    has_more: bool,
    /// The millisecond of the last call.
    called_ms: Option<u64>,
    /// Until this time some work is in progress that must not wait: syncs, checkpoints.
    busy_until_ms: u64,
    /// When partitions whose dead space waits for a checkpoint were last ticked for it.
    pressed_ms: u64,
}

impl<D: Disk> Instance<D> {
    /// A connection has closed: its requests need no answers.
    pub fn disconnected(&mut self, connection: u64) {
        self.connections.remove(connection);
        for key in self.partitions.by.with_waits() {
            self.notify_replica(key, ReplicaEvent::Disconnected { connection }, &mut DiscardAnswers);
        }
    }

    /// Answers all waiting requests, because nothing more will happen. Later requests are answered the same way.
    pub fn stop(&mut self, now: ClockReading, effects: &mut dyn InstanceEffects) {
        self.is_stopping = true;
        self.end_of_batch(now, effects);
        self.wait_flushes(effects);
        self.release_all(&Failure::Unavailable { retry_after_ms: UNAVAILABLE_RETRY_MS }, effects);
    }

    /// Shuts down in order: syncs everything and writes a checkpoint of every changed partition, so that the next start reads no
    /// log. On a full disk it skips checkpoints without room; everything is durable all the same.
    ///
    /// # Errors
    /// As [`Engine::close`]. No write that was acknowledged as durable is lost.
    pub fn close(self) -> EngineResult<D> {
        let Instance { mut engine, mut partitions, .. } = self;
        let mut checkpoints = || {
            engine.flush()?;
            partitions.by.checkpoint_lone(&mut engine)
        };
        match checkpoints() {
            // The following steps, which need less room, tell whether the accepted writes survive.
            Ok(()) | Err(EngineError::DiskFull { .. } | EngineError::Scarce { .. }) => engine.close(),
            Err(error) => Err(error),
        }
    }

    /// The calls of an owner in the same process.
    pub fn local(&mut self) -> LocalCalls<'_, D> {
        LocalCalls(self)
    }

    /// The newest timestamp that was stored here at the start, or issued since.
    pub fn newest(&self) -> Timestamp {
        self.clock.newest()
    }

    /// Another instance of the node has stored this timestamp. Its clients bring it here, and must not be refused as too far
    /// ahead if the node's clock was set back while it was down.
    pub fn not_before(&mut self, newest: Timestamp) {
        self.clock.not_before(newest);
    }

    /// Whether any map since its start has had a keyspace.
    pub fn has_known_keyspaces(&self) -> bool {
        self.newest_keyspace != KeyspaceId::NONE
    }

    /// The map that it knows.
    pub fn map(&self) -> &Arc<ClusterMap> {
        self.history.map()
    }

    /// Its identity.
    pub fn identity(&self) -> Identity {
        self.identity
    }
}

impl<D: Disk> fmt::Debug for Instance<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Instance { identity, partitions, clock, maintenance, .. } = self;
        f.debug_struct("Instance")
            .field("identity", identity)
            .field("map", &self.map().epoch())
            .field("partitions", &partitions.len())
            .field("clock", clock)
            .field("maintenance", maintenance)
            .finish_non_exhaustive()
    }
}

fn effects_adapter<'r>(
    history: &'r MapHistory,
    connections: &'r mut Connections,
    counters: &'r mut RequestCounters,
    transit: &'r mut PendingMessages,
    out: &'r mut dyn InstanceEffects,
) -> EffectsAdapter<'r> {
    let (place, me) = (AnswerOrigin::default(), Member::default());
    EffectsAdapter {
        history,
        connections,
        counters,
        transit,
        out,
        origin: place,
        this_member: me,
        flush_need: FlushNeed::Nothing,
        is_stopping: false,
    }
}

/// For events that have no answers.
struct DiscardAnswers;

impl InstanceEffects for DiscardAnswers {
    fn push(&mut self, _effect: InstanceEffect<'_>) {}
}
