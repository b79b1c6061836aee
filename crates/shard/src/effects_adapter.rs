//! Passes the effects of a partition on, and adds data that only the instance has: the origin of the answer, and the map.

use std::borrow::Cow;

use zerohop_placement::MapHistory;
use zerohop_wire::ids::PartitionEpoch;
use zerohop_wire::messages::{DigestRange, Member, PeerBody, PeerMessage};
use zerohop_wire::{Envelope, Failure, Message};

use super::connections::Connections;
use super::stats::RequestCounters;
use super::transactions::{PartitionMessage, PendingMessages};
use super::{AnswerOrigin, FlushStage, InstanceEffect, InstanceEffects};
use zerohop_partition::{FlushNeed, PartitionEffect, Token};
use zerohop_replication::{PartitionKey, ReplicaEffect, TableEffects};

/// The effects of the partition at `place`.
pub(super) struct EffectsAdapter<'r> {
    pub(super) history: &'r MapHistory,
    pub(super) connections: &'r mut Connections,
    pub(super) counters: &'r mut RequestCounters,
    pub(super) transit: &'r mut PendingMessages,
    pub(super) out: &'r mut dyn InstanceEffects,
    pub(super) origin: AnswerOrigin,
    /// The sender of messages to other members.
    pub(super) this_member: Member,
    pub(super) flush_need: FlushNeed,
    /// The instance stops, and proposes no change of a group: its members seem silent to it because it no longer listens.
    pub(super) is_stopping: bool,
}

impl EffectsAdapter<'_> {
    /// The partition is not served here, or is at another epoch: sends the changes that the client's map lacks.
    pub(super) fn wrong_owner(&mut self, to: Token) {
        let since = self.history.since(self.connections.epoch(to.connection));
        self.connections.has(to.connection, since.epoch);
        let failure = Failure::WrongOwner { epoch: since.epoch, delta: Cow::Owned(since.encoded) };
        self.answer(to, &Message::Answer(Err(failure)));
    }

    pub(super) fn answer(&mut self, to: Token, message: &Message<'_>) {
        if let Message::Answer(Err(failure)) = message {
            self.counters.failed(failure.code());
        }
        self.out.push(InstanceEffect::Answer { to, place: self.origin, message });
    }

    pub(super) fn fail(&mut self, to: Token, failure: Failure<'_>) {
        self.answer(to, &Message::Answer(Err(failure)));
    }
}

impl zerohop_partition::PartitionEffects for EffectsAdapter<'_> {
    fn push(&mut self, effect: PartitionEffect<'_>) {
        match effect {
            PartitionEffect::Answer { to, message, read_lock_us } => {
                self.origin.read_lock_us = read_lock_us;
                self.answer(to, message);
                self.origin.read_lock_us = 0;
            }
            PartitionEffect::Reply { to, bytes } => self.out.push(InstanceEffect::Reply { to, bytes }),
            PartitionEffect::WrongOwner { to } => EffectsAdapter::wrong_owner(self, to),
            PartitionEffect::Dropped { to } => {
                self.counters.dropped_requests += 1;
                self.out.push(InstanceEffect::Dropped { to });
            }
            PartitionEffect::Transaction(message) => self.transit.push(PartitionMessage::Durable(message)),
            PartitionEffect::UnsyncedPrepared(message) => {
                let AnswerOrigin { keyspace, partition, .. } = self.origin;
                self.transit.push(PartitionMessage::Unsynced((keyspace, partition), message));
            }
            PartitionEffect::TransactionLost { id, place } => {
                self.counters.record_error_text(if place == id.coordinator {
                    format!(
                        "transaction {id} ends undone here: the keyspace that was to decide it, or had, is gone"
                    )
                } else {
                    format!("transaction {id} is decided, and what it changes at {place} is lost there")
                });
            }
            PartitionEffect::FlushWanted(need) => {
                self.flush_need = self.flush_need.max(need);
                if need == FlushNeed::Now {
                    self.out.push(InstanceEffect::Flush(FlushStage::Wanted));
                }
            }
        }
    }
}

impl TableEffects for EffectsAdapter<'_> {
    fn of(&mut self, (keyspace, partition): PartitionKey, epoch: PartitionEpoch) {
        self.origin = AnswerOrigin { keyspace, partition, epoch, read_lock_us: 0 };
        self.flush_need = FlushNeed::Nothing;
    }

    fn flush_need(&self) -> FlushNeed {
        self.flush_need
    }
}

impl zerohop_replication::ReplicaEffects for EffectsAdapter<'_> {
    fn push_replica(&mut self, effect: ReplicaEffect<'_>) {
        let AnswerOrigin { keyspace, partition, .. } = self.origin;
        match effect {
            ReplicaEffect::Send { to, epoch, body } => {
                let envelope =
                    Envelope { keyspace, partition, partition_epoch: epoch, ..Envelope::default() };
                send_peer(self.out, &envelope, self.this_member, to, body);
            }
            ReplicaEffect::ProposeChange { .. } if self.is_stopping => {}
            ReplicaEffect::ProposeChange { epoch, change } => {
                let place = AnswerOrigin { epoch, ..self.origin };
                self.out.push(InstanceEffect::ProposeChange { place, change });
            }
            ReplicaEffect::Differs { who, range } => {
                let DigestRange { as_of, from, to, .. } = range;
                self.counters.record_error_text(format!(
                    "keyspace {keyspace}, partition {partition}: instance {} has different records than the other copies (cursors \
                     {from:02x?} to {to:02x?} as of entry {} of epoch {}); it is rebuilt from them",
                    who.instance, as_of.index, as_of.epoch
                ));
            }
            ReplicaEffect::InvariantBroken(broken) => {
                self.counters.record_broken(keyspace, partition, broken);
                self.out.push(InstanceEffect::InvariantBroken { keyspace, partition, broken });
            }
            ReplicaEffect::FetchMap { .. } => self.out.push(InstanceEffect::FetchMap),
        }
    }
}

/// Sends a message to another member.
pub(super) fn send_peer(
    effects: &mut dyn InstanceEffects,
    envelope: &Envelope,
    from: Member,
    to: Member,
    call: &PeerBody<'_>,
) {
    let message = &Message::Peer(PeerMessage { from, to, body: call.clone() });
    effects.push(InstanceEffect::Send { to, envelope, message });
}
