//! What an instance and a gateway have to do with each other. A gateway serves the clients of another protocol on the instance's thread and
//! listener; the program passes it in ([`crate::ServerOptions::gateway`]). The trait is shaped by Redis: units, tickets and replies are those of
//! Redis clients. A gateway of another protocol implements [`Gateway::receive`], [`Gateway::closed`] and [`Gateway::step`], and leaves the rest.
//!
//! ```text
//!   bytes of a foreign client ──> Gateway ──> InstanceContext: the instance runs a unit, or evaluates a request
//!                                   │  ^                          └─ answers ──> InstanceContext::take_answers
//!                                   │  └── Units, ReplyBatch: from other instances of the node, by notices
//!                                   └────> Siblings: to other instances of the node, once a batch
//! ```

mod context;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use zerohop_disk::NodeDisk;
use zerohop_engine::disk::Disk;
use zerohop_reactor::{ClockSample, ConnectionId, FOREIGN_ANSWER, ForeignResult, Replies};
use zerohop_relay::{ReplyBatch, Units};
use zerohop_resp::Ticket;
use zerohop_shard::Instance;
use zerohop_wire::Envelope;
use zerohop_wire::messages::{Member, UnitReport, UnitRequest};

pub use self::context::InstanceContext;
pub use super::notice::{CrossPartitionRunner, ReplyAddress, Siblings, TooManyUnits};
pub use crate::access::permits;
pub use crate::process::resident_bytes;
pub use zerohop_placement::Reachability;

/// Starts the gateway of one instance, on the instance's thread.
#[derive(Clone, Copy)]
pub struct GatewayStart(
    /// Given the instance's index on its node, and how long a unit waits for its partition.
    pub fn(usize, Duration) -> Box<dyn Gateway<NodeDisk>>,
);

impl fmt::Debug for GatewayStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GatewayStart")
    }
}

/// A gateway in an instance. Without an implementation, methods do what an instance without a gateway does.
#[expect(unused_variables, reason = "the names of arguments are documentation")]
pub trait Gateway<D: Disk>: fmt::Debug {
    /// All instances of the node are known.
    fn set_siblings(&mut self, siblings: Siblings) {}

    /// Other nodes answer this one than before, or there is a quorum, or none any more.
    fn set_reachability(&mut self, reachability: Arc<Reachability>) {}

    /// The number of commands of its clients that were run since the start.
    fn commands(&self) -> u64 {
        0
    }

    /// [`Gateway::set_cross_partition`] will be called soon.
    fn await_cross_partition(&mut self) {}

    /// From now on units may have keys in several partitions.
    fn set_cross_partition(&mut self, cross_partition: Arc<dyn CrossPartitionRunner>) {}

    /// The reply to a unit over several partitions has arrived.
    fn cross_partition_reply(
        &mut self,
        unit: (ConnectionId, Ticket),
        reply: &[u8],
        at: &mut InstanceContext<'_, '_, D>,
    ) {
    }

    /// Receives bytes of a client. The reply goes into `out`.
    fn receive(
        &mut self,
        id: ConnectionId,
        bytes: &[u8],
        at: &mut InstanceContext<'_, '_, D>,
        out: &mut Vec<u8>,
    ) -> ForeignResult {
        out.extend_from_slice(FOREIGN_ANSWER);
        ForeignResult::Close
    }

    /// A connection has closed: a client's, or one to or from another instance. Time in milliseconds of the reactor's clock.
    fn closed(&mut self, id: ConnectionId, instance: &mut Instance<D>, now_ms: u64) {}

    /// The map has changed: units go to the current primaries of their partitions.
    fn map_changed(&mut self, at: &mut InstanceContext<'_, '_, D>) {}

    /// Runs units of the clients of another instance of this node.
    fn run_units(&mut self, units: &Units, at: &mut InstanceContext<'_, '_, D>) {}

    /// Receives a piece of a unit of a client of another node's instance; runs the unit once complete.
    fn handle_unit_piece(
        &mut self,
        from: (ConnectionId, Member),
        envelope: &Envelope,
        piece: &UnitRequest<'_>,
        at: &mut InstanceContext<'_, '_, D>,
    ) {
    }

    /// Receives the outcomes of units that another instance of this node had to run.
    fn units_completed(&mut self, replied: &ReplyBatch, at: &mut InstanceContext<'_, '_, D>) {}

    /// Receives a piece of the outcome of a unit that an instance of another node had to run.
    fn handle_outcome_piece(
        &mut self,
        from: (ConnectionId, Member),
        piece: &UnitReport<'_>,
        at: &mut InstanceContext<'_, '_, D>,
    ) {
    }

    /// Runs some of the steps that are not urgent, before the batch is flushed.
    fn step(&mut self, at: &mut InstanceContext<'_, '_, D>) {}

    /// The batch has been flushed: passes on the answers. Whether units have run again, which need a flush of their own.
    fn send_answers(&mut self, at: &mut InstanceContext<'_, '_, D>) -> bool {
        false
    }

    /// The turn ends: sends the other instances their units and replies.
    fn send(&mut self, at: &mut InstanceContext<'_, '_, D>) {}

    /// When [`Gateway::send_answers`] and [`Gateway::send`] must run even if no event comes and no answer waits, in milliseconds of the reactor's
    /// clock.
    fn next_deadline_ms(&self, now_ms: u64) -> Option<u64> {
        None
    }

    /// The reactor stops: nothing under way elsewhere is awaited.
    fn stop(&mut self, at: &mut InstanceContext<'_, '_, D>) {}

    /// New writes wait for other instances to take over; `done` is notified once those under way have ended.
    fn yield_writes(&mut self, done: oneshot::Sender<()>, now: ClockSample) {
        // A receiver that is gone does not matter.
        _ = done.send(());
    }

    /// No command is accepted any more; `done` is notified once all accepted ones are answered.
    fn end(&mut self, done: oneshot::Sender<()>, replies: &mut Replies<'_>) {
        _ = done.send(());
    }
}

/// An instance without a gateway.
#[derive(Debug)]
pub(crate) struct NoGateway;

impl<D: Disk> Gateway<D> for NoGateway {}
