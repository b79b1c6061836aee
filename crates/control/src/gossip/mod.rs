//! Failure detection: SWIM (Das, Gupta and Motivala, 2002) by the foca crate, with suspicion and refutation,
//! tuned so that a dead node is noticed within a second. Its verdicts are only reports; the control group
//! alone makes a new epoch from them.
//!
//! Every node takes part under a name that is new at each start. A restarted node is therefore a different
//! member, and a process that was declared dead by mistake renews its name and becomes a member again.

use std::collections::BTreeMap;
use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

use foca::{Config, Foca, Identity, NoCustomBroadcast, Notification, PeriodicParams, Runtime, Timer};
use zerohop_placement::ClusterMap;
use zerohop_wire::ids::{Incarnation, MapEpoch, NodeId};

use crate::limits::{GOSSIP_ANNOUNCES, GOSSIP_DATAGRAM_BYTES_MAX};
use zerohop_base::random::SplitMix64;
use zerohop_base::time::Time;

mod codec;
#[cfg(test)]
mod tests;

use codec::Fields;

/// The name of a node's process in gossip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// The node.
    pub node: NodeId,
    /// The nonce of its process's start.
    pub incarnation: Incarnation,
    /// The epoch of the map in which it joined. Nonces have no order, and this has: the later start wins.
    pub since: MapEpoch,
    /// How often it has been declared dead by mistake.
    pub renewals: u16,
}

impl Identity for Name {
    type Addr = NodeId;

    fn renew(&self) -> Option<Name> {
        Some(Name { renewals: self.renewals.checked_add(1)?, ..*self })
    }

    fn addr(&self) -> NodeId {
        self.node
    }

    fn win_addr_conflict(&self, other: &Name) -> bool {
        (self.since, self.renewals, self.incarnation) > (other.since, other.renewals, other.incarnation)
    }
}

/// The delays after which a node is considered dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GossipSettings {
    /// Time between two probes of a node: a node probes one other node at a time.
    pub probe_ms: u64,
    /// Time after which other nodes are asked to probe too.
    pub answer_ms: u64,
    /// How long a suspected node has to refute the suspicion.
    pub suspect_ms: u64,
    /// Time between two rounds of news.
    pub round_ms: u64,
}

impl Default for GossipSettings {
    /// A probe fails after 150 ms, and 300 ms of silence follow; beside the wait for the next probe this
    /// leaves ample room within a second.
    fn default() -> GossipSettings {
        GossipSettings { probe_ms: 150, answer_ms: 50, suspect_ms: 300, round_ms: 50 }
    }
}

/// An effect of gossip.
#[derive(Clone, Debug, PartialEq)]
pub enum GossipEffect {
    /// A datagram. It may be lost, repeated or late.
    Send {
        /// The receiving node; its manager gets the datagram.
        to: NodeId,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A node answers, or does not.
    Verdict {
        /// The node.
        node: NodeId,
        /// The start of it that is meant.
        incarnation: Incarnation,
        /// Whether it answers.
        alive: bool,
    },
}

/// See the module.
pub struct Gossip {
    foca: Foca<Name, Fields, FocaRandom, NoCustomBroadcast>,
    /// The timers of foca, in order.
    timers: BTreeMap<(Time, u64), Timer<Name>>,
    timers_made: u64,
    /// The nodes that answer, as far as known.
    alive: BTreeMap<NodeId, Incarnation>,
    stream: SplitMix64,
    next_announce: Time,
    /// The process was paused at the last check, too.
    was_late: bool,
    name: Name,
}

/// The random numbers of foca.
struct FocaRandom(SplitMix64);

impl rand_core::TryRng for FocaRandom {
    type Error = core::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok((self.0.next_u64() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(self.0.next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&self.0.next_u64().to_le_bytes()[..piece.len()]);
        }
        Ok(())
    }
}

/// Collects the actions of foca while it handles an event.
struct GossipRuntime<'a> {
    now: Time,
    timers: &'a mut BTreeMap<(Time, u64), Timer<Name>>,
    timers_made: &'a mut u64,
    alive: &'a mut BTreeMap<NodeId, Incarnation>,
    name: &'a mut Name,
    effects: Vec<GossipEffect>,
}

