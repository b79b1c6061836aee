//! One instance without its sockets and its clock: an engine, the partitions it holds, and the map it knows.
//!
//! ```text
//!   request ──> map, partition table ──> Partition::step ──┬─> answer at once
//!                                                          └─> wants a flush
//!   end_of_batch ──> one Engine::flush for all that want it ──> Flushed ──> the answers that waited
//!                ──> partitions whose time has come: Tick
//!   maintain     ──> upkeep of the engine, in small steps
//!   apply_map    ──> partitions come, change and go
//! ```
//!
//! A pure state machine like the partitions below it: the owner tells it what came and when it is, and carries out its
//! [`InstanceEffects`] at once. `node` puts it on a reactor, `sim` on a simulated network. One thread owns it (ARCHITECTURE.md,
//! "Rules that carry the structure"); nothing in it is shared.

mod batch;
mod clock;
mod connections;
mod effects_adapter;
mod groups;
mod keyspace_drop;
mod mapping;
mod open;
mod read_locks;
mod requests;
mod splits;
mod stats;
mod table;
#[cfg(test)]
mod tests;
mod transactions;

use std::fmt;
use std::sync::Arc;

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineError, EngineResult};
use zerohop_placement::{ClusterMap, MapHistory};
use zerohop_wire::ids::{
    Incarnation, InstanceId, KeyspaceId, MapEpoch, PartitionEpoch, PartitionId, Timestamp,
};
use zerohop_wire::messages::{ClusterId, Member};
use zerohop_wire::{Envelope, Failure, Message};

use crate::event::Token;
use crate::limits::UNAVAILABLE_RETRY_MS;

pub use clock::ClockReading;
pub use mapping::MapChangeError;
pub use open::{InstanceOpenError, InstanceOptions, OpenReport};
pub use stats::InstanceStats;

use clock::InstanceClock;
use connections::Connections;
use effects_adapter::Relay;
use groups::Groups;
use splits::Splits;
use stats::RequestCounters;
use table::Table;
use transactions::Transit;

/// Who this is, in answers to `Hello`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The instance.
    pub instance: InstanceId,
    /// The start of its process.
    pub incarnation: Incarnation,
}

/// What an answer says about where it comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerOrigin {
    /// The keyspace that the request named.
    pub keyspace: KeyspaceId,
    /// The partition that the request named.
    pub partition: PartitionId,
    /// The epoch of the group that answers; zero if none does.
    pub epoch: PartitionEpoch,
    /// For how many microseconds, from when it was asked for, nobody changes what was read; 0: anybody may.
    pub held_us: u32,
}

