//! Messages between agents, and their bytes: a version byte, then Protocol Buffers. The bytes are untrusted:
//! every length is compared with its limit before it is used.

use std::fmt;

use prost::Message as _;
use zerohop_placement::Address;
use zerohop_placement::limits::ADDRESS_BYTES_MAX;
use zerohop_wire::ids::{Incarnation, KeyspaceId, MapEpoch, NodeId, PartitionId};
use zerohop_wire::messages::ClusterId;

use crate::command::proto::PartitionProto;
use crate::command::{
    CommandOutcome, CommandRequest, ManagerId, ManagerInfo, RequestId, read_managers, write_managers,
};
use crate::limits::{
    AGENT_FRAME_BYTES_MAX, GOSSIP_DATAGRAM_BYTES_MAX, LOADS_REPORTED_MAX, MANAGERS_MAX, MAP_PIECES_MAX,
    MESSAGE_PIECES_MAX, PIECE_BYTES, REPORTS_MAX,
};

mod proto;
#[cfg(test)]
mod tests;

/// The version of this format, the first byte of every message.
const VERSION: u8 = 1;

/// A message between two agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The cluster of the sender; all zero if it does not know its cluster yet.
    pub cluster: ClusterId,
    /// The address of the sender; none in datagrams, which are not answered there.
    pub from: Option<Address>,
    /// The content.
    pub body: AgentBody,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentBody {
    /// A Raft message from one manager to another, or a piece of a long one.
    Raft {
        /// The sender.
        from: ManagerId,
        /// The receiver.
        to: ManagerId,
        /// Counts the sender's messages, so that pieces of two messages are not mixed.
        number: u64,
        /// The number of this piece.
        piece: u32,
        /// The number of pieces.
        pieces: u32,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// A datagram of gossip.
    Gossip(Vec<u8>),
    /// A command proposal for the leader.
    Propose(CommandRequest),
    /// The answer to a proposal.
    Answer {
        /// The id of the request.
        id: RequestId,
        /// The answer.
        answer: ProposalAnswer,
        /// The control group.
        news: ControlGroupNews,
    },
    /// A request for the map, or a confirmation of the epoch that the sender has.
    MapRequest {
        /// The sender, if it has a number.
        node: Option<NodeId>,
        /// The epoch that it has.
        have: MapEpoch,
        /// The piece that it needs of an unfinished transfer; none: everything that it lacks.
        piece: Option<DeltaPieceId>,
        /// The message only confirms the epoch.
        is_confirmation: bool,
    },
    /// A map, a delta, or the news that the map has changed.
    MapPiece {
        /// The control group, with the mark of the state that this map belongs to.
        news: ControlGroupNews,
        /// Which piece of which delta.
        piece: DeltaPieceId,
        /// The number of pieces; zero: the message has only the epoch.
        pieces: u32,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// Nodes that do not answer another node.
    Reports {
        /// The reporting node.
        by: NodeId,
        /// The nodes that do not answer, and the starts of them that are meant.
        about: Vec<(NodeId, Incarnation)>,
    },
    /// Loads of primaries.
    Loads(Vec<(KeyspaceId, PartitionId, u32)>),
    /// A bootstrap member without a log requests the state of another one.
    BootstrapRequest {
        /// The start of the sender.
        incarnation: Incarnation,
    },
    /// The state of a bootstrap member.
    BootstrapState {
        /// The start of the sender.
        incarnation: Incarnation,
        /// Whether it has a log, or knows of a map.
        is_bootstrapped: bool,
        /// The start of the requester that had been heard from at the bootstrap; zero if none.
        expects: Incarnation,
        /// If the sender bootstrapped in this start: all the starts that had been heard from.
        known_starts: Vec<(Address, Incarnation)>,
    },
    /// The receiver belongs to another cluster than the sender, which names its own.
    OtherCluster,
}

/// Names a piece of an encoded delta.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeltaPieceId {
    /// The epoch to which the changes apply; zero for a whole map.
    pub since: MapEpoch,
    /// The epoch to which they lead.
    pub epoch: MapEpoch,
    /// The number of the piece.
    pub piece: u32,
}

/// What a node knows of the control group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlGroupNews {
    /// The number of commands applied.
    pub applied_count: u64,
    /// The members at that mark.
    pub managers: Vec<ManagerInfo>,
    /// The leader.
    pub leader: Option<ManagerId>,
}

