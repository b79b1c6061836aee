//! Primaries that are killed between two messages of one atomic batch. Where messages carry few entries, a batch takes several;
//! by chance a primary is killed between two of them in one of thousands.
//!
//! ```text
//!   turn of a primary ── message 1 of a batch ──> one member: it has the beginning
//!                     ── all later messages ──X   the process is killed
//! ```

use std::collections::BTreeSet;

use zerohop_base::random::Random;
use zerohop_base::time::Time;
use zerohop_engine::FLAG_JOINED;
use zerohop_wire::ids::{KeyspaceId, PartitionId};
use zerohop_wire::messages::{Member, PeerBody, PeerMessage};
use zerohop_wire::{DecodeResult, Decoder, Features, Message};

use super::faults::ClusterFault;
use super::{ClusterEvent, SimulatedCluster};
use crate::kinds::FaultKind;
use crate::streams::Draw;

/// One in so many turns that send the beginning of a batch ends its process.
const TURNS_OF: u64 = 30;

/// One in so many turns that send a member several messages with entries ends with the first of them.
const HALVES_OF: u64 = 12;

/// Its process is killed within so long after that: the answers to the first message have arrived by then, or not.
const KILLED_WITHIN_US: [u64; 3] = [2_000, 10_000, 40_000];

/// The draws are in streams of their own.
const TEARS: u64 = 0xE7 << 56;
const HALVES: u64 = 0xEA << 56;

/// See the module.
pub(super) struct TornBatches<'w> {
    pub(super) world: &'w mut SimulatedCluster,
}

impl TornBatches<'_> {
    /// Takes away the frames of a turn behind the beginning of an atomic batch, and kills the process, if that is drawn.
    pub(super) fn tear(&mut self, host: usize, done: Time, frames: &mut Vec<(Member, Vec<u8>)>) {
        let world = &mut *self.world;
        let is_on = world.scenario.peers.message_entries.is_some() && world.scenario.has(FaultKind::Kills);
        if !is_on || !world.is_in_fault_window(world.now()) {
            return;
        }
        let Some(begun) = frames.iter().position(|(_, bytes)| begins_batch(bytes)) else { return };
        world.targeted_faults.tears_drawn += 1;
        let mut draw = Random::new(world.seed ^ TEARS).fork(world.targeted_faults.tears_drawn);
        if !draw.chance(1, TURNS_OF) {
            return;
        }
        frames.truncate(begun + 1);
        let life = world.hosts[host].life;
        world.trace.record(done, format_args!("TORN BATCH of n{host}"));
        world.event_queue.at(done.after_us(1), ClusterEvent::Fault(ClusterFault::Kill { host, life }));
    }
}

impl TornBatches<'_> {
    /// Takes away all messages with entries of a turn but the first to each member, and kills the process soon, if that is drawn.
    /// Clients' batches of operations are then on the members in part.
    pub(super) fn send_half(&mut self, host: usize, done: Time, frames: &mut Vec<(Member, Vec<u8>)>) {
        let world = &mut *self.world;
        let is_on = world.scenario.peers.sends_half && world.scenario.has(FaultKind::Kills);
        if !is_on || !world.is_in_fault_window(world.now()) {
            return;
        }
        let mut first = BTreeSet::new();
        let is_later: Vec<bool> = frames
            .iter()
            .map(|(to, bytes)| replicated(bytes).is_some_and(|place| !first.insert((*to, place))))
            .collect();
        let mut draw = Random::new(world.seed ^ HALVES).fork(done.0 ^ (host as u64) << 48);
        if !is_later.contains(&true) || !draw.chance(1, HALVES_OF) {
            return;
        }
        let mut later = is_later.into_iter();
        frames.retain(|_| later.next() != Some(true));
        let within_us = *draw.pick(&KILLED_WITHIN_US);
        let at = done.after_us(1 + draw.below(within_us));
        let life = world.hosts[host].life;
        world.trace.record(done, format_args!("HALF of the entries of n{host} are sent"));
        world.coverage.blob("batches that are sent in part");
        world.event_queue.at(at, ClusterEvent::Fault(ClusterFault::Kill { host, life }));
    }
}

/// The partition of a frame with entries.
fn replicated(bytes: &[u8]) -> Option<(KeyspaceId, PartitionId)> {
    let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
    let DecodeResult::Frame { frame, .. } = decoder.decode(bytes) else { return None };
    let mut scratch = Vec::new();
    match frame.message(&mut scratch) {
        Ok(Message::Peer(PeerMessage { body: PeerBody::Replicate { entries, .. }, .. })) => {
            entries.iter().next().map(|_| (frame.envelope.keyspace, frame.envelope.partition))
        }
        _ => None,
    }
}

/// Whether a frame has entries, the last of which is joined with one that is not in it.
fn begins_batch(bytes: &[u8]) -> bool {
    let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
    let DecodeResult::Frame { frame, .. } = decoder.decode(bytes) else { return false };
    let mut scratch = Vec::new();
    match frame.message(&mut scratch) {
        Ok(Message::Peer(PeerMessage { body: PeerBody::Replicate { entries, .. }, .. })) => {
            entries.iter().last().is_some_and(|entry| entry.flags & FLAG_JOINED != 0)
        }
        _ => false,
    }
}
