//! Targeted faults against transactions. A coordinator dies during a commit. An old message arrives
//! again much later. A participant learns of a decision only after its session has expired, its
//! partition is split, or the coordinator's keyspace is being dropped. By chance each would hit
//! one in thousands.
//!
//! | fault | what must have no consequence |
//! | --- | --- |
//! | a coordinator dies, and clients are paused until others have queried its transactions, and retry then | the next primary does not know them |
//! | a `Drop` message is repeated when its transaction is prepared again | the old message |
//! | decisions of before a sleep arrive after it | their sessions have expired |
//! | a keyspace is split while decisions do not arrive in it | one of two children learns first |
//! | a keyspace is dropped while its decisions do not arrive in the other | the coordinators are to go |

use std::collections::{BTreeMap, BTreeSet};

use zerohop_base::time::Time;
use zerohop_transaction::{Message as ProtocolMessage, RoutingKey, TransactionId, TransactionMessage};
use zerohop_wire::ids::KeyspaceId;
use zerohop_wire::messages::{PeerBody, PeerMessage};
use zerohop_wire::{DecodeResult, Decoder, Features, Message};

use super::commits::FrameContent;
use super::faults::ClusterFault;
use super::node_end::NodeEnd;
use super::{ClusterEvent, ClusterPhase, SimulatedCluster};
use crate::kinds::FaultKind;
use crate::streams::Draw;

const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;

/// One in `COORDINATORS_OF` messages with a `Prepare` or a decision kills its coordinator within
/// `CRASH_WITHIN_US`; then none is killed for `FAULT_PAUSE_US`.
const COORDINATORS_OF: u64 = 40;
const CRASH_WITHIN_US: u64 = 30 * MS;
const FAULT_PAUSE_US: u64 = 4 * SECOND;

/// The shortest and longest pause of clients after that: participants query the next primary after
/// a second. Once one of them has learned that its transaction is over, clients go on within
/// `CLIENT_PAUSE_US_MAX`.
const CLIENT_PAUSE_US_MIN: (u64, u64) = (2 * SECOND, 5 * SECOND);
const CLIENT_PAUSE_US_MAX: u64 = 30 * MS;

/// In runs with repeated messages, one in `MESSAGES_PER_REPEAT` transaction messages arrives again within
/// `AGAIN_US`.
const MESSAGES_PER_REPEAT: u64 = 25;
const AGAIN_US: u64 = 2 * SECOND;

/// `Drop` messages are rare: each is repeated `DROPS_AGAIN` times within `DROPS_AGAIN_US`. When its
/// transaction is prepared again, it is repeated `ECHOES` times within `ECHOES_US`.
const DROPS_AGAIN: u64 = 3;
const DROPS_AGAIN_US: u64 = 800 * MS;
const ECHOES: u64 = 4;
const ECHOES_US: u64 = 25 * MS;

/// The highest number of `Drop` messages that are remembered.
const DROPS_MAX: usize = 256;

/// A decision that is withheld until after a sleep falls within `BEFORE_CLIENT_PAUSE_US` before it, and
/// arrives from `BEFORE_WAKING_US` before its end.
const BEFORE_CLIENT_PAUSE_US: u64 = 2 * SECOND;
const BEFORE_WAKING_US: u64 = 5 * SECOND;

/// How long before and after the command for a split decisions are withheld in a keyspace.
pub(super) const BEFORE_SPLIT_US: u64 = 1_200 * MS;
const AFTER_SPLIT_US: u64 = 2_500 * MS;

/// The same for a drop. Its command follows a withheld decision after `DROP_SOON_US`; if there is
/// none, it comes at `BEFORE_DROP_US`. Afterwards there is time for a drop without draining.
pub(super) const BEFORE_DROP_US: u64 = 6 * SECOND;
const DROP_SOON_US: u64 = 250 * MS;
const AFTER_DROP_US: u64 = 4 * SECOND;

/// Participants with a higher hash do not receive decisions of the keyspace that is to be dropped.
const UPPER_HALF: u64 = 1 << 63;

/// The highest number of decisions that are withheld at a time.
const WITHHELD_DECISIONS_MAX: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct TargetedFaults {
    /// Until then the managers are disturbed during elections.
    pub(super) elections_until: Time,
    /// No coordinator is struck before then.
    again: Time,
    /// Decisions that are withheld until then.
    delayed_decisions: BTreeMap<DelayedDecision, Time>,
    /// Decisions that are drawn to be delivered.
    delivered_decisions: BTreeMap<DelayedDecision, Time>,
    deaf: Option<UnreachableKeyspace>,
    /// The end of the clients' pause after the death of a coordinator.
    clients_paused_until: Option<Time>,
    /// The last frame with a `Drop` message, per transaction and receiver.
    drops: BTreeMap<(TransactionId, RoutingKey), Vec<u8>>,
    /// How the process of a node ends if its disk cuts the power at an aimed point.
    pub(super) aimed_ends: BTreeMap<usize, NodeEnd>,
    pub(super) aims_drawn: u64,
    /// Turns that might have been the last of their process, as in `torn_batches`.
    pub(super) tears_drawn: u64,
    /// Nodes of which a partition was to break an invariant, each with the number of its start.
    pub(super) broken: BTreeSet<(usize, u32)>,
    /// Nodes with a disk that has failed some operation.
    pub(super) failed_disks: BTreeSet<usize>,
}