/// The answer that a requester gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProposalAnswer {
    /// The proposal is decided.
    Decided(CommandOutcome),
    /// The requester must contact the leader.
    NotLeader,
    /// The requester must retry later.
    Busy,
}

/// Bytes that are not a valid message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageError(String);

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a message between nodes: {}", self.0)
    }
}

impl std::error::Error for MessageError {}

fn wrong(what: impl fmt::Display) -> MessageError {
    MessageError(what.to_string())
}

impl Message {
    /// The bytes; `docs/protocols/control.proto`.
    pub fn encode(&self) -> Vec<u8> {
        let message = proto::AgentMessage {
            cluster: self.cluster.0.to_vec(),
            from: self.from.as_ref().map(|from| from.as_str().to_owned()).unwrap_or_default(),
            body: Some(write(&self.body)),
        };
        let mut bytes = Vec::with_capacity(1 + message.encoded_len());
        bytes.push(VERSION);
        bytes.extend(message.encode_to_vec());
        bytes
    }

    /// Reads what [`Message::encode`] wrote, and reports what is wrong with other bytes.
    ///
    /// # Errors
    /// If the bytes are not a message, or are too long.
    pub fn decode(bytes: &[u8]) -> Result<Message, MessageError> {
        let (version, rest) = bytes.split_first().ok_or_else(|| wrong("no bytes"))?;
        if *version != VERSION {
            return Err(wrong(format_args!("version {version}, and this program speaks {VERSION}")));
        }
        if bytes.len() > AGENT_FRAME_BYTES_MAX {
            return Err(wrong(format_args!("{} bytes are too many", bytes.len())));
        }
        let message = proto::AgentMessage::decode(rest).map_err(wrong)?;
        let cluster = message.cluster.try_into().map_err(|_| wrong("no name of a cluster"))?;
        let from = match message.from.as_str() {
            "" => None,
            from => Some(Address::new(from).map_err(wrong)?),
        };
        let body = read(message.body.ok_or_else(|| wrong("it says nothing known"))?)?;
        Ok(Message { cluster: ClusterId(cluster), from, body })
    }
}

/// Bytes of a message beside its longest field.
const OTHER_FIELDS_BYTES: usize = 1 << 10;

// A piece, with the control group and addresses, fits a frame.
const _: () = assert!(
    PIECE_BYTES + (crate::limits::MANAGERS_MAX + 1) * (ADDRESS_BYTES_MAX + 32) + OTHER_FIELDS_BYTES
        <= AGENT_FRAME_BYTES_MAX
);

