//! The path of transaction messages between partitions: directly to a partition here, and through the owner to others. The map
//! tells the receiver of a message by its routing key. If the receiver is not reached the message is dropped. Its sender repeats
//! it, and at once if the map names another primary.

use std::collections::VecDeque;

use zerohop_engine::disk::Disk;
use zerohop_transaction::{KeyspaceRange, Message as ProtocolMessage};
use zerohop_wire::ids::{Incarnation, PartitionEpoch, PartitionId};
use zerohop_wire::messages::{Member, PeerBody, PeerMessage};
use zerohop_wire::{Envelope, Message};

use super::{Instance, InstanceEffect, InstanceEffects};
use crate::limits::{TRANSIT_MAX, TRANSIT_PER_BATCH_MAX, TRANSIT_ROUNDS_MAX};
use zerohop_partition::planted::{Bug, is_planted};
use zerohop_replication::{PartitionKey, Replica, ReplicaEvent};

/// Messages that must still be passed on.
#[derive(Debug, Default)]
pub(super) struct PendingMessages {
    queue: VecDeque<PartitionMessage>,
}

/// A message of a partition here.
#[derive(Debug)]
pub(super) enum PartitionMessage {
    /// All that it depends on is durable, as far as the protocol needs that.
    Durable(ProtocolMessage),
    /// A `Prepared` of this partition, whose entry is appended.
    Unsynced(PartitionKey, ProtocolMessage),
}

impl PendingMessages {
    /// Queues a message. Without room the message is dropped.
    pub(super) fn push(&mut self, message: PartitionMessage) {
        if self.queue.len() < TRANSIT_MAX {
            self.queue.push_back(message);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl<D: Disk> Instance<D> {
    /// Passes on the messages of partitions, and the responses of partitions here. `true`: there was something.
    pub(super) fn deliver_messages(&mut self, effects: &mut dyn InstanceEffects) -> bool {
        let any = !self.transit.is_empty();
        for _ in 0..TRANSIT_PER_BATCH_MAX {
            let Some(message) = self.transit.queue.pop_front() else { break };
            match message {
                PartitionMessage::Durable(message) => self.route(&message, effects),
                PartitionMessage::Unsynced(from, message) => self.route_unsynced(from, &message, effects),
            }
        }
        any
    }

    /// Passes on all messages, and those that they cause.
    pub(super) fn deliver_all(&mut self, effects: &mut dyn InstanceEffects) {
        for _ in 0..TRANSIT_ROUNDS_MAX {
            if !self.deliver_messages(effects) {
                return;
            }
        }
    }

    /// Whether no partition has a transaction in progress, so that the passing of time changes nothing.
    #[cfg(test)]
    pub(super) fn transactions_are_idle(&self) -> bool {
        let mut all = self.partitions.replicas().map(zerohop_replication::Replica::partition);
        self.transit.is_empty() && all.all(|one| one.next_transactions_ms().is_none())
    }

    /// Starts a checkpoint of all single-copy partitions.
    #[cfg(test)]
    pub(super) fn checkpoint_all(&mut self) {
        assert_eq!(self.partitions.by.checkpoint_lone(&mut self.engine), Ok(()));
    }

    fn route(&mut self, message: &ProtocolMessage, effects: &mut dyn InstanceEffects) {
        let (keyspace, map) = (message.to.keyspace, self.map().clone());
        let Some(found) = map.keyspace(keyspace) else { return };
        let id = found.division().partition_at(message.to.point);
        let Some(group) = found.group(id) else { return };
        let primary = group.primary;
        if primary == self.identity.instance {
            return self.deliver((id, group.epoch), message, effects);
        }
        let known = map.instance(primary).map_or(Incarnation(0), |instance| instance.incarnation);
        let to = Member { instance: primary, incarnation: known };
        let from = Member { instance: self.identity.instance, incarnation: self.identity.incarnation };
        let envelope =
            Envelope { keyspace, partition: id, partition_epoch: group.epoch, ..Envelope::default() };
        let bytes = message.encode();
        let body = PeerBody::Transaction(&bytes);
        let message = &Message::Peer(PeerMessage { from, to, body });
        effects.push(InstanceEffect::Send { to, envelope: &envelope, message });
    }

    /// One flush makes the entries of all lone `sync` partitions here durable, in the order in which they were appended. So the
    /// decision of a lone partition may follow the entry of another lone one before either is durable.
    fn route_unsynced(
        &mut self,
        from: PartitionKey,
        message: &ProtocolMessage,
        effects: &mut dyn InstanceEffects,
    ) {
        let keyspace = message.to.keyspace;
        let Some(found) = self.map().keyspace(keyspace) else { return };
        let to = (keyspace, found.division().partition_at(message.to.point));
        let is_lone = |key| self.partitions.by.get(key).is_some_and(Replica::is_lone);
        if is_lone(from) && is_lone(to) {
            self.notify_replica(to, ReplicaEvent::UnsyncedPrepared(message), effects);
        } else if is_planted(Bug::UnsyncedPreparedSent) {
            self.route(message, effects);
        }
    }

    /// Passes a message to a partition that is here, with the epoch of the partition that its sender knows.
    fn deliver(
        &mut self,
        (id, epoch): (PartitionId, PartitionEpoch),
        message: &ProtocolMessage,
        effects: &mut dyn InstanceEffects,
    ) {
        let event = ReplicaEvent::Transaction { epoch, message };
        self.notify_replica((message.to.keyspace, id), event, effects);
    }

    /// A message has arrived from another instance, whose map has the partition in this epoch.
    pub(super) fn transaction(
        &mut self,
        epoch: PartitionEpoch,
        bytes: &[u8],
        effects: &mut dyn InstanceEffects,
    ) {
        let Ok(message) = ProtocolMessage::decode(bytes) else { return };
        let Some(found) = self.map().keyspace(message.to.keyspace) else { return };
        // The sender may know an older map. If this instance passed the message on, it could go round in a circle.
        self.deliver((found.division().partition_at(message.to.point), epoch), &message, effects);
    }

    /// After a change of the map: what was sent to former primaries of these groups may be lost, and is sent again.
    pub(super) fn send_again(&mut self, moved: &[KeyspaceRange], effects: &mut dyn InstanceEffects) {
        if moved.is_empty() {
            return;
        }
        for key in self.partitions.by.with_transactions() {
            for range in moved {
                self.notify_replica(key, ReplicaEvent::PrimaryMoved(*range), effects);
            }
        }
    }
}
