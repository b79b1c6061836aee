//! Counts the messages of transactions between instances, so that a case that no longer occurs is
//! noticed.
//!
//! It observes traffic between instances only. Messages between partitions of one instance are not
//! counted, nor is the log of a group that has one member.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_partition::transaction_entry;
use zerohop_transaction::{
    Message as ProtocolMessage, Reason, RoutingKey, TransactionEntry, TransactionId, TransactionMessage,
};
use zerohop_wire::messages::{PeerBody, PeerMessage};
use zerohop_wire::{DecodeResult, Decoder, Features, Message};

use super::SimulatedCluster;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Commits {
    running: BTreeMap<TransactionId, ObservedCommit>,
    /// Every `Prepare` that was sent, to count repeated ones.
    prepares_sent: BTreeSet<(TransactionId, (u64, u64), RoutingKey)>,
    /// Outcome queries without an answer: transaction, and the participant that asks.
    questions: BTreeSet<(TransactionId, RoutingKey)>,
    /// Transactions that a log aborts because a participant asked about them and the coordinator
    /// did not know them.
    unknown: BTreeSet<TransactionId>,
    /// Transactions without an observed decision when the process of their coordinator ended.
    orphans: BTreeSet<TransactionId>,
}

/// A transaction that is being decided, as far as messages show.
#[derive(Debug)]
struct ObservedCommit {
    /// The node of its coordinator.
    host: usize,
    stage: ObservedStage,
    /// Participants that were asked to prepare in the present attempt, and those that have
    /// prepared.
    prepares_sent: BTreeSet<RoutingKey>,
    prepared: BTreeSet<RoutingKey>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObservedStage {
    SideBySide,
    InChain,
    SendingDecision,
}

/// The kind of transaction message in some frames; the rarest kind, if there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FrameContent {
    Nothing,
    /// From a participant, or of little consequence.
    Something,
    Prepare,
    Commit,
    Drop,
}

impl FrameContent {
    fn by(message: &ProtocolMessage) -> FrameContent {
        match message.what {
            TransactionMessage::Prepare { .. } => FrameContent::Prepare,
            TransactionMessage::Commit { .. } => FrameContent::Commit,
            TransactionMessage::Drop { .. } => FrameContent::Drop,
            _ => FrameContent::Something,
        }
    }
}

/// The transaction that a log entry aborts because its coordinator did not know it.
fn unknown(entry: TransactionEntry) -> Option<TransactionId> {
    match entry {
        TransactionEntry::Abort { id, refusal, .. } if refusal.reason == Reason::Unknown => Some(id),
        _ => None,
    }
}

/// At most so many transactions are followed; beyond that, the one with the lowest id is dropped.
const FOLLOWED_MAX: usize = 4_096;

