//! Requests and replies survive a round trip, and have the bytes of the specification.

use super::*;

fn settings() -> KeyspaceSettings {
    KeyspaceSettings {
        name: "papers".into(),
        partitions: Some(64),
        durability: Some("sync".into()),
        ..KeyspaceSettings::default()
    }
}

#[test]
fn requests_and_answers_read_back() {
    for query in [
        AdminQuestion::Status(StatusGet {}),
        AdminQuestion::CreateKeyspace(settings()),
        AdminQuestion::AlterKeyspace(settings()),
        AdminQuestion::DropKeyspace(KeyspaceDrop {
            name: "papers".into(),
            at_once: true,
            id: 7,
            wait_ms: Some(300),
        }),
        AdminQuestion::SetNodeState(NodeStateSet { node: 3, state: "draining".into() }),
        AdminQuestion::RemoveNode(NodeRemove { node: 3 }),
        AdminQuestion::ListPartitions(PartitionList { keyspace: "papers".into(), first: 1024 }),
        AdminQuestion::MovePartition(PartitionMove { node: Some(2), ..PartitionMove::default() }),
        AdminQuestion::RecoverPartition(PartitionRecover {
            keyspace: "papers".into(),
            partition: 7,
            keep_damaged: None,
        }),
        AdminQuestion::AcknowledgeLosses(LossesAcknowledge { keyspace: "papers".into(), map_epoch: 9 }),
        AdminQuestion::SplitRegion(RegionSplit {
            keyspace: "papers".into(),
            separator: b"m".to_vec(),
            share: Some(1),
            region: Some(4),
        }),
        AdminQuestion::PutToken(TokenPut {
            id: 7,
            name: "robot".into(),
            grants: vec![TokenGrant::default()],
        }),
        AdminQuestion::LendToken(DelegateToken { put: TokenPut::default(), lasts_ms: 3_600_000 }),
        AdminQuestion::RevokeToken(TokenRevoke { name: "robot".into() }),
        AdminQuestion::ListTokens(TokenList {}),
        AdminQuestion::ListWatches(WatchList { keyspace: "papers".into() }),
        AdminQuestion::SetManagers(ManagersSet { nodes: vec![1, 2, 4] }),
    ] {
        let request = AdminRequest::of(query);
        assert_eq!(AdminRequest::from_bytes(&request.to_bytes()), Ok(request));
    }
    let status = Status {
        map_epoch: 7,
        cluster: vec![1; 16],
        nodes: vec![NodeStatus { id: 1, state: "up".into(), pid: 42, ..NodeStatus::default() }],
        keyspaces: vec![KeyspaceStatus { id: 1, name: "default".into(), ..KeyspaceStatus::default() }],
        groups: Some(GroupsStatus { groups: 256, below_min_in_sync: 2, ..GroupsStatus::default() }),
        view: Some(NodeView { node: 1, silent: vec![2, 3], ..NodeView::default() }),
        descriptors: vec![DescriptorStatus {
            node: 1,
            limit: 1024,
            refused: 3,
            ..DescriptorStatus::default()
        }],
    };
    let partition =
        PartitionStatus { partition: 5, in_sync: vec![1, 2], pinned: Some(4), ..PartitionStatus::default() };
    for answer in [
        AdminAnswer::of(AdminReply::Status(Box::new(status))),
        AdminAnswer::of(AdminReply::Done(AdminDone { map_epoch: 9, number: 4 })),
        AdminAnswer::of(AdminReply::Partitions(Partitions {
            partitions: vec![partition],
            count: 256,
            pins_known: true,
        })),
        AdminAnswer::of(AdminReply::Tokens(Tokens { tokens: vec![TokenStatus::default()] })),
        AdminAnswer::of(AdminReply::Watches(Watches {
            watches: vec![WatchStatus { gone: 1, ..WatchStatus::default() }],
            total: 2,
            unreported: vec![3],
        })),
        AdminAnswer::refused(REFUSED_EXISTS, "there is a keyspace of this name"),
    ] {
        assert_eq!(AdminAnswer::from_bytes(&answer.to_bytes()), Ok(answer));
    }
}

#[test]
fn the_bytes_are_those_of_the_specification() {
    // create_keyspace (field 2, 16 bytes): name (1), partitions (2), durability (6).
    let request = AdminRequest::of(AdminQuestion::CreateKeyspace(settings()));
    assert_eq!(request.to_bytes(), b"\x12\x10\x0a\x06papers\x10\x40\x32\x04sync");
    let refused = AdminAnswer::refused(REFUSED_FAILED, "no");
    assert_eq!(refused.to_bytes(), b"\x0a\x0c\x0a\x06failed\x12\x02no");
}

#[test]
fn invalid_admin_bytes_are_refused() {
    assert_eq!(AdminRequest::from_bytes(b"\x12\xff"), Err(BadRequestReason::NotAdmin.into()));
    let long = vec![0; ADMIN_BYTES_MAX + 1];
    assert!(matches!(AdminAnswer::from_bytes(&long), Err(Failure::FrameTooLong { .. })));
    // A request of a newer program has a question that this program does not know.
    assert_eq!(AdminRequest::from_bytes(b"\x9a\x06\x00"), Ok(AdminRequest { query: None }));
}
