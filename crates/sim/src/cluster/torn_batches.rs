//! Primaries that are killed between two messages of one atomic batch. Where messages carry few entries, a batch takes several;
//! by chance a primary is killed between two of them in one of thousands.
//!
//! ```text
//!   turn of a primary ── message 1 of a batch ──> one member: it has the beginning
//!                     ── all later messages ──X   the process is killed
//! ```

use zerohop_base::random::Random;
use zerohop_base::time::Time;
use zerohop_engine::FLAG_JOINED;
use zerohop_wire::messages::{Member, PeerBody, PeerMessage};
use zerohop_wire::{DecodeResult, Decoder, Features, Message};

use super::faults::ClusterFault;
use super::{ClusterEvent, SimulatedCluster};
use crate::kinds::FaultKind;

/// One in so many turns that send the beginning of a batch ends its process.
const TURNS_OF: u64 = 30;

/// The draws are in a stream of their own.
const TEARS: u64 = 0xE7 << 56;

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