impl Gossip {
    /// The gossip of a node, with the seed of its random numbers.
    pub fn new(now: Time, name: Name, settings: GossipSettings, seed: u64) -> Gossip {
        let foca = Foca::new(name, config(settings), FocaRandom(SplitMix64::new(seed)), Fields);
        Gossip {
            foca,
            timers: BTreeMap::new(),
            timers_made: 0,
            alive: BTreeMap::new(),
            stream: SplitMix64::new(!seed),
            next_announce: now,
            was_late: false,
            name,
        }
    }

    /// Handles a datagram. Invalid datagrams are dropped: datagrams may be lost anyway.
    pub fn receive(&mut self, now: Time, bytes: &[u8]) -> Vec<GossipEffect> {
        self.with(now, |foca, doing| {
            let _ = foca.handle_data(bytes, doing);
        })
    }

    /// Handles the passing of time. Announces this node to nodes of the map that are not known yet, a few at
    /// a time.
    pub fn tick(&mut self, now: Time, map: &ClusterMap) -> Vec<GossipEffect> {
        let mut effects = Vec::new();
        self.forgive_own_lateness(now);
        while let Some(entry) = self.timers.first_entry().filter(|entry| entry.key().0 <= now) {
            let timer = entry.remove();
            let of_suspect = matches!(timer, Timer::ChangeSuspectToDown { .. });
            let done = self.with(now, |foca, doing| {
                // Refused if the timer is from before a change of name.
                let _ = foca.handle_timer(timer, doing);
            });
            // foca 2.0 tells a suspect that it is dead even if it has refuted the suspicion in time; the
            // suspect would accept that.
            let is_dead =
                |effect: &GossipEffect| matches!(effect, GossipEffect::Verdict { alive: false, .. });
            if !of_suspect || done.iter().any(is_dead) {
                effects.extend(done);
            }
        }
        if self.next_announce <= now {
            self.next_announce = now.after_ms(ANNOUNCE_MS);
            for node in self.unknown(map) {
                let name = Name { node, ..Name::default() };
                effects.extend(self.with(now, |foca, doing| {
                    let _ = foca.announce(name, doing);
                }));
            }
        }
        effects
    }

    /// Time in which this process was paused does not count: answers and refutations may wait to be read, and
    /// foca's timers exist to give them time to arrive. All timers are delayed by the pause. Unless the
    /// process is paused all the time, they run only after the waiting datagrams have been read.
    fn forgive_own_lateness(&mut self, now: Time) {
        let Some(((first, _), _)) = self.timers.first_key_value() else { return };
        let late_us = now.since_us(*first);
        if *first > now || late_us < LATE_MS * 1000 {
            self.was_late &= *first > now;
            return;
        }
        self.was_late = !self.was_late;
        // If the process was paused at the last check too, part of the pause counts: dead nodes must be
        // noticed eventually.
        let longer_us = if self.was_late { late_us + READ_MS * 1000 } else { late_us - LATE_MS * 1000 };
        let timers = std::mem::take(&mut self.timers).into_iter();
        self.timers = timers.map(|((at, made), timer)| ((at.after_us(longer_us), made), timer)).collect();
    }

    /// Announces to the others that this node leaves, so that they need not detect it. Consumes the gossip.
    pub fn leave(mut self, now: Time) -> Vec<GossipEffect> {
        let mut effects = Vec::new();
        // Each announcement reaches some nodes, which pass it on; one datagram may be lost.
        for _ in 0..LEAVES {
            effects.extend(self.with(now, |foca, doing| {
                let _ = foca.leave_cluster(doing);
            }));
        }
        effects.retain(|effect| matches!(effect, GossipEffect::Send { .. }));
        effects
    }

    /// When [`Gossip::tick`] is due.
    pub fn tick_due(&self) -> Time {
        self.timers
            .first_key_value()
            .map_or(self.next_announce, |((time, _), _)| (*time).min(self.next_announce))
    }

