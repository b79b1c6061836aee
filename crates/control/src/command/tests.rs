//! Encoded commands decode to the same value, and other bytes are refused.

use std::collections::BTreeSet;

use proptest::prelude::*;
use zerohop_placement::{Grant, Permissions};
use zerohop_wire::ids::MapEpoch;

use super::*;
use crate::golden::{assert_golden, fields_in, fields_of, pinned_bytes};
use crate::limits::REFUSAL_BYTES_MAX;

fn address(text: &str) -> Address {
    Address::new(text).unwrap()
}

/// One of each kind.
pub(crate) fn commands() -> Vec<ControlCommand> {
    let config = KeyspaceConfig::new("papers".parse().unwrap(), 7);
    let (keyspace, partition) = (KeyspaceId(3), PartitionId(4));
    let join = JoinNode {
        node: Some(NodeId(1)),
        replaces: Incarnation(5),
        incarnation: Incarnation(6),
        manager: address("m:1"),
        instances: vec![address("i:1"), address("i:2")],
        domain: 9,
        capacity: 100,
        intact: true,
        closed: false,
    };
    let regroup = |by, step| {
        ControlCommand::Regroup(Regroup { keyspace, partition, epoch: PartitionEpoch(8), by, step })
    };
    let instance = InstanceId(11);
    let by = RegroupOrigin::Instance(InstanceId(1), Incarnation(2));
    let log = LogReport {
        keyspace,
        partition,
        epoch: PartitionEpoch(3),
        instance,
        end: LogEnd { epoch: 2, index: LogIndex(77) },
        intact: true,
    };
    let grant = Grant { keyspace, permissions: Permissions::from_bits(3).unwrap() };
    let token = TokenEntry::new(9, "robot".parse().unwrap(), vec![grant]).unwrap();
    vec![
        ControlCommand::Join(join.clone()),
        ControlCommand::Join(JoinNode { node: None, ..join.clone() }),
        ControlCommand::Join(JoinNode { closed: true, ..join }),
        ControlCommand::SetNodeState { node: NodeId(1), incarnation: Incarnation(2), state: NodeState::Down },
        ControlCommand::RemoveNode(NodeId(1)),
        ControlCommand::CreateKeyspace(config.clone()),
        ControlCommand::AlterKeyspace(keyspace, config),
        ControlCommand::DropKeyspace(keyspace),
        ControlCommand::BeginDropKeyspace(keyspace),
        ControlCommand::Drained(KeyspaceDrained { keyspace, instance: InstanceId(7), map: MapEpoch(8) }),
        ControlCommand::SplitKeyspace(keyspace),
        regroup(by, GroupStep::Admit(instance)),
        regroup(by, GroupStep::Exclude(instance)),
        regroup(by, GroupStep::RaiseEpoch),
        regroup(RegroupOrigin::Control, GroupStep::AddFollower { instance, target: false }),
        regroup(RegroupOrigin::Control, GroupStep::AddFollower { instance, target: true }),
        regroup(RegroupOrigin::Control, GroupStep::RemoveFollower(instance)),
        regroup(RegroupOrigin::Control, GroupStep::Promote(instance)),
        regroup(RegroupOrigin::Control, GroupStep::Demote(instance)),
        regroup(RegroupOrigin::Control, GroupStep::Leave(instance)),
        ControlCommand::ReportLogs(LogIndexReport {
            node: NodeId(1),
            incarnation: Incarnation(2),
            logs: vec![log, log],
        }),
        ControlCommand::Recover { keyspace, partition, damaged: None },
        ControlCommand::Recover { keyspace, partition, damaged: Some(RecoverySource::Damaged) },
        ControlCommand::Recover { keyspace, partition, damaged: Some(RecoverySource::Follower) },
        ControlCommand::AcknowledgeLosses { keyspace, until: MapEpoch(8) },
        ControlCommand::Move(MovePartition {
            keyspace,
            partition,
            to: Some(NodeId(0)),
            instance: Some(InstanceId(0)),
        }),
        ControlCommand::Move(MovePartition { keyspace, partition, to: None, instance: None }),
        ControlCommand::PutToken(token.clone()),
        ControlCommand::PutToken(token.until(1_800_000_000_000)),
        ControlCommand::RemoveToken(9),
        ControlCommand::ExpireToken { token: 9, at_ms: 1_800_000_000_000 },
        ControlCommand::SetManagers(vec![ManagerInfo { id: ManagerId(1), addr: address("m:1") }]),
        ControlCommand::SplitRegion(RegionSplit {
            keyspace,
            region: partition,
            separator: (*b"m").into(),
            share: 128,
        }),
        ControlCommand::BeginSplit { keyspace, split: PendingSplit::Keyspace },
        ControlCommand::BeginSplit {
            keyspace,
            split: PendingSplit::Region { region: partition, separator: (*b"m").into(), share: 128 },
        },
        ControlCommand::CancelSplit(keyspace),
    ]
}

#[test]
fn commands_round_trip() {
    for (number, command) in (0..).zip(commands()) {
        let request = CommandRequest { id: RequestId { origin: 77, number }, after: 5, command };
        assert_eq!(CommandRequest::decode(&request.encode()), Ok(request));
    }
}