/// A frame with a transaction message.
struct TransactionFrame<'f> {
    message: ProtocolMessage,
    frame: &'f [u8],
}

/// A withheld decision: for all receivers, or for one alone.
type DelayedDecision = (TransactionId, Option<RoutingKey>);

/// A keyspace that does not receive some decisions; with `coordinators`, only those of that
/// keyspace.
#[derive(Clone, Copy, Debug)]
struct UnreachableKeyspace {
    keyspace: KeyspaceId,
    coordinators: Option<KeyspaceId>,
    until: Time,
}

impl UnreachableKeyspace {
    fn concerns(&self, message: &ProtocolMessage) -> bool {
        message.to.keyspace == self.keyspace
            && self.coordinators.is_none_or(|one| one == message.id.coordinator.keyspace)
    }
}

/// Frames, each with its transaction message, if it has one.
fn transaction_frames(frames: &[u8]) -> impl Iterator<Item = (&[u8], Option<TransactionFrame<'_>>)> {
    let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
    let mut rest = frames;
    std::iter::from_fn(move || {
        let DecodeResult::Frame { frame, used } = decoder.decode(rest) else { return None };
        let bytes = &rest[..used];
        rest = &rest[used..];
        let mut scratch = Vec::new();
        let message = match frame.message(&mut scratch) {
            Ok(Message::Peer(PeerMessage { body: PeerBody::Transaction(message), .. })) => {
                ProtocolMessage::decode(message).ok()
            }
            _ => None,
        };
        Some((bytes, message.map(|message| TransactionFrame { message, frame: bytes })))
    })
}

impl SimulatedCluster {
    /// An instance is about to send a transaction message to another node; `make` makes an event
    /// that delivers it again.
    pub(super) fn maybe_target_message(
        &mut self,
        now: Time,
        (from, to): (usize, usize),
        content: FrameContent,
        make: &dyn Fn() -> ClusterEvent,
    ) {
        if self.phase != ClusterPhase::Faults {
            return;
        }
        if self.scenario.has(FaultKind::Repeats) {
            let is_again = self.streams.network.chance(1, MESSAGES_PER_REPEAT);
            let (count, within_us) = match content {
                FrameContent::Drop => (DROPS_AGAIN, DROPS_AGAIN_US),
                _ => (u64::from(is_again), AGAIN_US),
            };
            for _ in 0..count {
                let at = now.after_us(self.streams.network.below(within_us));
                self.event_queue.at(at, make());
            }
        }
        let is_coordinator = matches!(content, FrameContent::Prepare | FrameContent::Commit);
        let may_die = is_coordinator
            && now >= self.targeted_faults.again
            && self.scenario.has(FaultKind::Kills)
            && self.is_in_fault_window(now);
        if may_die && from != to && self.streams.node.chance(1, COORDINATORS_OF) {
            self.targeted_faults.again = now.after_us(FAULT_PAUSE_US);
            let (at, life) = (now.after_us(self.streams.node.below(CRASH_WITHIN_US)), self.hosts[from].life);
            self.event_queue.at(at, ClusterEvent::Fault(ClusterFault::Kill { host: from, life }));
            if self.scenario.has(FaultKind::ClientPauses) && self.streams.node.chance(1, 2) {
                let until =
                    at.after_us(self.streams.node.between(CLIENT_PAUSE_US_MIN.0, CLIENT_PAUSE_US_MIN.1));
                (0..self.clients.len()).for_each(|client| self.pause_client(client, until));
                self.targeted_faults.clients_paused_until = Some(until);
            }
        }
    }

    /// Removes withheld decisions from frames between two instances, and returns the rest. Repeats
    /// an old message behind the one that it could harm, with an event by `make`.
    pub(super) fn withhold(
        &mut self,
        now: Time,
        frames: Vec<u8>,
        make: &dyn Fn(Vec<u8>) -> ClusterEvent,
    ) -> Vec<u8> {
        if self.phase != ClusterPhase::Faults {
            return frames;
        }
        let mut left = Vec::with_capacity(frames.len());
        for (bytes, word) in transaction_frames(&frames) {
            let is_lost = word.as_ref().is_some_and(|word| self.is_decision_delayed(now, &word.message));
            if !is_lost {
                left.extend_from_slice(bytes);
            }
            if let Some(word) = word {
                if !is_lost && self.buries_orphan(&word.message) {
                    self.resume_clients(now);
                }
                self.echo(now, &word, make);
            }
        }
        left
    }