impl SimulatedCluster {
    /// Observes frames between two instances. Returns the rarest kind of transaction message, with
    /// its frame.
    pub(super) fn watch_commits<'f>(&mut self, host: usize, frames: &'f [u8]) -> (FrameContent, &'f [u8]) {
        let decoder = Decoder::with_version(zerohop_wire::GREETING_VERSION, Features::default());
        let (mut rest, mut content) = (frames, (FrameContent::Nothing, &frames[..0]));
        while let DecodeResult::Frame { frame, used } = decoder.decode(rest) {
            let mut scratch = Vec::new();
            match frame.message(&mut scratch) {
                Ok(Message::Peer(PeerMessage { body: PeerBody::Transaction(bytes), .. })) => {
                    if let Ok(message) = ProtocolMessage::decode(bytes) {
                        self.watch_commit(host, &message);
                        content = content.max((FrameContent::by(&message), &rest[..used]));
                    }
                }
                Ok(Message::Peer(PeerMessage { body: PeerBody::Replicate { entries, .. }, .. })) => {
                    let logged = entries.iter().filter_map(|entry| transaction_entry(&entry));
                    self.commits.unknown.extend(logged.filter_map(unknown));
                }
                _ => {}
            }
            rest = &rest[used..];
        }
        content
    }

    fn watch_commit(&mut self, host: usize, message: &ProtocolMessage) {
        let ProtocolMessage { to, from, id, ref what } = *message;
        let commits = &mut self.commits;
        let mut count = |what| self.coverage.commit(what);
        match what {
            TransactionMessage::Prepare { attempt, chain, parts, .. } => {
                if !commits.prepares_sent.insert((id, (attempt.epoch.0, attempt.counter), to)) {
                    count("prepares repeated");
                }
                let stage = if *chain { ObservedStage::InChain } else { ObservedStage::SideBySide };
                if from == id.coordinator {
                    let running =
                        ObservedCommit { host, stage, prepares_sent: [].into(), prepared: [].into() };
                    let running = commits.running.entry(id).or_insert(running);
                    if running.stage != stage {
                        count("chains");
                        (running.stage, running.prepares_sent, running.prepared) =
                            (stage, [].into(), [].into());
                    }
                    running.host = host;
                    running.prepares_sent.extend(parts.iter().map(|part| part.routing_key));
                }
                if commits.running.len() > FOLLOWED_MAX {
                    commits.running.pop_first();
                }
            }
            TransactionMessage::Prepared { .. } => {
                if let Some(running) = commits.running.get_mut(&id) {
                    running.prepared.insert(from);
                }
            }
            TransactionMessage::Busy { .. } => count("answers that something is in the way"),
            TransactionMessage::Refused { .. } => count("prepares refused"),
            TransactionMessage::Query { .. } => {
                count("questions asked");
                commits.questions.insert((id, from));
            }
            TransactionMessage::Commit { .. } => {
                if commits.questions.remove(&(id, to)) {
                    count("questions answered: decided");
                }
                if let Some(running) = commits.running.get_mut(&id) {
                    (running.stage, running.host) = (ObservedStage::SendingDecision, host);
                }
            }
            TransactionMessage::Release { .. } => {
                if commits.questions.remove(&(id, to)) {
                    count("questions answered: superseded");
                }
            }
            TransactionMessage::Drop { .. } => {
                if commits.questions.remove(&(id, to)) {
                    count(match commits.unknown.contains(&id) {
                        true => "questions answered: unknown",
                        false => "questions answered: over",
                    });
                }
                commits.running.remove(&id);
            }
            TransactionMessage::Applied { .. } => {
                if let Some(running) = commits.running.get_mut(&id) {
                    running.prepares_sent.remove(&from);
                    if running.prepares_sent.is_empty() {
                        commits.running.remove(&id);
                    }
                }
            }
            TransactionMessage::NotPrepared { .. } => count("decisions not known"),
            TransactionMessage::Released { .. } => {}
        }
    }

    /// Whether this message tells a participant that asked that a transaction is over whose
    /// coordinator had died while it ran.
    pub(super) fn buries_orphan(&self, message: &ProtocolMessage) -> bool {
        let Commits { questions, orphans, .. } = &self.commits;
        matches!(message.what, TransactionMessage::Drop { .. })
            && orphans.contains(&message.id)
            && questions.contains(&(message.id, message.to))
    }

    /// A process ends, or its node stops serving: its undecided transactions become orphans.
    pub(super) fn watch_coordinators(&mut self, host: usize) {
        let commits = &mut self.commits;
        for (id, running) in commits.running.iter().filter(|(_, running)| running.host == host) {
            if running.stage != ObservedStage::SendingDecision {
                commits.orphans.insert(*id);
            }
            let has_all = running.prepares_sent.is_subset(&running.prepared);
            self.coverage.commit(match running.stage {
                ObservedStage::SendingDecision => "coordinators failed: notifying",
                _ if has_all => "coordinators failed: all prepared",
                ObservedStage::SideBySide => "coordinators failed: side by side",
                ObservedStage::InChain => "coordinators failed: in a chain",
            });
        }
        commits.running.retain(|_, running| running.host != host);
    }
}
