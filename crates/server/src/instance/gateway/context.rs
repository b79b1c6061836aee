//! The instance as a gateway sees it during one call.

use zerohop_engine::disk::Disk;
use zerohop_partition::{Program, ProgramResult, Token};
use zerohop_reactor::{ClockSample, ConnectionId, Replies};
use zerohop_relay::UnitAnswer;
use zerohop_shard::{ClockReading, Instance};
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId};
use zerohop_wire::messages::Member;
use zerohop_wire::{Envelope, Failure, Message};

use crate::instance::outlet::{Outlet, OutletEffects};

/// The instance, the time, and the way to answer its own clients.
pub struct InstanceContext<'a, 'r, D: Disk> {
    /// The instance.
    pub instance: &'a mut Instance<D>,
    /// The time of this call.
    pub now: ClockSample,
    /// Where clients are answered.
    pub replies: &'a mut Replies<'r>,
    /// Where the other effects of the instance go.
    pub(crate) outlet: &'a mut Outlet,
}

impl<D: Disk> InstanceContext<'_, '_, D> {
    /// The time, as the instance reads it.
    #[must_use]
    pub fn clock(&self) -> ClockReading {
        ClockReading { unix_ms: self.now.unix_ms, elapsed_ms: self.now.elapsed_ms }
    }

    /// Runs a program over the records of a partition.
    ///
    /// # Errors
    /// As [`Instance::run`].
    #[inline]
    pub fn run(
        &mut self,
        token: Token,
        place: (KeyspaceId, PartitionId),
        (program, reply): (&mut impl Program, &mut Vec<u8>),
    ) -> Result<ProgramResult, Failure<'static>> {
        let time = self.clock();
        let mut effects = OutletEffects { replies: self.replies, outlet: self.outlet, now: self.now };
        self.instance.run(time, token, place, (program, reply), &mut effects)
    }

    /// Passes a request to the instance. With [`zerohop_relay::UNIT_TOKEN_BIT`] in the token its answer is among [`InstanceContext::take_answers`].
    pub fn request(&mut self, token: Token, envelope: &Envelope, message: &Message<'_>) {
        let time = self.clock();
        let mut effects = OutletEffects { replies: self.replies, outlet: self.outlet, now: self.now };
        self.instance.request(time, token, envelope, message, &mut effects);
    }

    /// Whether answers to units wait.
    #[must_use]
    pub fn has_answers(&self) -> bool {
        !self.outlet.answered.is_empty()
    }

    /// The answers to units since the last call, by the numbers of the units' tokens.
    pub fn take_answers(&mut self) -> Vec<(u64, UnitAnswer)> {
        std::mem::take(&mut self.outlet.answered)
    }

    /// The connection to another node's instance, and the member at its other end. `None`: there is none at present; the instance connects at the
    /// end of the batch, unless it tried a moment ago.
    pub fn reach(&mut self, instance: InstanceId) -> Option<(ConnectionId, Member)> {
        self.outlet.links.reach(instance, self.now.elapsed_ms)
    }

    /// The connection to another instance, if there is one.
    #[must_use]
    pub fn connection_to(&self, instance: InstanceId) -> Option<ConnectionId> {
        self.outlet.links.connection_to(instance)
    }

    /// The instance at the other end of a connection that this side has opened.
    #[must_use]
    pub fn instance_at(&self, connection: ConnectionId) -> Option<InstanceId> {
        self.outlet.links.instance_at(connection)
    }
}
