//! What a turn of a simulated instance leaves to do, and the collector of its effects.

use std::collections::BTreeMap;

use zerohop_partition::Token;
use zerohop_relay::{UNIT_TOKEN_BIT, UnitAnswer};
use zerohop_replication as replica;
use zerohop_shard::{AnswerOrigin, InstanceEffect, InstanceEffects, LargeRegion};
use zerohop_wire::ids::{KeyspaceId, MapEpoch, PartitionId, RequestId, Timestamp};
use zerohop_wire::messages::Member;
use zerohop_wire::{Encoder, Envelope, Message};

use super::committed_entries::AppliedEntries;
use super::redis_turn::RedisTurn;
use crate::network::LinkId;
use crate::node::port::Port;

/// The effects of a turn.
#[derive(Debug, Default)]
pub(crate) struct ClusterTurn {
    pub(crate) sent: Vec<(LinkId, Vec<u8>)>,
    pub(crate) closed: Vec<LinkId>,
    /// Frames for other instances, each separate.
    pub(crate) to_peers: Vec<(Member, Vec<u8>)>,
    pub(crate) proposals: Vec<(AnswerOrigin, replica::GroupChange)>,
    /// Draining keyspaces without pending work on this instance, with the epoch of the map.
    pub(crate) drained: Vec<(KeyspaceId, MapEpoch)>,
    /// Regions that are to be split because of their size.
    pub(crate) large_regions: Vec<LargeRegion>,
    pub(crate) fetches_map: bool,
    /// Origins of answers about a record.
    pub(crate) answered: Vec<AnswerOrigin>,
    /// Origins of acknowledgements of a write.
    pub(crate) acknowledged: Vec<AnswerOrigin>,
    /// Invariants that were found broken.
    pub(crate) broken: Vec<BrokenReport>,
    /// Entries that members of groups have applied.
    pub(crate) applied: Vec<AppliedEntries>,
    /// More background maintenance is due at once.
    pub(crate) has_more: bool,
    /// Answers to units of Redis clients, which are passed on within the turn.
    pub(crate) unit_answers: Vec<(u64, UnitAnswer)>,
    pub(crate) redis: RedisTurn,
}

/// A broken invariant that was reported in a turn, with the number of answers that had left before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BrokenReport {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) partition: PartitionId,
    pub(crate) rule: &'static str,
    pub(crate) answered_before: usize,
    pub(crate) acknowledged_before: usize,
}

impl BrokenReport {
    /// Whether an answer is about its partition.
    pub(crate) fn is_of(&self, place: &AnswerOrigin) -> bool {
        (self.keyspace, self.partition) == (place.keyspace, place.partition)
    }
}

/// Collects effects.
pub(super) struct Collect<'s> {
    pub(super) ports: &'s mut BTreeMap<LinkId, Port>,
    pub(super) output: &'s mut ClusterTurn,
    pub(super) timestamp_bound: &'s mut Option<Timestamp>,
}

/// The pseudo connection of messages from other instances.
pub(super) const PEERS: u64 = u64::MAX;

impl InstanceEffects for Collect<'_> {
    fn push(&mut self, effect: InstanceEffect<'_>) {
        match effect {
            InstanceEffect::Answer { to, place, message } => self.answer(to, place, message),
            InstanceEffect::Reply { to, bytes } => {
                self.output.unit_answers.push((to.request.0, UnitAnswer::Reply(bytes.to_vec())));
            }
            InstanceEffect::Dropped { to } => self.drop_request(to),
            InstanceEffect::Send { to, envelope, message } => self.send(to, envelope, message),
            InstanceEffect::ProposeChange { place, change } => self.output.proposals.push((place, change)),
            InstanceEffect::FetchMap => self.output.fetches_map = true,
            InstanceEffect::SyncTimestampBound(timestamp_bound) => {
                *self.timestamp_bound = Some(timestamp_bound)
            }
            InstanceEffect::InvariantBroken { keyspace, partition, broken } => {
                let (answered_before, acknowledged_before) =
                    (self.output.answered.len(), self.output.acknowledged.len());
                let rule = broken.rule;
                self.output.broken.push(BrokenReport {
                    keyspace,
                    partition,
                    rule,
                    answered_before,
                    acknowledged_before,
                });
            }
            InstanceEffect::Drained { keyspace, map } => self.output.drained.push((keyspace, map)),
            InstanceEffect::SplitRegion(large) => self.output.large_regions.push(large.clone()),
            InstanceEffect::Flush(_) => {}
        }
    }
}

impl Collect<'_> {
    fn answer(&mut self, to: Token, place: AnswerOrigin, message: &Message<'_>) {
        // Messages of other instances have a token without a request.
        if to.connection & UNIT_TOKEN_BIT != 0 && to.request != RequestId(0) {
            return self.output.unit_answers.push((to.request.0, UnitAnswer::of(message)));
        }
        let Some(port) = self.ports.get_mut(&LinkId(to.connection)) else { return };
        if port.shows_record_state(to.request, message) {
            self.output.answered.push(place);
        }
        if port.acknowledges(to.request, message) {
            self.output.acknowledged.push(place);
        }
        let envelope = Envelope {
            request: to.request,
            keyspace: place.keyspace,
            partition: place.partition,
            partition_epoch: place.epoch,
            time_out_ms: place.read_lock_us,
            read_lock: false,
        };
        port.answer(&envelope, message);
    }

    fn drop_request(&mut self, to: Token) {
        if let Some(port) = self.ports.get_mut(&LinkId(to.connection)) {
            port.remove_request(to.request);
        }
    }

    fn send(&mut self, to: Member, envelope: &Envelope, message: &Message<'_>) {
        let mut bytes = Vec::new();
        let encoded = Encoder::default().encode(envelope, message, &mut bytes);
        assert!(encoded.is_ok(), "what instances say to each other is within the wire's bounds: {encoded:?}");
        self.output.to_peers.push((to, bytes));
    }
}
