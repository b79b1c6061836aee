//! Transactions are hunted: those who decide one die just then, what is said of one comes again long after it was said, and
//! somebody hears of a decision only once its session is forgotten, his partition is split, or its coordinator's keyspace is to go. By
//! chance it would befall one of thousands.
//!
//! | what befalls | what must have no consequence |
//! | --- | --- |
//! | a coordinator dies, and clients stand still until others have asked about what it ran, and ask again then | that whoever goes on knows nothing of it |
//! | what was said to be over is said so again when its transaction is prepared again | the old word |
//! | decisions of before a sleep are heard after it | that their sessions are forgotten |
//! | a keyspace is split while decisions are not heard in it | that one of two halves hears first |
//! | a keyspace is dropped while decisions are not heard in the other | that those who decide are to go |

use std::collections::BTreeMap;

use zerohop_base::time::Time;
use zerohop_transaction::{Message as Told, RoutingKey, TransactionId, TransactionMessage};
use zerohop_wire::ids::KeyspaceId;
use zerohop_wire::messages::{Call, PeerMessage};
use zerohop_wire::{DecodeResult, Decoder, Features, Message};

use super::commits::FrameContent;
use super::faults::ClusterFault;
use super::kinds::FaultKind;
use super::{ClusterEvent, ClusterPhase, SimulatedCluster};
use crate::streams::Draw;

const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;

/// Of so many that ask others to prepare, or tell a decision, one dies within so long, and then none for so long.
const COORDINATORS_OF: u64 = 40;
const DIES_WITHIN_US: u64 = 30 * MS;
const REST_US: u64 = 4 * SECOND;

/// Clients stand still for so long then, at most: others ask after a second, of whoever goes on after the one who has died. Once
/// one of them was told that it is over, they go on so soon.
const CLIENTS_STAND_US: (u64, u64) = (2 * SECOND, 5 * SECOND);
const CLIENTS_GO_ON_US: u64 = 30 * MS;

/// Of so many words of transactions, where messages are repeated at all, one comes again so much later, at most.
const WORDS_OF: u64 = 25;
const AGAIN_US: u64 = 2 * SECOND;

/// That something is over is said seldom: it comes again so often, within so long; and so often within so long once its
/// transaction is prepared again.
const DROPS_AGAIN: u64 = 3;
const DROPS_AGAIN_US: u64 = 800 * MS;
const ECHOES: u64 = 4;
const ECHOES_US: u64 = 25 * MS;

/// So many words that something is over are remembered.
const DROPS_MAX: usize = 256;

/// A decision of which others are to hear only after a sleep falls so long before it, and is heard so long before its end.
const BEFORE_SLEEP_US: u64 = 2 * SECOND;
const BEFORE_WAKING_US: u64 = 5 * SECOND;

/// For so long before a split is asked for decisions are not heard in a keyspace, and so long after that.
pub(super) const BEFORE_SPLIT_US: u64 = 1_200 * MS;
const AFTER_SPLIT_US: u64 = 2_500 * MS;

/// The same for a drop, which is asked for so soon after a decision is not heard, or so late if none is. After it there is time for
/// one that is done at once.
pub(super) const BEFORE_DROP_US: u64 = 6 * SECOND;
const DROP_SOON_US: u64 = 250 * MS;
const AFTER_DROP_US: u64 = 4 * SECOND;

/// Places from here on do not hear what is decided where all is to be dropped.
const UPPER_HALF: u64 = 1 << 63;

/// So many decisions are not heard at a time, at most.
const UNHEARD_MAX: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct TargetedFaults {
    /// No coordinator is struck before then.
    again: Time,
    /// Decisions of which nobody else hears before then.
    unheard: BTreeMap<UnheardDecision, Time>,
    /// Decisions that are heard, as was drawn.
    heard: BTreeMap<UnheardDecision, Time>,
    deaf: Option<DeafKeyspace>,
    /// Until when clients stand still at most, as a coordinator has died.
    standing: Option<Time>,
    /// Frames that told somebody that something is over.
    drops: BTreeMap<(TransactionId, RoutingKey), Vec<u8>>,
}

/// A frame that says something of a transaction.
struct TransactionFrame<'f> {
    told: Told,
    frame: &'f [u8],
}

