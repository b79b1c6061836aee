//! Invalid transactions, as frames that no client of this project would send. Each is refused for
//! the right reason, changes nothing, and blocks no other request.

use zerohop_server::Server;
use zerohop_transaction::codec::encode_parts;
use zerohop_transaction::{
    Access, Durability, ItemBody, Items, RoutingKey, StageId, TransactionItem, TransactionPart,
};
use zerohop_wire::ids::{InstanceId, KeyspaceId, Sequence, SessionId};
use zerohop_wire::messages::{
    Condition, Increment, Query, RecordOperation, RecordRead, RecordWrite, Wait, WriteChange,
};
use zerohop_wire::{AbortReason, Failure, pack};

use crate::server::support::{block_on, client, create, fixed_ports, on};
use crate::server::transactions::{NodeClient, coordinator, insert};

fn reason(failure: &Failure<'_>) -> AbortReason {
    match failure {
        Failure::Aborted { reason, .. } => *reason,
        other => panic!("{other:?}"),
    }
}

/// The items of a part.
fn items(part: &mut TransactionPart) -> &mut Vec<TransactionItem> {
    match &mut part.items {
        Items::Inline(items) => items,
        Items::Staged(_) => panic!("nothing is staged"),
    }
}

/// How a valid transaction of two parts is made invalid.
type PartsDefect = fn(&mut Vec<TransactionPart>);

#[test]
fn malformed_or_oversized_transactions_abort_without_effect() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(on(folder.path(), fixed_ports())).unwrap();
    let keyspace = block_on(async { create(&client(&server).await, "accounts", Some("sync")).await });
    let mut node = NodeClient::of(&server, KeyspaceId(keyspace.id));
    let (one, other) = (node.key(InstanceId(1), 0), node.key(InstanceId(2), 0));
    let last = coordinator(&node, &[&one, &other]).to_owned();
    let good = node.parts(Durability::Sync, &[(&one, insert("a")), (&other, insert("b"))]);
    let spoilt: [(PartsDefect, AbortReason); 13] = [
        (Vec::clear, AbortReason::Malformed),
        (|parts| parts.reverse(), AbortReason::Malformed),
        (|parts| parts.insert(0, parts[0].clone()), AbortReason::Malformed),
        (|parts| items(&mut parts[0])[0].lock_key ^= 1, AbortReason::Malformed),
        (|parts| items(&mut parts[1])[0].lock_key ^= 1, AbortReason::Malformed),
        (|parts| items(&mut parts[0])[0].access = Access::Read, AbortReason::Malformed),
        (|parts| items(&mut parts[1])[0].access = Access::Transform(1), AbortReason::Malformed),
        (
            |parts| items(&mut parts[0])[0].body = ItemBody::Inline(vec![0xFF; 2].into()),
            AbortReason::Malformed,
        ),
        (|parts| items(&mut parts[0])[0].body = ItemBody::Staged(absent_piece()), AbortReason::StagedGone),
        (|parts| parts[1].items = Items::Staged(absent_piece()), AbortReason::StagedGone),
        (
            |parts| {
                let item = items(&mut parts[0])[0].clone();
                items(&mut parts[0]).extend(vec![item; 16_384]);
            },
            AbortReason::Malformed,
        ),
        (
            |parts| {
                let item = items(&mut parts[0])[0].clone();
                let long = TransactionItem { body: ItemBody::Inline(vec![0; 300 << 10].into()), ..item };
                items(&mut parts[0]).extend(vec![long; 4]);
            },
            AbortReason::TooLong,
        ),
        (
            |parts| {
                let place = RoutingKey { keyspace: KeyspaceId(77), ..parts[0].routing_key };
                parts.insert(
                    0,
                    TransactionPart {
                        routing_key: place,
                        durability: Durability::Memory,
                        ..parts[0].clone()
                    },
                );
            },
            AbortReason::Misplaced,
        ),
    ];
    let mut sequence = 0;
    for (at, (spoil, expected)) in spoilt.into_iter().enumerate() {
        let mut parts = good.clone();
        spoil(&mut parts);
        sequence += 1;
        let instance = node.transact(sequence, &last, &parts);
        let failure = node.outcome(instance).unwrap_err();
        assert_eq!(reason(&failure), expected, "{at}: {failure:?}");
        assert_eq!((node.value(&one), node.value(&other)), (None, None), "{at}");
    }

    // Arbitrary bytes, and every prefix of valid ones.
    let encoded = encode_parts(&good);
    let beginnings = (0..encoded.len()).step_by(7).map(|length| encoded[..length].to_vec());
    for bytes in beginnings.chain([vec![0xFF; 64], vec![0; 64], [&encoded[..], &[0]].concat()]) {
        sequence += 1;
        let instance = node.transact_bytes(sequence, &last, &bytes);
        let failure = node.outcome(instance).unwrap_err();
        assert_eq!(reason(&failure), AbortReason::Malformed, "{bytes:?}: {failure:?}");
    }

    // A wait among its items; a coordinator that is not the last partition.
    let mut parts = good.clone();
    let wait = Query::Wait(Wait { until: zerohop_wire::messages::WaitUntil::Present });
    let mut bytes = Vec::new();
    pack(&RecordOperation::Read(RecordRead { key: one.as_bytes(), query: wait }), &mut bytes).unwrap();
    let of_one = parts.iter_mut().find(|part| part.routing_key != good[1].routing_key).unwrap();
    items(of_one)[0].body = ItemBody::Inline(bytes.into());
    items(of_one)[0].access = Access::Read;
    sequence += 1;
    let instance = node.transact(sequence, &last, &parts);
    assert_eq!(reason(&node.outcome(instance).unwrap_err()), AbortReason::Malformed);
    let first = if last == one { other.clone() } else { one.clone() };
    sequence += 1;
    let instance = node.transact(sequence, &first, &good);
    assert!(node.outcome(instance).is_err());

    // After all that no lock is left, and no record is there.
    assert_eq!((node.value(&one), node.value(&other)), (None, None));
    sequence += 1;
    let write = RecordWrite {
        key: one.as_bytes(),
        condition: Condition::IfAbsent,
        change: WriteChange::Increment(Increment { delta: 1 }),
    };
    let parts = node.parts(Durability::Sync, &[(&one, write.change), (&other, insert("b"))]);
    let instance = node.transact(sequence, &last, &parts);
    node.outcome(instance).unwrap();
    assert_eq!(node.value(&one).unwrap().1, "1");
    drop(node);
    server.stop().unwrap();
}

/// A staged piece that does not exist.
fn absent_piece() -> StageId {
    StageId { session: SessionId::default(), sequence: Sequence(99) }
}