/// Every later program must read the bytes in a log.
#[test]
fn commands_match_golden_bytes_and_decode() {
    const PINNED: &str = include_str!("golden/commands.hex");
    let id = RequestId { origin: 0x0102_0304_0506_0708, number: 300 };
    let request = |command| CommandRequest { id, after: 5, command };
    let mut fields = BTreeSet::new();
    assert_golden(
        PINNED,
        commands().into_iter().map(|command| {
            let bytes = request(command.clone()).encode();
            fields.extend(fields_in(&bytes));
            (format!("{command:?}"), bytes)
        }),
    );
    assert!(fields_of("command").is_subset(&fields), "some command has no golden bytes");
    let read: Vec<_> = pinned_bytes(PINNED).map(|bytes| CommandRequest::decode(&bytes).unwrap()).collect();
    assert_eq!(read, commands().into_iter().map(request).collect::<Vec<_>>());
}

/// Outcomes are stored in snapshots, and sent to requesters.
#[test]
fn outcomes_match_golden_bytes_and_decode() {
    const PINNED: &str = include_str!("golden/outcomes.hex");
    let outcomes = || results().into_iter().map(|result| CommandOutcome { result, applied_count: 12 });
    let shown = |outcome: &CommandOutcome| match &outcome.result {
        Ok(done) => format!("{done:?}"),
        Err(refusal) => format!("{refusal:?}"),
    };
    assert_golden(PINNED, outcomes().map(|outcome| (shown(&outcome), outcome.encode())));
    let read: Vec<_> = pinned_bytes(PINNED).map(|bytes| CommandOutcome::decode(&bytes).unwrap()).collect();
    assert_eq!(read, outcomes().collect::<Vec<_>>());
}

/// The first bytes of a log, field by field.
#[test]
fn golden_bytes_are_written_and_read() {
    let regroup = Regroup {
        keyspace: KeyspaceId(3),
        partition: PartitionId(4),
        epoch: PartitionEpoch(8),
        by: RegroupOrigin::Instance(InstanceId(1), Incarnation(2)),
        step: GroupStep::Admit(InstanceId(11)),
    };
    let request = CommandRequest {
        id: RequestId { origin: 1, number: 2 },
        after: 3,
        command: ControlCommand::Regroup(regroup),
    };
    let golden = [
        0x09, 1, 0, 0, 0, 0, 0, 0, 0, 0x10, 2, 0x18, 3, 0x5a, 25, 0x0a, 4, 0x08, 3, 0x10, 4, 0x10, 8, 0x1a,
        11, 0x08, 1, 0x11, 2, 0, 0, 0, 0, 0, 0, 0, 0x20, 1, 0x28, 11,
    ];
    let bytes = request.encode();
    assert_eq!(bytes, golden);
    let (keyspace, instance, map) = (KeyspaceId(3), InstanceId(7), MapEpoch(8));
    let drops = [
        (ControlCommand::BeginDropKeyspace(keyspace), &[0x80, 1, 3][..]),
        (
            ControlCommand::Drained(KeyspaceDrained { keyspace, instance, map }),
            &[0x8a, 1, 6, 0x08, 3, 0x10, 7, 0x18, 8],
        ),
    ];
    for (command, golden) in drops {
        let bytes = CommandRequest { command, ..request.clone() }.encode();
        assert_eq!(bytes[13..], *golden);
    }
}

/// One of each kind.
fn results() -> Vec<Result<CommandResult, CommandRefusal>> {
    let mut results = vec![
        Ok(CommandResult { number: 4, epoch: MapEpoch(9) }),
        Err(CommandRefusal::StaleEpoch { now: PartitionEpoch(7) }),
        Err(CommandRefusal::Map("a map has rules".to_owned())),
    ];
    for number in (2..=20).chain([22]) {
        let outcome = proto::OutcomeProto { refusal: number, ..proto::OutcomeProto::default() };
        results.push(CommandOutcome::from_proto(outcome).unwrap().result);
    }
    results
}

#[test]
fn long_refusals_keep_all_that_is_allowed() {
    let text = |why: String| {
        let outcome = CommandOutcome { result: Err(CommandRefusal::Map(why)), applied_count: 12 };
        match CommandOutcome::decode(&outcome.encode()).unwrap().result {
            Err(CommandRefusal::Map(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(text("x".repeat(REFUSAL_BYTES_MAX)), "x".repeat(REFUSAL_BYTES_MAX));
    let cut = text(format!("x{}", "\u{e9}".repeat(REFUSAL_BYTES_MAX)));
    assert_eq!(cut.len(), REFUSAL_BYTES_MAX - 1, "no character is cut in two");
}

#[test]
fn outcomes_round_trip() {
    for result in results() {
        let outcome = CommandOutcome { result, applied_count: 12 };
        assert_eq!(CommandOutcome::decode(&outcome.encode()), Ok(outcome));
    }
}

proptest! {
    #[test]
    fn changed_bytes_never_panic(
        which: prop::sample::Index,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        random in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let commands = commands();
        let command = commands[which.index(commands.len())].clone();
        let mut bytes = CommandRequest { id: RequestId::default(), after: 0, command }.encode();
        for (at, value) in edits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        for bytes in [bytes, random] {
            if let Ok(request) = CommandRequest::decode(&bytes) {
                prop_assert_eq!(CommandRequest::decode(&request.encode()), Ok(request));
            }
            let _ = CommandOutcome::decode(&bytes);
        }
    }
}