/// What is not heard of a transaction: by nobody, or by one alone.
type UnheardDecision = (TransactionId, Option<RoutingKey>);

/// A keyspace in which some decisions are not heard: of coordinators that are to go, if it says so.
#[derive(Clone, Copy, Debug)]
struct DeafKeyspace {
    keyspace: KeyspaceId,
    coordinators: Option<KeyspaceId>,
    until: Time,
}

impl DeafKeyspace {
    fn concerns(&self, told: &Told) -> bool {
        told.to.keyspace == self.keyspace
            && self.coordinators.is_none_or(|one| one == told.id.coordinator.keyspace)
    }
}

/// Frames, each with what it says of a transaction, if it does.
fn words(frames: &[u8]) -> impl Iterator<Item = (&[u8], Option<TransactionFrame<'_>>)> {
    let decoder = Decoder::agreed(zerohop_wire::GREETING_VERSION, Features::default());
    let mut rest = frames;
    std::iter::from_fn(move || {
        let DecodeResult::Frame { frame, used } = decoder.decode(rest) else { return None };
        let bytes = &rest[..used];
        rest = &rest[used..];
        let mut scratch = Vec::new();
        let told = match frame.message(&mut scratch) {
            Ok(Message::Peer(PeerMessage { call: Call::Transaction(told), .. })) => Told::decode(told).ok(),
            _ => None,
        };
        Some((bytes, told.map(|told| TransactionFrame { told, frame: bytes })))
    })
}

impl SimulatedCluster {
    /// One instance is about to say something of a transaction to one on another node; `make` says that alone again.
    pub(super) fn hunt(
        &mut self,
        now: Time,
        (from, to): (usize, usize),
        said: FrameContent,
        make: &dyn Fn() -> ClusterEvent,
    ) {
        if self.phase != ClusterPhase::Faults {
            return;
        }
        if self.scenario.has(FaultKind::Repeats) {
            let is_again = self.streams.network.chance(1, WORDS_OF);
            let (count, within_us) = match said {
                FrameContent::Drop => (DROPS_AGAIN, DROPS_AGAIN_US),
                _ => (u64::from(is_again), AGAIN_US),
            };
            for _ in 0..count {
                let at = now.after_us(self.streams.network.below(within_us));
                self.agenda.at(at, make());
            }
        }
        let is_coordinator = matches!(said, FrameContent::Prepare | FrameContent::Commit);
        let may_die = is_coordinator
            && now >= self.hunts.again
            && self.scenario.has(FaultKind::Kills)
            && self.is_stormy(now);
        if may_die && from != to && self.streams.node.chance(1, COORDINATORS_OF) {
            self.hunts.again = now.after_us(REST_US);
            let (at, life) = (now.after_us(self.streams.node.below(DIES_WITHIN_US)), self.hosts[from].life);
            self.agenda.at(at, ClusterEvent::Fault(ClusterFault::Kill { host: from, life }));
            if self.scenario.has(FaultKind::ClientPauses) && self.streams.node.chance(1, 2) {
                let until = at.after_us(self.streams.node.between(CLIENTS_STAND_US.0, CLIENTS_STAND_US.1));
                (0..self.clients.len()).for_each(|client| self.pause_client(client, until));
                self.hunts.standing = Some(until);
            }
        }
    }

