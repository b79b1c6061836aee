//! The inputs and effects of a replica.

use zerohop_base::invariant::BrokenInvariant;
use zerohop_engine::Engine;
use zerohop_engine::disk::Disk;
use zerohop_wire::ids::PartitionEpoch;
use zerohop_wire::messages::{DigestRange, FollowerReport, Member, PeerBody};
use zerohop_wire::{Failure, Message};

use super::{GroupChange, GroupView, Leases};
use zerohop_partition::MapView;
use zerohop_partition::{ClockSample, RecordRequest, StepContext, Token};

/// The environment of a step.
#[expect(missing_debug_implementations, reason = "an engine has none")]
pub struct Context<'c, D: Disk> {
    /// The instance's storage.
    pub engine: &'c mut Engine<D>,
    /// The instance's wall clock.
    pub now: ClockSample,
    /// The instance's monotonic clock in microseconds.
    pub now_us: u64,
    /// The instance's leases.
    pub leases: &'c Leases,
    /// The map that the instance knows.
    pub map: MapView<'c>,
}

impl<'c, D: Disk> Context<'c, D> {
    pub(super) fn at(&self) -> StepContext<'c> {
        StepContext { now: self.now, map: self.map }
    }
}

/// An input of [`Replica::step`](crate::Replica::step).
#[derive(Clone, Debug)]
pub enum ReplicaEvent<'a> {
    /// A request of a client.
    Request(RecordRequest<'a>),
    /// A message of another member about this partition.
    Peer {
        /// The sender. The caller has checked that the message is meant for this process.
        from: Member,
        /// The epoch in which the sender acts.
        epoch: PartitionEpoch,
        /// The message.
        body: &'a PeerBody<'a>,
    },
    /// A message of another partition about a transaction.
    Transaction {
        /// The epoch of this partition that its sender knows.
        epoch: PartitionEpoch,
        /// The message.
        message: &'a zerohop_transaction::Message,
    },
    /// See [`zerohop_partition::PartitionEvent::PrimaryMoved`].
    PrimaryMoved(zerohop_transaction::KeyspaceRange),
    /// See [`zerohop_partition::PartitionEvent::UnsyncedPrepared`]: both replicas are lone.
    UnsyncedPrepared(&'a zerohop_transaction::Message),
    /// The group according to a new map.
    Group(GroupView),
    /// The control group requests that this follower be admitted once it has caught up, beyond the copies needed, because a
    /// partition is being moved.
    AdmissionRequested(Member),
    /// See [`zerohop_partition::PartitionEvent::Flushed`].
    Flushed,
    /// See [`zerohop_partition::PartitionEvent::FlushFailed`].
    FlushFailed,
    /// The partition leaves this instance. The replica answers all waiting requests with this failure.
    Removed(Failure<'static>),
    /// Time has passed, or a batch of events has ended that included an event for this replica.
    Tick,
    /// The replica may read about this many bytes of its log in search of corruption, and compare a few records with other
    /// members.
    Scrub {
        /// A single entry may exceed it.
        bytes: usize,
    },
    /// See [`zerohop_partition::PartitionEvent::TokensChanged`].
    TokensChanged,
    /// See [`zerohop_partition::PartitionEvent::Disconnected`].
    Disconnected {
        /// The connection that was closed.
        connection: u64,
    },
}

/// An effect that a replica requests from its owner, beside those of its partition. The owner may perform it at once, lose it, or
/// perform it twice.
#[derive(Debug)]
pub enum ReplicaEffect<'e> {
    /// Send a message about this partition, in this epoch.
    Send {
        /// The receiver.
        to: Member,
        /// The epoch in which this member acts.
        epoch: PartitionEpoch,
        /// The message.
        body: &'e PeerBody<'e>,
    },
    /// Request a change of this group from the control group. It applies only if the group's epoch is still this one.
    ProposeChange {
        /// The epoch of the group.
        epoch: PartitionEpoch,
        /// The change.
        change: GroupChange,
    },
    /// The contents of a member differ from those of the others, as of one entry. The report is for the operator of the cluster.
    /// The replicas already handle the difference: the member installs a snapshot, or another member becomes primary.
    Differs {
        /// The member.
        who: Member,
        /// The records that differ.
        range: DigestRange<'e>,
    },
    /// An invariant of the replica is broken. It has stopped: it serves and acknowledges nothing more, until the process starts
    /// again. The report is for the operator of the cluster.
    InvariantBroken(BrokenInvariant),
    /// Fetch the map, because another member or a client has named this epoch of the partition.
    FetchMap {
        /// The epoch.
        epoch: PartitionEpoch,
    },
}

/// Takes the effects of a replica and of its partition.
pub trait ReplicaEffects: zerohop_partition::PartitionEffects {
    /// Takes one effect of the replica.
    fn push_replica(&mut self, effect: ReplicaEffect<'_>);
}

impl dyn ReplicaEffects + '_ {
    pub(crate) fn answer(&mut self, to: Token, message: &Message<'_>) {
        (self as &mut dyn zerohop_partition::PartitionEffects).answer(to, message);
    }

    pub(crate) fn wrong_owner(&mut self, to: Token) {
        (self as &mut dyn zerohop_partition::PartitionEffects).wrong_owner(to);
    }

    pub(crate) fn flush_wanted(&mut self) {
        (self as &mut dyn zerohop_partition::PartitionEffects).request_flush();
    }

    pub(crate) fn send(&mut self, to: Member, epoch: PartitionEpoch, body: &PeerBody<'_>) {
        self.push_replica(ReplicaEffect::Send { to, epoch, body });
    }

    pub(crate) fn propose_change(&mut self, epoch: PartitionEpoch, change: GroupChange) {
        self.push_replica(ReplicaEffect::ProposeChange { epoch, change });
    }

    pub(crate) fn differs(&mut self, who: Member, range: DigestRange<'_>) {
        self.push_replica(ReplicaEffect::Differs { who, range });
    }

    pub(crate) fn invariant_broken(&mut self, broken: BrokenInvariant) {
        self.push_replica(ReplicaEffect::InvariantBroken(broken));
    }

    pub(crate) fn fetch_map(&mut self, epoch: PartitionEpoch) {
        self.push_replica(ReplicaEffect::FetchMap { epoch });
    }
}

impl ReplicaEvent<'_> {
    /// Whether a member of a healthy group has nothing left to do after this event: it has appended and acknowledged entries, or
    /// counted an acknowledgement.
    pub(crate) fn is_routine(&self) -> bool {
        matches!(
            self,
            ReplicaEvent::Peer {
                body: PeerBody::Replicate { .. }
                    | PeerBody::ReplicateAck(FollowerReport::Acknowledged { .. }),
                ..
            }
        )
    }
}
