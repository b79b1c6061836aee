//! Commands and outcomes as Protocol Buffers, field by field as in `docs/protocols/control.proto`.

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestProto {
    #[prost(fixed64, tag = "1")]
    pub(crate) origin: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) number: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) after: u64,
    #[prost(
        oneof = "CommandProto",
        tags = "4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 20, 21, 22, 23, 24, 25, 26"
    )]
    pub(crate) command: Option<CommandProto>,
    /// Encoded requests, in an entry of several; all other fields are unset then.
    #[prost(bytes = "vec", repeated, tag = "18")]
    pub(crate) batch: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum CommandProto {
    #[prost(message, tag = "4")]
    Join(JoinProto),
    #[prost(message, tag = "5")]
    SetNodeState(SetNodeState),
    #[prost(uint32, tag = "6")]
    RemoveNode(u32),
    #[prost(bytes, tag = "7")]
    CreateKeyspace(Vec<u8>),
    #[prost(bytes, tag = "8")]
    AlterKeyspace(Vec<u8>),
    #[prost(uint32, tag = "9")]
    DropKeyspace(u32),
    #[prost(uint32, tag = "10")]
    SplitKeyspace(u32),
    #[prost(message, tag = "11")]
    Regroup(RegroupProto),
    #[prost(message, tag = "12")]
    LogIndexes(LogIndexReportProto),
    #[prost(message, tag = "13")]
    Recover(Recover),
    #[prost(message, tag = "14")]
    SetManagers(Managers),
    #[prost(message, tag = "15")]
    Move(MoveProto),
    #[prost(uint32, tag = "16")]
    BeginDropKeyspace(u32),
    #[prost(message, tag = "17")]
    Drained(DrainedProto),
    #[prost(message, tag = "23")]
    AcknowledgeLosses(AcknowledgeLosses),
    /// One `put token`.
    #[prost(bytes, tag = "20")]
    PutToken(Vec<u8>),
    #[prost(fixed64, tag = "21")]
    RemoveToken(u64),
    #[prost(message, tag = "22")]
    ExpireToken(ExpireToken),
    /// One `split region`.
    #[prost(bytes, tag = "24")]
    SplitRegion(Vec<u8>),
    /// One `begin split of keyspace` or `begin split of region`.
    #[prost(bytes, tag = "25")]
    BeginSplit(Vec<u8>),
    #[prost(uint32, tag = "26")]
    CancelSplit(u32),
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ExpireToken {
    #[prost(fixed64, tag = "1")]
    pub(crate) token: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) at_ms: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct AcknowledgeLosses {
    #[prost(uint32, tag = "1")]
    pub(crate) keyspace: u32,
    #[prost(uint64, tag = "2")]
    pub(crate) until: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DrainedProto {
    #[prost(uint32, tag = "1")]
    pub(crate) keyspace: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) instance: u32,
    #[prost(uint64, tag = "3")]
    pub(crate) map: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MoveProto {
    #[prost(message, required, tag = "1")]
    pub(crate) place: PartitionProto,
    #[prost(uint32, optional, tag = "2")]
    pub(crate) to: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(crate) instance: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct JoinProto {
    /// One `put node`; its id is valid only if `known` is set.
    #[prost(bytes, tag = "1")]
    pub(crate) node: Vec<u8>,
    #[prost(bool, tag = "2")]
    pub(crate) known: bool,
    #[prost(fixed64, tag = "3")]
    pub(crate) replaces: u64,
    #[prost(uint32, tag = "4")]
    pub(crate) domain: u32,
    #[prost(uint32, tag = "5")]
    pub(crate) capacity: u32,
    #[prost(bool, tag = "6")]
    pub(crate) intact: bool,
    /// Older programs never set it: the logs of their restarted nodes may have lost the end.
    #[prost(bool, tag = "7")]
    pub(crate) closed: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SetNodeState {
    #[prost(uint32, tag = "1")]
    pub(crate) node: u32,
    #[prost(fixed64, tag = "2")]
    pub(crate) incarnation: u64,
    /// 0 up, 1 draining, 2 down.
    #[prost(uint32, tag = "3")]
    pub(crate) state: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PartitionProto {
    #[prost(uint32, tag = "1")]
    pub(crate) keyspace: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) partition: u32,
}

/// Starts like [`PartitionProto`], which older programs wrote.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Recover {
    #[prost(uint32, tag = "1")]
    pub(crate) keyspace: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) partition: u32,
    /// 0: members are down. Else the only copy is damaged, and the group continues with 1 that copy, 2
    /// another.
    #[prost(uint32, tag = "3")]
    pub(crate) damaged: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RegroupProto {
    #[prost(message, required, tag = "1")]
    pub(crate) place: PartitionProto,
    #[prost(uint64, tag = "2")]
    pub(crate) epoch: u64,
    /// The requester; unset for the control group.
    #[prost(message, optional, tag = "3")]
    pub(crate) by: Option<Instance>,
    /// 1 admit, 2 exclude, 3 add a follower, 4 add the target of a move, 5 remove a follower, 6 promote, 7 demote,
    /// 8 leave, 9 keep (no instance).
    #[prost(uint32, tag = "4")]
    pub(crate) step: u32,
    #[prost(uint32, tag = "5")]
    pub(crate) instance: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Instance {
    #[prost(uint32, tag = "1")]
    pub(crate) id: u32,
    #[prost(fixed64, tag = "2")]
    pub(crate) incarnation: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LogIndexReportProto {
    #[prost(uint32, tag = "1")]
    pub(crate) node: u32,
    #[prost(fixed64, tag = "2")]
    pub(crate) incarnation: u64,
    #[prost(message, repeated, tag = "3")]
    pub(crate) logs: Vec<ReportedLogProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ReportedLogProto {
    #[prost(message, required, tag = "1")]
    pub(crate) place: PartitionProto,
    #[prost(uint64, tag = "2")]
    pub(crate) epoch: u64,
    #[prost(uint32, tag = "3")]
    pub(crate) instance: u32,
    #[prost(uint64, tag = "4")]
    pub(crate) end_epoch: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) end_index: u64,
    #[prost(bool, tag = "6")]
    pub(crate) intact: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Managers {
    #[prost(message, repeated, tag = "1")]
    pub(crate) managers: Vec<ManagerProto>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ManagerProto {
    #[prost(fixed64, tag = "1")]
    pub(crate) id: u64,
    #[prost(string, tag = "2")]
    pub(crate) addr: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OutcomeProto {
    #[prost(uint64, tag = "1")]
    pub(crate) mark: u64,
    /// 0: done; else the number of a refusal.
    #[prost(uint32, tag = "2")]
    pub(crate) refusal: u32,
    #[prost(uint64, tag = "3")]
    pub(crate) number: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) map_epoch: u64,
    #[prost(string, tag = "5")]
    pub(crate) text: String,
}
