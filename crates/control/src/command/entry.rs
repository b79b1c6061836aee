//! An entry of the log: one request, or several changes of groups that become one change of the map.

use prost::Message;

use super::{CommandError, CommandRequest, ControlCommand, proto};
use crate::limits::{BATCH_REQUESTS_MAX, COMMAND_BYTES_MAX};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// One request.
    One(CommandRequest),
    /// Requests whose commands are all [`ControlCommand::Regroup`], 1 to [`BATCH_REQUESTS_MAX`] of them.
    /// Managers of programs that do not know batches cannot read it.
    Batch(Vec<CommandRequest>),
}

impl Entry {
    /// The bytes; `docs/protocols/control.proto`.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Entry::One(request) => request.encode(),
            Entry::Batch(requests) => {
                let batch = requests.iter().map(CommandRequest::encode).collect();
                proto::RequestProto { batch, ..proto::RequestProto::default() }.encode_to_vec()
            }
        }
    }

    /// Reads what [`Entry::encode`] wrote, and reports what is wrong with other bytes.
    ///
    /// # Errors
    /// If the bytes are neither a request nor a batch of changes of groups.
    pub fn decode(bytes: &[u8]) -> Result<Entry, CommandError> {
        if bytes.len() > COMMAND_BYTES_MAX {
            return Err(CommandError::new(format!("{} bytes, of at most {COMMAND_BYTES_MAX}", bytes.len())));
        }
        let entry =
            proto::RequestProto::decode(bytes).map_err(|error| CommandError::new(error.to_string()))?;
        if entry.batch.is_empty() {
            return CommandRequest::from_proto(entry).map(Entry::One);
        }
        if entry.batch.len() > BATCH_REQUESTS_MAX {
            let count = entry.batch.len();
            return Err(CommandError::new(format!("{count} requests, of at most {BATCH_REQUESTS_MAX}")));
        }
        if entry.command.is_some() || (entry.origin, entry.number, entry.after) != (0, 0, 0) {
            return Err(CommandError::new("both a request and a batch of them"));
        }
        let mut requests = Vec::with_capacity(entry.batch.len());
        for bytes in &entry.batch {
            let request = CommandRequest::decode(bytes)?;
            if !matches!(request.command, ControlCommand::Regroup(_)) {
                return Err(CommandError::new("a batch contains a command that changes no group"));
            }
            requests.push(request);
        }
        Ok(Entry::Batch(requests))
    }

    /// The requests in it, in the order in which they are applied.
    pub fn requests(&self) -> &[CommandRequest] {
        match self {
            Entry::One(request) => std::slice::from_ref(request),
            Entry::Batch(requests) => requests,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerohop_wire::ids::{Incarnation, InstanceId, KeyspaceId, PartitionEpoch, PartitionId};

    use super::super::tests::commands;
    use super::super::{GroupStep, Regroup, RegroupOrigin, RequestId};
    use super::*;

    fn regroup(number: u64) -> CommandRequest {
        let regroup = Regroup {
            keyspace: KeyspaceId(3),
            partition: PartitionId(number as u32),
            epoch: PartitionEpoch(8),
            by: RegroupOrigin::Instance(InstanceId(1), Incarnation(2)),
            step: GroupStep::Admit(InstanceId(11)),
        };
        CommandRequest {
            id: RequestId { origin: 1, number },
            after: 3,
            command: ControlCommand::Regroup(regroup),
        }
    }

    #[test]
    fn entries_round_trip_and_single_request_keeps_the_old_format() {
        for count in [1, 2, 320] {
            let entry = Entry::Batch((1..=count).map(regroup).collect());
            assert_eq!(Entry::decode(&entry.encode()), Ok(entry));
        }
        for (number, command) in (0..).zip(commands()) {
            let request = CommandRequest { id: RequestId { origin: 77, number }, after: 5, command };
            assert_eq!(Entry::decode(&request.encode()), Ok(Entry::One(request.clone())));
            assert_eq!(Entry::One(request.clone()).encode(), request.encode());
        }
    }

    /// Field 18 for each request: the key as two bytes, the length, the request.
    #[test]
    fn golden_bytes_of_a_batch() {
        let one = [
            0x09, 1, 0, 0, 0, 0, 0, 0, 0, 0x10, 2, 0x18, 3, 0x5a, 25, 0x0a, 4, 0x08, 3, 0x10, 2, 0x10, 8,
            0x1a, 11, 0x08, 1, 0x11, 2, 0, 0, 0, 0, 0, 0, 0, 0x20, 1, 0x28, 11,
        ];
        let mut other = one;
        (other[10], other[20]) = (4, 4);
        let golden = [&[0x92, 1, 40][..], &one, &[0x92, 1, 40], &other].concat();
        let batch = Entry::Batch(vec![regroup(2), regroup(4)]);
        assert_eq!(batch.encode(), golden);
        assert_eq!(Entry::decode(&golden), Ok(batch));
    }

    #[test]
    fn invalid_regroup_batch_is_refused() {
        let why = |bytes: &[u8]| Entry::decode(bytes).expect_err("is refused").to_string();
        for command in commands().into_iter().filter(|one| !matches!(one, ControlCommand::Regroup(_))) {
            let other = CommandRequest { id: RequestId::default(), after: 0, command };
            assert!(why(&Entry::Batch(vec![regroup(1), other]).encode()).contains("changes no group"));
        }
        let batch = Entry::Batch(vec![regroup(1), regroup(2)]).encode();
        let nested = proto::RequestProto { batch: vec![batch.clone()], ..proto::RequestProto::default() };
        assert!(why(&nested.encode_to_vec()).contains("where one is expected"));
        assert!(CommandRequest::decode(&batch).is_err(), "a requester names one request");
        let both = [regroup(1).encode(), batch].concat();
        assert!(why(&both).contains("both a request and a batch"));
        let many = Entry::Batch((0..=BATCH_REQUESTS_MAX as u64).map(regroup).collect());
        assert!(why(&many.encode()).contains("2049 requests, of at most 2048"));
        assert!(why(&vec![0; COMMAND_BYTES_MAX + 1]).contains("at most"));
        assert!(Entry::decode(&[]).is_err());
    }

    proptest! {
        #[test]
        fn changed_bytes_never_panic(
            edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        ) {
            let mut bytes = Entry::Batch((1..4).map(regroup).collect()).encode();
            for (at, value) in edits {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            if let Ok(entry) = Entry::decode(&bytes) {
                prop_assert_eq!(Entry::decode(&entry.encode()), Ok(entry));
            }
        }
    }
}
