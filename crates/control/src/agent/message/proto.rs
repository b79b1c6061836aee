//! Messages between agents as Protocol Buffers, field by field as in `docs/protocols/control.proto`.

use prost::{Message, Oneof};

use crate::command::proto::{Managers, OutcomeProto, PartitionProto};

#[derive(Clone, PartialEq, Message)]
pub(super) struct AgentMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) cluster: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) from: String,
    #[prost(oneof = "BodyProto", tags = "3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13")]
    pub(super) body: Option<BodyProto>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum BodyProto {
    #[prost(message, tag = "3")]
    Raft(Raft),
    #[prost(bytes, tag = "4")]
    Gossip(Vec<u8>),
    #[prost(bytes, tag = "5")]
    Query(Vec<u8>),
    #[prost(message, tag = "6")]
    Answer(AnswerProto),
    #[prost(message, tag = "7")]
    MapRequest(MapRequest),
    #[prost(message, tag = "8")]
    MapPiece(MapPiece),
    #[prost(message, tag = "9")]
    Reports(Reports),
    #[prost(message, tag = "10")]
    Loads(Loads),
    #[prost(message, tag = "11")]
    BootstrapQuery(BootstrapQueryProto),
    #[prost(message, tag = "12")]
    BootstrapReply(BootstrapReplyProto),
    #[prost(message, tag = "13")]
    OtherCluster(OtherCluster),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Raft {
    #[prost(fixed64, tag = "1")]
    pub(super) from: u64,
    #[prost(fixed64, tag = "2")]
    pub(super) to: u64,
    #[prost(uint64, tag = "3")]
    pub(super) number: u64,
    #[prost(uint32, tag = "4")]
    pub(super) piece: u32,
    #[prost(uint32, tag = "5")]
    pub(super) pieces: u32,
    #[prost(bytes = "vec", tag = "6")]
    pub(super) bytes: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NewsProto {
    #[prost(uint64, tag = "1")]
    pub(super) mark: u64,
    #[prost(message, optional, tag = "2")]
    pub(super) managers: Option<Managers>,
    #[prost(fixed64, tag = "3")]
    pub(super) leader: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AnswerProto {
    #[prost(fixed64, tag = "1")]
    pub(super) origin: u64,
    #[prost(uint64, tag = "2")]
    pub(super) number: u64,
    /// 0 decided, 1 not the leader, 2 busy.
    #[prost(uint32, tag = "3")]
    pub(super) kind: u32,
    #[prost(message, optional, tag = "4")]
    pub(super) outcome: Option<OutcomeProto>,
    #[prost(message, required, tag = "5")]
    pub(super) news: NewsProto,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MapRequest {
    #[prost(uint32, tag = "1")]
    pub(super) node: u32,
    #[prost(bool, tag = "2")]
    pub(super) known: bool,
    #[prost(uint64, tag = "3")]
    pub(super) have: u64,
    #[prost(bool, tag = "4")]
    pub(super) is_confirmation: bool,
    #[prost(uint64, tag = "5")]
    pub(super) since: u64,
    #[prost(uint64, tag = "6")]
    pub(super) epoch: u64,
    #[prost(uint32, tag = "7")]
    pub(super) piece: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MapPiece {
    #[prost(message, required, tag = "1")]
    pub(super) news: NewsProto,
    #[prost(uint64, tag = "2")]
    pub(super) since: u64,
    #[prost(uint64, tag = "3")]
    pub(super) epoch: u64,
    #[prost(uint32, tag = "4")]
    pub(super) piece: u32,
    #[prost(uint32, tag = "5")]
    pub(super) pieces: u32,
    #[prost(bytes = "vec", tag = "6")]
    pub(super) bytes: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Reports {
    #[prost(uint32, tag = "1")]
    pub(super) by: u32,
    #[prost(message, repeated, tag = "2")]
    pub(super) about: Vec<StartProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StartProto {
    #[prost(uint32, tag = "1")]
    pub(super) node: u32,
    #[prost(fixed64, tag = "2")]
    pub(super) incarnation: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Loads {
    #[prost(message, repeated, tag = "1")]
    pub(super) loads: Vec<LoadProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LoadProto {
    #[prost(message, required, tag = "1")]
    pub(super) place: PartitionProto,
    #[prost(uint32, tag = "2")]
    pub(super) load: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BootstrapQueryProto {
    #[prost(fixed64, tag = "1")]
    pub(super) incarnation: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BootstrapReplyProto {
    #[prost(fixed64, tag = "1")]
    pub(super) incarnation: u64,
    #[prost(bool, tag = "2")]
    pub(super) is_bootstrapped: bool,
    #[prost(fixed64, tag = "3")]
    pub(super) expects: u64,
    #[prost(message, repeated, tag = "4")]
    pub(super) starts: Vec<BootstrapStartProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BootstrapStartProto {
    #[prost(string, tag = "1")]
    pub(super) member: String,
    #[prost(fixed64, tag = "2")]
    pub(super) incarnation: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OtherCluster {}