/// What an instance asks of its owner, to be done at once and in order.
pub trait InstanceEffects {
    /// Sends an answer.
    fn answer(&mut self, to: Token, place: AnswerOrigin, message: &Message<'_>);

    /// Sends the reply of a unit that was answered [`crate::ProgramResult::Later`].
    fn reply(&mut self, to: Token, bytes: &[u8]);

    /// Lets a request go without an answer: its asker has it already.
    fn let_go(&mut self, to: Token);

    /// Sends a message to another instance, gathered with others for it until the batch has ended. Lost or sent twice it
    /// does no harm; so an owner without other nodes lets it lie.
    fn send(&mut self, _to: Member, _envelope: &Envelope, _message: &Message<'_>) {}

    /// Asks the control group for a change of the group at this place, if its epoch is still this one. Repeated until the
    /// map has another.
    fn ask_control(&mut self, _place: AnswerOrigin, _change: crate::replica::GroupChange) {}

    /// Fetches the map: another instance has a newer one.
    fn fetch_map(&mut self) {}

    /// Writes this ceiling to disk, in place of the last one, and syncs it; then [`Instance::ceiling_synced`]. Until then
    /// writes of shared partitions may have to wait. A start tells it to [`Instance::begin_above`].
    fn sync_ceiling(&mut self, _ceiling: Timestamp) {}

    /// Tells the control group that nothing of a transaction is under way in a keyspace that is being dropped, in any partition
    /// of which this instance is the primary by the map of this epoch. Told again and again, until the keyspace is gone.
    fn drained(&mut self, _keyspace: KeyspaceId, _map: MapEpoch) {}
}

/// See the module.
pub struct Instance<D: Disk> {
    identity: Identity,
    engine: Engine<D>,
    table: Table,
    groups: Groups,
    splits: Splits,
    unfollowed: mapping::MapBacklog,
    closing: keyspace_drop::DroppingKeyspaces,
    history: MapHistory,
    /// The newest keyspace of any map that it has known: one of an id above is still to come, one below that the map
    /// does not have is gone.
    newest_keyspace: KeyspaceId,
    connections: Connections,
    clock: InstanceClock,
    counters: RequestCounters,
    transit: Transit,
    upkeep: Upkeep,
    holding: read_locks::ReadLocks,
}

/// When the engine's upkeep is due.
#[derive(Clone, Copy, Debug, Default)]
struct Upkeep {
    /// The engine has more to do at once.
    has_more: bool,
    /// The millisecond of the last call.
    called_ms: Option<u64>,
    /// Until then something is under way that must not wait: syncs, checkpoints.
    busy_until_ms: u64,
    /// When partitions whose dead space waits for a checkpoint were ticked for it last.
    pressed_ms: u64,
}

impl<D: Disk> Instance<D> {
    /// A connection has closed: nobody waits for what it asked.
    pub fn disconnected(&mut self, connection: u64) {
        self.connections.forget(connection);
        self.disconnected_shared(connection);
        let now = self.clock.now();
        for slot in self.table.with_waits() {
            let Instance { engine, table, history, connections, counters, transit, .. } = self;
            let mut nobody = DiscardAnswers;
            table.step(
                slot,
                (engine, now),
                crate::PartitionEvent::Disconnected { connection },
                &mut relay(history, connections, counters, transit, &mut nobody),
            );
        }
    }

    /// Answers all that waits for something to happen: nothing more will. Requests that come later are answered the
    /// same.
    pub fn stop(&mut self, now: ClockReading, effects: &mut dyn InstanceEffects) {
        self.end_of_batch(now, effects);
        self.wait_flush_shared(effects);
        let failure = Failure::Unavailable { retry_after_ms: UNAVAILABLE_RETRY_MS };
        let Instance { table, history, connections, counters, transit, .. } = self;
        for slot in table.slots() {
            table.release(slot, &failure, &mut relay(history, connections, counters, transit, effects));
        }
        self.release_shared(&failure, effects);
    }

    /// Ends in order: everything synced, and a checkpoint of every partition that changed, so that the next start reads
    /// no log; on a full disk without what there is no room for, and everything durable all the same.
    ///
    /// # Errors
    /// As [`Engine::close`]. Nothing that was acknowledged as durable is lost by it.
    pub fn close(self) -> EngineResult<D> {
        let Instance { mut engine, mut table, .. } = self;
        let mut checkpoints = || {
            engine.flush()?;
            table.slots().into_iter().try_for_each(|slot| table.checkpoint(slot, &mut engine))
        };
        match checkpoints() {
            // Whether what was accepted survives is told by what follows, which needs less room.
            Ok(()) | Err(EngineError::DiskFull { .. } | EngineError::Scarce { .. }) => engine.close(),
            Err(error) => Err(error),
        }
    }

    /// The newest timestamp that is stored here, as of the start, or was issued since.
    pub fn newest(&self) -> Timestamp {
        self.clock.newest()
    }

    /// Another instance of the node has stored this: its clients come here with it, and must not be refused as ahead of
    /// the time where the node's clock was set back while it was down.
    pub fn not_before(&mut self, newest: Timestamp) {
        self.clock.not_before(newest);
    }

    /// The map that it knows.
    pub fn map(&self) -> &Arc<ClusterMap> {
        self.history.map()
    }

    /// Who it is.
    pub fn identity(&self) -> Identity {
        self.identity
    }
}

impl<D: Disk> fmt::Debug for Instance<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Instance { identity, table, clock, upkeep, .. } = self;
        f.debug_struct("Instance")
            .field("identity", identity)
            .field("map", &self.map().epoch())
            .field("partitions", &table.len())
            .field("clock", clock)
            .field("upkeep", upkeep)
            .finish_non_exhaustive()
    }
}

fn relay<'r>(
    history: &'r MapHistory,
    connections: &'r mut Connections,
    counters: &'r mut RequestCounters,
    transit: &'r mut Transit,
    out: &'r mut dyn InstanceEffects,
) -> Relay<'r> {
    let (place, me) = (AnswerOrigin::default(), Member::default());
    Relay { history, connections, counters, transit, out, place, me, wants_flush: false }
}

/// For events that bring no answers.
struct DiscardAnswers;

impl InstanceEffects for DiscardAnswers {
    fn answer(&mut self, _to: Token, _place: AnswerOrigin, _message: &Message<'_>) {}

    fn reply(&mut self, _to: Token, _bytes: &[u8]) {}

    fn let_go(&mut self, _to: Token) {}
}