fn write(body: &AgentBody) -> proto::BodyProto {
    match body {
        AgentBody::Raft { from, to, number, piece, pieces, bytes } => proto::BodyProto::Raft(proto::Raft {
            from: from.0,
            to: to.0,
            number: *number,
            piece: *piece,
            pieces: *pieces,
            bytes: bytes.clone(),
        }),
        AgentBody::Gossip(bytes) => proto::BodyProto::Gossip(bytes.clone()),
        AgentBody::Propose(request) => proto::BodyProto::Query(request.encode()),
        AgentBody::Answer { id, answer, news } => {
            let (kind, outcome) = match answer {
                ProposalAnswer::Decided(outcome) => (0, Some(outcome.to_proto())),
                ProposalAnswer::NotLeader => (1, None),
                ProposalAnswer::Busy => (2, None),
            };
            let RequestId { origin, number } = *id;
            proto::BodyProto::Answer(proto::AnswerProto {
                origin,
                number,
                kind,
                outcome,
                news: write_news(news),
            })
        }
        AgentBody::MapRequest { node, have, piece, is_confirmation } => {
            let of = piece.unwrap_or_default();
            proto::BodyProto::MapRequest(proto::MapRequest {
                node: node.unwrap_or_default().get(),
                known: node.is_some(),
                have: have.get(),
                is_confirmation: *is_confirmation,
                since: of.since.get(),
                epoch: of.epoch.get(),
                piece: of.piece,
            })
        }
        AgentBody::MapPiece { news, piece, pieces, bytes } => proto::BodyProto::MapPiece(proto::MapPiece {
            news: write_news(news),
            since: piece.since.get(),
            epoch: piece.epoch.get(),
            piece: piece.piece,
            pieces: *pieces,
            bytes: bytes.clone(),
        }),
        AgentBody::Reports { by, about } => {
            let start = |(node, incarnation): &(NodeId, Incarnation)| proto::StartProto {
                node: node.get(),
                incarnation: incarnation.get(),
            };
            proto::BodyProto::Reports(proto::Reports {
                by: by.get(),
                about: about.iter().map(start).collect(),
            })
        }
        AgentBody::Loads(loads) => {
            let load = |(keyspace, partition, load): &(KeyspaceId, PartitionId, u32)| proto::LoadProto {
                place: PartitionProto { keyspace: keyspace.get(), partition: partition.get() },
                load: *load,
            };
            proto::BodyProto::Loads(proto::Loads { loads: loads.iter().map(load).collect() })
        }
        AgentBody::BootstrapRequest { incarnation } => {
            proto::BodyProto::BootstrapQuery(proto::BootstrapQueryProto { incarnation: incarnation.get() })
        }
        AgentBody::BootstrapState { incarnation, is_bootstrapped, expects, known_starts: starts } => {
            let start = |(member, incarnation): &(Address, Incarnation)| proto::BootstrapStartProto {
                member: member.as_str().to_owned(),
                incarnation: incarnation.get(),
            };
            proto::BodyProto::BootstrapReply(proto::BootstrapReplyProto {
                incarnation: incarnation.get(),
                is_bootstrapped: *is_bootstrapped,
                expects: expects.get(),
                starts: starts.iter().map(start).collect(),
            })
        }
        AgentBody::OtherCluster => proto::BodyProto::OtherCluster(proto::OtherCluster {}),
    }
}

