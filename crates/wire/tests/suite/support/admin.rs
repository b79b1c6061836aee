//! Control requests and their answers: one at least of each kind, with every field set apart from its neighbours.

use zerohop_wire::admin::*;

/// Requests, each with its name and what it asks.
pub fn questions() -> Vec<(&'static str, &'static str, AdminQuestion)> {
    let keyspace = || "papers".to_owned();
    let settings = KeyspaceSettings {
        name: keyspace(),
        partitions: Some(64),
        hash: Some("xxh3".into()),
        replicas: Some(4),
        min_in_sync: Some(3),
        durability: Some("interval:50ms".into()),
        chunk_bytes: Some(65_536),
        split_at: Vec::new(),
        history_ms: None,
        history_bytes: None,
    };
    let divided = KeyspaceSettings {
        name: keyspace(),
        partitions: Some(3),
        hash: Some("ordered".into()),
        split_at: vec![b"m".to_vec(), b"n\0\xff".to_vec()],
        ..KeyspaceSettings::default()
    };
    let altered = KeyspaceSettings { name: keyspace(), replicas: Some(3), ..KeyspaceSettings::default() };
    let watched = KeyspaceSettings {
        name: keyspace(),
        history_ms: Some(3_600_000),
        history_bytes: Some(1 << 20),
        ..KeyspaceSettings::default()
    };
    let (drop, recover) = (
        |at_once, id, wait_ms| {
            AdminQuestion::DropKeyspace(KeyspaceDrop { name: keyspace(), at_once, id, wait_ms })
        },
        |keep_damaged| {
            AdminQuestion::RecoverPartition(PartitionRecover {
                keyspace: keyspace(),
                partition: 7,
                keep_damaged,
            })
        },
    );
    let moved = |node, instance| {
        AdminQuestion::MovePartition(PartitionMove { keyspace: keyspace(), partition: 7, node, instance })
    };
    let token = TokenPut { id: 0x0102_0304_0506_0708, name: "robot".into(), grants: vec![grant()] };
    vec![
        ("status", "how is the cluster", AdminQuestion::Status(StatusGet {})),
        ("create_keyspace", "every setting", AdminQuestion::CreateKeyspace(settings)),
        ("create_keyspace_divided", "at two keys", AdminQuestion::CreateKeyspace(divided)),
        ("alter_keyspace", "three copies", AdminQuestion::AlterKeyspace(altered)),
        ("alter_keyspace_history", "one hour, and 1 MiB a partition", AdminQuestion::AlterKeyspace(watched)),
        ("drop_keyspace", "once nothing is under way", drop(false, 0, None)),
        ("drop_keyspace_at_once", "whatever is under way", drop(true, 0, None)),
        ("drop_keyspace_again", "keyspace 4, for 1.5 s", drop(false, 4, Some(1500))),
        (
            "set_node_state",
            "node 3 drains",
            AdminQuestion::SetNodeState(NodeStateSet { node: 3, state: "draining".into() }),
        ),
        ("remove_node", "node 3", AdminQuestion::RemoveNode(NodeRemove { node: 3 })),
        (
            "list_partitions",
            "from 1024 on",
            AdminQuestion::ListPartitions(PartitionList { keyspace: keyspace(), first: 1024 }),
        ),
        ("move_partition", "to instance 5 of node 2", moved(Some(2), Some(5))),
        ("move_partition_anywhere", "wherever is best", moved(None, None)),
        ("recover_partition", "who is down will not return", recover(None)),
        ("recover_partition_damaged", "go on with the damaged copy", recover(Some(true))),
        ("recover_partition_other", "go on with another copy", recover(Some(false))),
        (
            "split_region",
            "at a key, with a sixteenth of the points on its left",
            AdminQuestion::SplitRegion(RegionSplit {
                keyspace: keyspace(),
                separator: b"n\0\xff".to_vec(),
                share: Some(16),
                region: None,
            }),
        ),
        (
            "split_region_named",
            "at a key, if region 3 has it",
            AdminQuestion::SplitRegion(RegionSplit {
                keyspace: keyspace(),
                separator: b"n".to_vec(),
                share: None,
                region: Some(3),
            }),
        ),
        (
            "acknowledge_losses",
            "of one keyspace, as of map epoch 9",
            AdminQuestion::AcknowledgeLosses(LossesAcknowledge { keyspace: keyspace(), map_epoch: 9 }),
        ),
        ("put_token", "with one grant", AdminQuestion::PutToken(token.clone())),
        (
            "lend_token",
            "for an hour",
            AdminQuestion::LendToken(DelegateToken { put: token, lasts_ms: 3_600_000 }),
        ),
        ("revoke_token", "by its name", AdminQuestion::RevokeToken(TokenRevoke { name: "robot".into() })),
        (
            "list_watches",
            "of one keyspace",
            AdminQuestion::ListWatches(WatchList { keyspace: "papers".into() }),
        ),
        ("list_tokens", "no fields", AdminQuestion::ListTokens(TokenList {})),
        (
            "set_managers",
            "on nodes 1, 2 and 4",
            AdminQuestion::SetManagers(ManagersSet { nodes: vec![1, 2, 4] }),
        ),
    ]
}