    /// The start of a node that answers, if it answers.
    pub fn answers(&self, node: NodeId) -> Option<Incarnation> {
        self.alive.get(&node).copied()
    }

    /// The nodes that answer.
    pub fn alive(&self) -> &BTreeMap<NodeId, Incarnation> {
        &self.alive
    }

    /// Some of the nodes that nothing has been heard of.
    fn unknown(&mut self, map: &ClusterMap) -> Vec<NodeId> {
        let unknown: Vec<NodeId> = map
            .nodes()
            .map(|node| node.id())
            .filter(|node| *node != self.name.node && !self.alive.contains_key(node))
            .collect();
        let count = unknown.len() as u64;
        let start = self.stream.between(0, count.max(1)) as usize;
        unknown.iter().cycle().skip(start).take(unknown.len().min(GOSSIP_ANNOUNCES)).copied().collect()
    }

    fn with(
        &mut self,
        now: Time,
        act: impl FnOnce(&mut Foca<Name, Fields, FocaRandom, NoCustomBroadcast>, &mut GossipRuntime<'_>),
    ) -> Vec<GossipEffect> {
        let Gossip { foca, timers, timers_made, alive, name, .. } = self;
        let mut doing = GossipRuntime { now, timers, timers_made, alive, name, effects: Vec::new() };
        act(foca, &mut doing);
        doing.effects
    }
}

/// A timer that is later than this shows a pause: as long as a probe waits for its answer, by default.
const LATE_MS: u64 = 50;

/// Time in which a paused process reads the datagrams that have waited.
const READ_MS: u64 = 50;

/// How often a leaving node announces it.
const LEAVES: usize = 2;

/// Time between two announcements of this node.
const ANNOUNCE_MS: u64 = 500;

impl Runtime<Name> for &mut GossipRuntime<'_> {
    fn notify(&mut self, notification: Notification<'_, Name>) {
        let (name, alive) = match notification {
            Notification::MemberUp(name) => (name, true),
            Notification::MemberDown(name) => (name, false),
            Notification::Rename(_, name) if self.alive.contains_key(&name.node) => (name, true),
            Notification::Rejoin(name) => {
                *self.name = *name;
                return;
            }
            _ => return,
        };
        let (node, incarnation) = (name.node, name.incarnation);
        if alive {
            self.alive.insert(node, incarnation);
        } else {
            self.alive.remove(&node);
        }
        self.effects.push(GossipEffect::Verdict { node, incarnation, alive });
    }

    fn send_to(&mut self, to: Name, bytes: &[u8]) {
        self.effects.push(GossipEffect::Send { to: to.node, bytes: bytes.to_vec() });
    }

    fn submit_after(&mut self, timer: Timer<Name>, after: Duration) {
        *self.timers_made += 1;
        let time = self.now.after_us(u64::try_from(after.as_micros()).unwrap_or(u64::MAX));
        self.timers.insert((time, *self.timers_made), timer);
    }
}

fn config(settings: GossipSettings) -> Config {
    let ms = Duration::from_millis;
    let few = |frequency, count| {
        let num_members = NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
        Some(PeriodicParams { frequency, num_members })
    };
    Config {
        probe_period: ms(settings.probe_ms.max(2)),
        probe_rtt: ms(settings.answer_ms.clamp(1, settings.probe_ms.max(2) - 1)),
        num_indirect_probes: NonZeroUsize::new(3).unwrap_or(NonZeroUsize::MIN),
        max_transmissions: NonZeroU8::new(10).unwrap_or(NonZeroU8::MIN),
        suspect_to_down_after: ms(settings.suspect_ms.max(1)),
        remove_down_after: None,
        max_packet_size: NonZeroUsize::new(GOSSIP_DATAGRAM_BYTES_MAX).unwrap_or(NonZeroUsize::MIN),
        notify_down_members: true,
        periodic_announce: few(ms(5_000), 1),
        periodic_announce_to_down_members: few(ms(1_000), 2),
        periodic_gossip: few(ms(settings.round_ms.max(1)), 3),
    }
}