fn read(body: proto::BodyProto) -> Result<AgentBody, MessageError> {
    Ok(match body {
        proto::BodyProto::Raft(raft) => {
            check_piece(raft.piece, raft.pieces, MESSAGE_PIECES_MAX, &raft.bytes)?;
            AgentBody::Raft {
                from: ManagerId(raft.from),
                to: ManagerId(raft.to),
                number: raft.number,
                piece: raft.piece,
                pieces: raft.pieces,
                bytes: raft.bytes,
            }
        }
        proto::BodyProto::Gossip(bytes) if bytes.len() > GOSSIP_DATAGRAM_BYTES_MAX => {
            return Err(wrong("a datagram that is too long"));
        }
        proto::BodyProto::Gossip(bytes) => AgentBody::Gossip(bytes),
        proto::BodyProto::Query(request) => {
            AgentBody::Propose(CommandRequest::decode(&request).map_err(wrong)?)
        }
        proto::BodyProto::Answer(answer) => AgentBody::Answer {
            id: RequestId { origin: answer.origin, number: answer.number },
            answer: match (answer.kind, answer.outcome) {
                (0, Some(outcome)) => {
                    ProposalAnswer::Decided(CommandOutcome::from_proto(outcome).map_err(wrong)?)
                }
                (1, None) => ProposalAnswer::NotLeader,
                (2, None) => ProposalAnswer::Busy,
                (kind, _) => return Err(wrong(format_args!("no answer is of kind {kind}"))),
            },
            news: read_news(&answer.news)?,
        },
        proto::BodyProto::MapRequest(requested) => {
            let of = DeltaPieceId {
                since: MapEpoch(requested.since),
                epoch: MapEpoch(requested.epoch),
                piece: requested.piece,
            };
            AgentBody::MapRequest {
                node: requested.known.then_some(NodeId(requested.node)),
                have: MapEpoch(requested.have),
                piece: (of.epoch != MapEpoch(0)).then_some(of),
                is_confirmation: requested.is_confirmation,
            }
        }
        proto::BodyProto::MapPiece(piece) => {
            match piece.pieces {
                0 if piece.piece == 0 && piece.bytes.is_empty() => {}
                pieces => check_piece(piece.piece, pieces, MAP_PIECES_MAX, &piece.bytes)?,
            }
            let (since, epoch) = (MapEpoch(piece.since), MapEpoch(piece.epoch));
            AgentBody::MapPiece {
                news: read_news(&piece.news)?,
                piece: DeltaPieceId { since, epoch, piece: piece.piece },
                pieces: piece.pieces,
                bytes: piece.bytes,
            }
        }
        proto::BodyProto::Reports(reports) if reports.about.len() > REPORTS_MAX => {
            return Err(wrong("more reports than one message has"));
        }
        proto::BodyProto::Reports(reports) => {
            let about = reports.about.iter().map(|one| (NodeId(one.node), Incarnation(one.incarnation)));
            AgentBody::Reports { by: NodeId(reports.by), about: about.collect() }
        }
        proto::BodyProto::Loads(loads) if loads.loads.len() > LOADS_REPORTED_MAX => {
            return Err(wrong("more loads than one message has"));
        }
        proto::BodyProto::Loads(loads) => {
            let load = |one: &proto::LoadProto| {
                (KeyspaceId(one.place.keyspace), PartitionId(one.place.partition), one.load)
            };
            AgentBody::Loads(loads.loads.iter().map(load).collect())
        }
        proto::BodyProto::BootstrapQuery(query) => {
            AgentBody::BootstrapRequest { incarnation: Incarnation(query.incarnation) }
        }
        proto::BodyProto::BootstrapReply(is) if is.starts.len() > MANAGERS_MAX => {
            return Err(wrong("more bootstrap members than there may be"));
        }
        proto::BodyProto::BootstrapReply(is) => {
            let start = |one: &proto::BootstrapStartProto| {
                Ok((Address::new(&one.member).map_err(wrong)?, Incarnation(one.incarnation)))
            };
            AgentBody::BootstrapState {
                incarnation: Incarnation(is.incarnation),
                is_bootstrapped: is.is_bootstrapped,
                expects: Incarnation(is.expects),
                known_starts: is.starts.iter().map(start).collect::<Result<_, MessageError>>()?,
            }
        }
        proto::BodyProto::OtherCluster(_) => AgentBody::OtherCluster,
    })
}

fn check_piece(piece: u32, pieces: u32, pieces_max: usize, bytes: &[u8]) -> Result<(), MessageError> {
    if piece >= pieces || pieces as usize > pieces_max {
        return Err(wrong(format_args!("piece {piece} of {pieces}")));
    }
    // All pieces but the last are full, so that pieces show the length of the complete message before it is
    // there.
    let is_last = piece + 1 == pieces;
    if bytes.len() > PIECE_BYTES || bytes.is_empty() || (!is_last && bytes.len() != PIECE_BYTES) {
        return Err(wrong(format_args!("a piece of {} bytes", bytes.len())));
    }
    Ok(())
}

fn write_news(news: &ControlGroupNews) -> proto::NewsProto {
    proto::NewsProto {
        mark: news.applied_count,
        managers: Some(write_managers(&news.managers)),
        leader: news.leader.map_or(0, |leader| leader.0),
    }
}

fn read_news(news: &proto::NewsProto) -> Result<ControlGroupNews, MessageError> {
    Ok(ControlGroupNews {
        applied_count: news.mark,
        managers: match &news.managers {
            Some(managers) => read_managers(managers).map_err(wrong)?,
            None => Vec::new(),
        },
        leader: (news.leader != 0).then_some(ManagerId(news.leader)),
    })
}
