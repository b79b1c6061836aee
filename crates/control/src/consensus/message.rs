//! Encoded messages between managers: the fields of the raft crate's messages, in a format of our own. So no outside
//! bytes reach the old Protocol Buffers library that the raft crate is built on.

use prost::Message as _;
use raft::eraftpb::{ConfState, Entry, Message, MessageType, Snapshot};

use super::reads::READS;
use super::record::{entry_type, number_of};
use crate::limits::MESSAGE_BYTES_MAX;

#[derive(Clone, PartialEq, prost::Message)]
struct RaftMessage {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(fixed64, tag = "2")]
    to: u64,
    #[prost(fixed64, tag = "3")]
    from: u64,
    #[prost(uint64, tag = "4")]
    term: u64,
    #[prost(uint64, tag = "5")]
    log_term: u64,
    #[prost(uint64, tag = "6")]
    index: u64,
    #[prost(message, repeated, tag = "7")]
    entries: Vec<EntryProto>,
    #[prost(uint64, tag = "8")]
    commit: u64,
    #[prost(uint64, tag = "9")]
    commit_term: u64,
    #[prost(message, optional, tag = "10")]
    snapshot: Option<RaftSnapshotProto>,
    #[prost(uint64, tag = "11")]
    request_snapshot: u64,
    #[prost(bool, tag = "12")]
    reject: bool,
    #[prost(uint64, tag = "13")]
    reject_hint: u64,
    #[prost(bytes = "vec", tag = "14")]
    context: Vec<u8>,
    #[prost(int64, tag = "15")]
    priority: i64,
    /// What the sender can read beyond the basic format; zero from older programs.
    #[prost(uint32, tag = "16")]
    reads: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct EntryProto {
    #[prost(uint64, tag = "1")]
    index: u64,
    #[prost(uint64, tag = "2")]
    term: u64,
    #[prost(uint32, tag = "3")]
    kind: u32,
    #[prost(bytes = "vec", tag = "4")]
    context: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    data: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RaftSnapshotProto {
    #[prost(uint64, tag = "1")]
    index: u64,
    #[prost(uint64, tag = "2")]
    term: u64,
    #[prost(fixed64, repeated, tag = "3")]
    voters: Vec<u64>,
    #[prost(fixed64, repeated, tag = "4")]
    learners: Vec<u64>,
    #[prost(bytes = "vec", tag = "5")]
    data: Vec<u8>,
}

/// The messages that are sent, by their numbers in this format, which never change. The other kinds stay
/// within a manager.
const KINDS: [MessageType; 11] = [
    MessageType::MsgAppend,
    MessageType::MsgAppendResponse,
    MessageType::MsgRequestVote,
    MessageType::MsgRequestVoteResponse,
    MessageType::MsgSnapshot,
    MessageType::MsgHeartbeat,
    MessageType::MsgHeartbeatResponse,
    MessageType::MsgTransferLeader,
    MessageType::MsgTimeoutNow,
    MessageType::MsgRequestPreVote,
    MessageType::MsgRequestPreVoteResponse,
];

/// Encodes a message; none for a kind that is not sent.
pub(super) fn encode(message: &Message) -> Option<Vec<u8>> {
    let kind = KINDS.iter().position(|kind| *kind == message.get_msg_type())?;
    let entries = message.get_entries().iter().map(|entry| EntryProto {
        index: entry.index,
        term: entry.term,
        kind: u32::from(number_of(entry.get_entry_type())),
        context: entry.context.to_vec(),
        data: entry.data.to_vec(),
    });
    let snapshot = message.has_snapshot().then(|| {
        let (snapshot, meta) = (message.get_snapshot(), message.get_snapshot().get_metadata());
        RaftSnapshotProto {
            index: meta.index,
            term: meta.term,
            voters: meta.get_conf_state().get_voters().to_vec(),
            learners: meta.get_conf_state().get_learners().to_vec(),
            data: snapshot.data.to_vec(),
        }
    });
    let sent = RaftMessage {
        kind: kind as u32,
        to: message.to,
        from: message.from,
        term: message.term,
        log_term: message.log_term,
        index: message.index,
        entries: entries.collect(),
        commit: message.commit,
        commit_term: message.commit_term,
        snapshot,
        request_snapshot: message.request_snapshot,
        reject: message.reject,
        reject_hint: message.reject_hint,
        context: message.context.to_vec(),
        priority: message.priority,
        reads: READS,
    };
    Some(sent.encode_to_vec())
}

/// Reads what [`encode`] wrote, and what the sender can read; none for other bytes.
pub(super) fn decode(bytes: &[u8]) -> Option<(Message, u32)> {
    if bytes.len() > MESSAGE_BYTES_MAX {
        return None;
    }
    let sent = RaftMessage::decode(bytes).ok()?;
    let mut message = Message::default();
    message.set_msg_type(*KINDS.get(sent.kind as usize)?);
    message.to = sent.to;
    message.from = sent.from;
    message.term = sent.term;
    message.log_term = sent.log_term;
    message.index = sent.index;
    let mut entries = Vec::new();
    for one in sent.entries {
        let mut entry = Entry { index: one.index, term: one.term, ..Entry::default() };
        entry.set_entry_type(entry_type(u8::try_from(one.kind).ok()?)?);
        entry.context = one.context.into();
        entry.data = one.data.into();
        entries.push(entry);
    }
    message.set_entries(entries.into());
    message.commit = sent.commit;
    message.commit_term = sent.commit_term;
    if let Some(one) = sent.snapshot {
        let mut snapshot = Snapshot::default();
        let meta = snapshot.mut_metadata();
        meta.index = one.index;
        meta.term = one.term;
        let mut conf = ConfState::default();
        conf.set_voters(one.voters);
        conf.set_learners(one.learners);
        meta.set_conf_state(conf);
        snapshot.data = one.data.into();
        message.set_snapshot(snapshot);
    }
    message.request_snapshot = sent.request_snapshot;
    message.reject = sent.reject;
    message.reject_hint = sent.reject_hint;
    message.context = sent.context.into();
    message.priority = sent.priority;
    Some((message, sent.reads))
}