/// Answers, each with its name and what it says.
pub fn answers() -> Vec<(&'static str, &'static str, AdminReply)> {
    let keyspace = KeyspaceStatus {
        id: 2,
        name: "papers".into(),
        partitions: 64,
        hash: "xxh3".into(),
        replicas: 3,
        min_in_sync: 2,
        durability: "sync".into(),
        chunk_bytes: 65_536,
        below_min_in_sync: 4,
        rebuilding: 5,
        lost: 6,
        dropping: true,
        records: 0,
        log_bytes: 0,
        separators: Vec::new(),
        history: None,
    };
    let divided = KeyspaceStatus {
        id: 3,
        name: "events".into(),
        partitions: 3,
        hash: "ordered".into(),
        separators: vec![b"m".to_vec(), b"n\0\xff".to_vec()],
        ..KeyspaceStatus::default()
    };
    let watched = KeyspaceStatus {
        id: 4,
        name: "watched".into(),
        history: Some(KeyspaceHistory { ms: 60_000, bytes: 1 << 22 }),
        ..KeyspaceStatus::default()
    };
    let damaged = DamagedPartition {
        keyspace: "papers".into(),
        partition: 7,
        instance: 8,
        found: 9,
        named: vec!["segment 3".into()],
    };
    let instance = InstanceStatus {
        id: 8,
        addr: "i:1".into(),
        partitions: 10,
        entries: 11,
        log_bytes: 12,
        resident_bytes: 13,
        connections: 14,
    };
    let node = NodeStatus {
        id: 1,
        state: "up".into(),
        pid: 42,
        manager: "m:1".into(),
        instances: vec![instance],
        version: "0.1.0".into(),
        started_ms: 1_700_000_000_123,
        troubles: vec!["its disk is slow".into()],
        primaries: 15,
        in_sync: 16,
        following: 17,
        in_control: true,
        damaged: vec![damaged],
        disk_free_bytes: 0,
        disk_total_bytes: 0,
    };
    let groups = GroupsStatus {
        groups: 256,
        below_min_in_sync: 1,
        rebuilding: 2,
        moving: 3,
        recovering: 4,
        down: 5,
        lost: 6,
    };
    let view = NodeView {
        node: 1,
        leader: 2,
        age_ms: 1_500,
        quorum: true,
        managers: 3,
        answering: 2,
        silent: vec![3],
        no_primary: 4,
        stuck: 5,
        waits_for: "the present map".into(),
        warnings: vec!["no answer from node 3".into()],
        log_failed: 0,
        not_split: 0,
    };
    let status = Status {
        map_epoch: 7,
        cluster: (1..=16).collect(),
        nodes: vec![node],
        keyspaces: vec![keyspace.clone()],
        groups: Some(groups),
        view: None,
        descriptors: Vec::new(),
    };
    // Programs before these figures send and read the same bytes without them.
    let measured = Status {
        keyspaces: vec![KeyspaceStatus { records: 18, log_bytes: 19, ..KeyspaceStatus::default() }],
        ..Status::default()
    };
    let with_disk = NodeStatus { id: 1, disk_free_bytes: 18, disk_total_bytes: 19, ..NodeStatus::default() };
    let with_disk = Status { nodes: vec![with_disk], ..Status::default() };
    let descriptors =
        DescriptorStatus { node: 1, limit: 1024, connections_max: 720, connections: 3, refused: 4 };
    let with_descriptors = Status { descriptors: vec![descriptors], ..Status::default() };
    let viewed = Status { view: Some(view), ..Status::default() };
    let partition = PartitionStatus {
        partition: 5,
        epoch: 6,
        primary: 7,
        in_sync: vec![8, 9],
        followers: vec![10],
        state: "admitting".into(),
        lost: true,
        down: vec![9],
        pinned: Some(4),
    };
    let partitions = Partitions { partitions: vec![partition], count: 256, pins_known: true };
    let token = TokenStatus {
        id: 0x0102_0304_0506_0708,
        name: "robot".into(),
        grants: vec![grant()],
        ..TokenStatus::default()
    };
    let lent = TokenStatus { expires_ms: Some(1_800_000_000_000), has_expired: true, ..token.clone() };
    let watch = WatchStatus {
        instance: 1,
        keyspace: "papers".into(),
        token: Some("robot".into()),
        has_secret: true,
        address: "m:2".into(),
        from: b"a".to_vec(),
        to: b"b".to_vec(),
        prefix: b"a/".to_vec(),
        partitions: 64,
        changes_behind: 5,
        lag_ms: 1_500,
        gone: 2,
    };
    let watches = Watches { watches: vec![watch], total: 2, unreported: vec![3] };
    let refused = AdminRefusal {
        code: REFUSED_EXISTS.into(),
        reason: "there is a keyspace of this name".into(),
        keyspace: 4,
    };
    vec![
        ("refused", "a keyspace of this name", AdminReply::Refused(refused)),
        ("status", "of one node and one keyspace", AdminReply::Status(Box::new(status))),
        ("status_figures", "with the figures of a keyspace", AdminReply::Status(Box::new(measured))),
        ("status_disk", "the room on a node's disk", AdminReply::Status(Box::new(with_disk))),
        ("status_descriptors", "a node's descriptors", AdminReply::Status(Box::new(with_descriptors))),
        ("status_view", "of a node that has no answer from another", AdminReply::Status(Box::new(viewed))),
        ("keyspace", "with every field", AdminReply::Keyspace(Box::new(keyspace))),
        ("keyspace_divided", "at two keys", AdminReply::Keyspace(Box::new(divided))),
        ("keyspace_history", "one minute, and 4 MiB a partition", AdminReply::Keyspace(Box::new(watched))),
        ("done", "in map epoch 9", AdminReply::Done(AdminDone { map_epoch: 9, number: 4 })),
        ("partitions", "one of 256", AdminReply::Partitions(partitions)),
        ("watches", "one of two, with every field", AdminReply::Watches(watches)),
        ("tokens", "one", AdminReply::Tokens(Tokens { tokens: vec![token] })),
        ("tokens_lent", "one that has expired", AdminReply::Tokens(Tokens { tokens: vec![lent] })),
    ]
}

fn grant() -> TokenGrant {
    TokenGrant { keyspace: "papers".into(), permissions: 3 }
}
