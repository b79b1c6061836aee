//! Watches are added up over the partitions of an instance.

use zerohop_partition::Token;
use zerohop_placement::{ChangeHistory, Durability, MapChange};
use zerohop_wire::ids::{KeyspaceId, PartitionId, RequestId, Timestamp};
use zerohop_wire::messages::{AFTER_NOW, ReadChanges};
use zerohop_wire::{Envelope, Message};

use super::bench::{InstanceBench, create};
use crate::limits::{WATCH_KEY_BYTES_LISTED_MAX, WATCHES_LISTED_MAX};
use crate::{KeyspaceWatches, WatchProgress};

const PAPERS: KeyspaceId = KeyspaceId(2);

/// A keyspace of four partitions that keeps changes for a minute.
fn bench() -> InstanceBench {
    let mut bench = InstanceBench::new();
    let mut delta = create(bench.instance.map(), PAPERS.0, "papers", Durability::Memory);
    if let [MapChange::CreateKeyspace { config, .. }] = &mut delta.changes[..] {
        config.history = ChangeHistory { ms: 60_000, bytes: 1 << 20 };
    }
    bench.apply(&delta);
    bench
}

/// A request of a connection for changes of a partition, behind this position.
fn request_changes(
    bench: &mut InstanceBench,
    connection: u64,
    partition: u32,
    (after, prefix): (u64, &[u8]),
) {
    let epoch = bench.envelope(PAPERS.0, "key").partition_epoch;
    let envelope = Envelope {
        keyspace: PAPERS,
        partition: PartitionId(partition),
        partition_epoch: epoch,
        ..Envelope::default()
    };
    let newest = Timestamp(u64::MAX);
    let message =
        Message::Changes(ReadChanges { after, newest, prefix, changes_max: 1, ..Default::default() });
    let to = Token { connection, request: RequestId(0) };
    bench.sent.answers.remove(&0);
    bench.instance.request(bench.now, to, &envelope, &message, &mut bench.sent);
    bench.end();
    let (_, answer) = bench.sent.answers.remove(&0).expect("it does not wait");
    assert!(answer.is_ok(), "{answer:?}");
}

#[test]
fn watches_are_added_up_by_connection_and_keys() {
    let mut bench = bench();
    let partition = bench.envelope(PAPERS.0, "key").partition.0;
    for other in 0..4 {
        request_changes(&mut bench, 7, other, (AFTER_NOW, b""));
        request_changes(&mut bench, 8, other, (AFTER_NOW, b""));
    }
    request_changes(&mut bench, 7, partition, (AFTER_NOW, b"k"));
    bench.store(PAPERS.0, "key", "one");
    bench.advance_ms(40);
    bench.store(PAPERS.0, "key", "two");
    bench.advance_ms(2);
    request_changes(&mut bench, 8, partition, (1, b""));
    bench.advance_ms(3);
    let found = bench.instance.watches(bench.now);
    let listed: Vec<_> = found.listed.iter().map(|one| (one.connection, one.progress)).collect();
    let of =
        |partitions, changes_behind, lag_ms| WatchProgress { partitions, changes_behind, lag_ms, gone: 0 };
    assert_eq!(listed, [(7, of(4, 2, 45)), (7, of(1, 2, 45)), (8, of(4, 1, 5))]);
    assert_eq!(&*found.listed[1].selection.prefix, b"k");
    assert!(found.listed.iter().all(|one| one.keyspace == PAPERS));
    let keyspaces: Vec<_> = found.keyspaces.into_iter().collect();
    assert_eq!(keyspaces, [(PAPERS, KeyspaceWatches { watches: 3, lag_ms: 45 })]);
    bench.instance.disconnected(7);
    let found = bench.instance.watches(bench.now);
    assert_eq!((found.listed.len(), found.keyspaces[&PAPERS].watches), (1, 1));
}

#[test]
fn the_list_is_limited_in_number_and_bytes_and_the_number_is_not() {
    let mut bench = bench();
    for connection in 0..1_000 {
        request_changes(&mut bench, connection, 0, (AFTER_NOW, b"short"));
        request_changes(&mut bench, 5_000 + connection, 1, (AFTER_NOW, b"short"));
    }
    let found = bench.instance.watches(bench.now);
    assert_eq!((found.listed.len(), found.keyspaces[&PAPERS].watches), (WATCHES_LISTED_MAX, 2_000));
    let mut bench = self::bench();
    let long = vec![b'k'; WATCH_KEY_BYTES_LISTED_MAX / 4];
    for connection in 0..10 {
        request_changes(&mut bench, connection, 0, (AFTER_NOW, &long));
    }
    let found = bench.instance.watches(bench.now);
    assert_eq!((found.listed.len(), found.keyspaces[&PAPERS].watches), (4, 10));
}