    /// What is left of frames that one instance sends to another: decisions that are not to be heard yet are lost. What was said
    /// long ago is said again behind what it may harm, as `make` tells it.
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
        for (bytes, word) in words(&frames) {
            let is_lost = word.as_ref().is_some_and(|word| self.is_unheard(now, &word.told));
            if !is_lost {
                left.extend_from_slice(bytes);
            }
            if let Some(word) = word {
                if !is_lost && self.buries_orphan(&word.told) {
                    self.clients_go_on(now);
                }
                self.echo(now, &word, make);
            }
        }
        left
    }

    /// Whoever has asked a dead coordinator for something asks again, if all stand still because of that.
    fn clients_go_on(&mut self, now: Time) {
        if self.hunts.standing.take().is_none_or(|until| until <= now) {
            return;
        }
        for client in 0..self.clients.len() {
            let at = now.after_us(self.streams.node.below(CLIENTS_GO_ON_US));
            if self.clients[client].paused_until > at {
                self.trace.say(now, format_args!("c{client} goes on at {}", at.0));
                self.clients[client].paused_until = at;
                self.wake_client(client, at);
            }
        }
    }

    /// Whether a word is a decision that is not to be heard yet.
    fn is_unheard(&mut self, now: Time, told: &Told) -> bool {
        if !matches!(told.what, TransactionMessage::Commit { .. }) {
            return false;
        }
        self.hunts.unheard.retain(|_, until| now < *until);
        self.hunts.heard.retain(|_, until| now < *until);
        // That a keyspace has gone shows only where one of two places that are left has heard: what was done there stays.
        let alone = self.awaits_drop();
        let decision = (told.id, alone.then_some(told.to));
        if self.hunts.unheard.contains_key(&decision) {
            return true;
        }
        if self.hunts.heard.contains_key(&decision) || self.hunts.unheard.len() >= UNHEARD_MAX {
            return false;
        }
        let until = match (self.scenario.sleep, self.hunts.deaf) {
            (Some((sleep, until)), _) if now < sleep && now.after_us(BEFORE_SLEEP_US) >= sleep => {
                Time(until.0.saturating_sub(BEFORE_WAKING_US))
            }
            (_, Some(deaf)) if now < deaf.until && deaf.concerns(told) => deaf.until,
            _ => return false,
        };
        let is_lost = match alone {
            true => told.to.point >= UPPER_HALF,
            false => self.streams.network.chance(1, 2),
        };
        self.trace.say(now, format_args!("DECISION of {:?} is heard: {}", told.id, !is_lost));
        if is_lost {
            self.coverage.commit("decisions heard late");
            if alone {
                self.drop_by(now.after_us(DROP_SOON_US));
            }
        }
        let drawn = if is_lost { &mut self.hunts.unheard } else { &mut self.hunts.heard };
        drawn.insert(decision, until);
        is_lost
    }

    /// Remembers what was said to be over, and says it again when it is prepared again.
    fn echo(&mut self, now: Time, word: &TransactionFrame<'_>, make: &dyn Fn(Vec<u8>) -> ClusterEvent) {
        let place = (word.told.id, word.told.to);
        match word.told.what {
            TransactionMessage::Drop { .. } => {
                if self.hunts.drops.len() >= DROPS_MAX {
                    self.hunts.drops.pop_first();
                }
                self.hunts.drops.insert(place, word.frame.to_vec());
            }
            TransactionMessage::Prepare { .. }
                if self.scenario.has(FaultKind::Repeats) || self.scenario.has(FaultKind::Delays) =>
            {
                let Some(frame) = self.hunts.drops.get(&place).cloned() else { return };
                self.trace.say(now, format_args!("OLD WORD that {:?} is over comes again", place.0));
                for _ in 0..ECHOES {
                    let at = now.after_us(self.streams.network.below(ECHOES_US));
                    self.agenda.at(at, make(frame.clone()));
                }
            }
            _ => {}
        }
    }

    /// A keyspace of transactions is about to be split: until after that some decisions are not heard in it.
    pub(super) fn hunt_in_split(&mut self, keyspace: KeyspaceId) {
        self.hunt_in(keyspace, None, BEFORE_SPLIT_US + AFTER_SPLIT_US);
    }

    /// The second of both keyspaces of transactions is about to be dropped: until after that some that are decided there are not
    /// heard of in the first.
    pub(super) fn hunt_in_drop(&mut self, [left, dropped]: [KeyspaceId; 2]) {
        let until = self.hunt_in(left, Some(dropped), BEFORE_DROP_US + AFTER_DROP_US);
        self.focus = Some((left, until));
    }

    /// Whether a keyspace is about to be dropped, or has just been, while decisions are not heard in the other.
    fn awaits_drop(&self) -> bool {
        self.hunts.deaf.is_some_and(|deaf| deaf.coordinators.is_some() && self.now() < deaf.until)
    }

    fn hunt_in(&mut self, keyspace: KeyspaceId, coordinators: Option<KeyspaceId>, length_us: u64) -> Time {
        let until = self.now().after_us(length_us);
        self.hunts.deaf = Some(DeafKeyspace { keyspace, coordinators, until });
        until
    }
}