    /// Ends the clients' pause after the death of a coordinator, so that they retry.
    fn resume_clients(&mut self, now: Time) {
        if self.targeted_faults.clients_paused_until.take().is_none_or(|until| until <= now) {
            return;
        }
        for client in 0..self.clients.len() {
            let at = now.after_us(self.streams.node.below(CLIENT_PAUSE_US_MAX));
            if self.clients[client].paused_until > at {
                self.trace.record(now, format_args!("c{client} goes on at {}", at.0));
                self.clients[client].paused_until = at;
                self.schedule_client(client, at);
            }
        }
    }

    /// Whether a message is a decision that is withheld at this time.
    fn is_decision_delayed(&mut self, now: Time, message: &ProtocolMessage) -> bool {
        if !matches!(message.what, TransactionMessage::Commit { .. }) {
            return false;
        }
        self.targeted_faults.delayed_decisions.retain(|_, until| now < *until);
        self.targeted_faults.delivered_decisions.retain(|_, until| now < *until);
        // A dropped keyspace causes an error only if one of two remaining participants has received
        // the decision: what was done there stays.
        let alone = self.awaits_drop();
        let decision = (message.id, alone.then_some(message.to));
        if self.targeted_faults.delayed_decisions.contains_key(&decision) {
            return true;
        }
        if self.targeted_faults.delivered_decisions.contains_key(&decision)
            || self.targeted_faults.delayed_decisions.len() >= WITHHELD_DECISIONS_MAX
        {
            return false;
        }
        let until = match (self.scenario.client_pause, self.targeted_faults.deaf) {
            (Some((sleep, until)), _) if now < sleep && now.after_us(BEFORE_CLIENT_PAUSE_US) >= sleep => {
                Time(until.0.saturating_sub(BEFORE_WAKING_US))
            }
            (_, Some(deaf)) if now < deaf.until && deaf.concerns(message) => deaf.until,
            _ => return false,
        };
        let is_lost = match alone {
            true => message.to.point >= UPPER_HALF,
            false => self.streams.network.chance(1, 2),
        };
        self.trace.record(now, format_args!("DECISION of {:?} is heard: {}", message.id, !is_lost));
        if is_lost {
            self.coverage.commit("decisions heard late");
            if alone {
                self.drop_by(now.after_us(DROP_SOON_US));
            }
        }
        let drawn = if is_lost {
            &mut self.targeted_faults.delayed_decisions
        } else {
            &mut self.targeted_faults.delivered_decisions
        };
        drawn.insert(decision, until);
        is_lost
    }

    /// Remembers a `Drop` message, and repeats it when its transaction is prepared again.
    fn echo(&mut self, now: Time, word: &TransactionFrame<'_>, make: &dyn Fn(Vec<u8>) -> ClusterEvent) {
        let place = (word.message.id, word.message.to);
        match word.message.what {
            TransactionMessage::Drop { .. } => {
                if self.targeted_faults.drops.len() >= DROPS_MAX {
                    self.targeted_faults.drops.pop_first();
                }
                self.targeted_faults.drops.insert(place, word.frame.to_vec());
            }
            TransactionMessage::Prepare { .. }
                if self.scenario.has(FaultKind::Repeats) || self.scenario.has(FaultKind::Delays) =>
            {
                let Some(frame) = self.targeted_faults.drops.get(&place).cloned() else { return };
                self.trace.record(now, format_args!("OLD WORD that {:?} is over comes again", place.0));
                for _ in 0..ECHOES {
                    let at = now.after_us(self.streams.network.below(ECHOES_US));
                    self.event_queue.at(at, make(frame.clone()));
                }
            }
            _ => {}
        }
    }

    /// A keyspace of transactions is about to be split: some decisions are withheld in it until
    /// after the split.
    pub(super) fn target_split(&mut self, keyspace: KeyspaceId) {
        self.target_keyspace(keyspace, None, BEFORE_SPLIT_US + AFTER_SPLIT_US);
    }

    /// The second keyspace of transactions is about to be dropped: some of its decisions are
    /// withheld in the first until after the drop.
    pub(super) fn target_drop(&mut self, [left, dropped]: [KeyspaceId; 2]) {
        let until = self.target_keyspace(left, Some(dropped), BEFORE_DROP_US + AFTER_DROP_US);
        self.focus = Some((left, until));
    }

    /// Whether a keyspace is about to be dropped, or has just been, while its decisions are
    /// withheld in the other.
    fn awaits_drop(&self) -> bool {
        self.targeted_faults.deaf.is_some_and(|deaf| deaf.coordinators.is_some() && self.now() < deaf.until)
    }

    fn target_keyspace(
        &mut self,
        keyspace: KeyspaceId,
        coordinators: Option<KeyspaceId>,
        length_us: u64,
    ) -> Time {
        let until = self.now().after_us(length_us);
        self.targeted_faults.deaf = Some(UnreachableKeyspace { keyspace, coordinators, until });
        until
    }
}
