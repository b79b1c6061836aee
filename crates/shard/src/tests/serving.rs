//! Requests and their answers.

use zerohop_engine::disk::simulated::DiskOperation;
use zerohop_placement::Durability;
use zerohop_placement::limits::PARTITIONS_MAX;
use zerohop_placement::map::DEFAULT_KEYSPACE;
use zerohop_wire::ids::{KeyspaceId, MapEpoch, PartitionEpoch, PartitionId, Sequence, SessionId, Timestamp};
use zerohop_wire::messages::{
    self, ClusterId, Condition, Expiry, Hello, Insert, MapGet, Ping, Query, RecordWrite, SessionOpen, Stamp,
};
use zerohop_wire::{BadRequestReason, Envelope, Failure, Features, Message};

use super::super::FlushStage;
use super::bench::{CLUSTER, DEFAULT, InstanceBench, create};

fn hello(cluster: ClusterId, map_epoch: u64) -> Hello<'static> {
    Hello {
        version_min: zerohop_wire::limits::VERSION_MIN,
        version_max: zerohop_wire::limits::VERSION_MAX,
        features: Features(0),
        cluster,
        map_epoch: MapEpoch(map_epoch),
        proof_method: 0,
        nonce: [0; 32],
        name: "test",
    }
}

#[test]
fn written_record_is_found_and_answer_names_its_origin() {
    let mut bench = InstanceBench::new();
    let put = bench.put(DEFAULT, "colour", "blue");
    bench.end();
    let (place, answer) = bench.sent.answers.remove(&put).expect("is answered");
    assert_eq!(answer, Ok("done".to_owned()));
    let envelope = bench.envelope(DEFAULT, "colour");
    assert_eq!(
        (place.keyspace, place.partition, place.epoch),
        (envelope.keyspace, envelope.partition, PartitionEpoch(1))
    );
    assert_eq!(bench.value(DEFAULT, "colour"), Ok("blue".to_owned()));
    assert_eq!(bench.value(DEFAULT, "other"), Err(Failure::NotFound));
}

#[test]
fn synced_write_is_answered_only_after_flush_of_its_batch() {
    let mut bench = InstanceBench::new();
    let delta = create(bench.instance.map(), 2, "papers", Durability::Sync);
    bench.apply(&delta);
    let puts: Vec<u64> = (0..20).map(|n| bench.put(2, &format!("k{n}"), "v")).collect();
    let read = bench.get(2, "k3");
    assert!(bench.sent.answers.is_empty(), "nothing is durable yet, and the read saw what is not");
    let before = bench.instance.stats().flushes;
    bench.end();
    assert_eq!(bench.instance.stats().flushes, before + 1, "one flush for all partitions");
    for put in puts {
        assert_eq!(bench.answer(put), Some(Ok("done".to_owned())));
    }
    assert_eq!(bench.answer(read), Some(Ok("v".to_owned())));
    let (mut bench, _) = bench.crash();
    assert_eq!(bench.value(2, "k19"), Ok("v".to_owned()));
}

#[test]
fn stages_of_flush_are_reported_around_answers_that_waited_for_it() {
    let mut bench = InstanceBench::new();
    let delta = create(bench.instance.map(), 2, "papers", Durability::Sync);
    bench.apply(&delta);
    bench.end();
    bench.sent.flushes.clear();
    let put = bench.put(DEFAULT, "a", "1");
    bench.end();
    assert_eq!(bench.answer(put), Some(Ok("done".to_owned())));
    assert_eq!(bench.sent.flushes, [], "the keyspace is kept in memory");
    let answers = bench.sent.answers.len();
    bench.put(2, "a", "1");
    bench.end();
    let stages = [FlushStage::Wanted, FlushStage::Begun, FlushStage::Ended, FlushStage::Notified];
    let expected: Vec<_> = stages.into_iter().zip([0, 0, 0, 1].map(|more| answers + more)).collect();
    assert_eq!(bench.sent.flushes, expected);
}

#[test]
fn failed_flush_fails_all_waiting_requests() {
    let mut bench = InstanceBench::new();
    let delta = create(bench.instance.map(), 2, "papers", Durability::Sync);
    bench.apply(&delta);
    bench.store(2, "a", "1");
    let put = bench.put(2, "a", "2");
    let failures = bench.instance.disk_failures();
    assert_eq!(bench.instance.failed_logs(), None);
    bench.disk.fail_nth(DiskOperation::Sync, 1);
    bench.end();
    assert_eq!(bench.answer(put), Some(Err(Failure::DiskFailed)));
    let stats = bench.instance.stats();
    assert!(!stats.errors.is_empty());
    // The flush was for all `sync` partitions: none of the four accepts writes any more.
    let failed = stats.keyspaces[&KeyspaceId(2)];
    assert_eq!((failed.failed_copies, failed.failed_primaries), (4, 4));
    assert_eq!(stats.keyspaces[&DEFAULT_KEYSPACE].failed_copies, 0);
    let failed = bench.instance.failed_logs().expect("has failed logs");
    assert_eq!((failed.keyspace, failed.partition, failed.copies), (KeyspaceId(2), PartitionId(0), 4));
    assert!(bench.instance.disk_failures() > failures);
}

#[test]
fn misrouted_request_is_answered_with_newer_map_epoch() {
    let mut bench = InstanceBench::new();
    bench.instance.hello(1, &hello(CLUSTER, 1), bench.now).expect("is accepted");
    let delta = create(bench.instance.map(), 2, "papers", Durability::Sync);
    bench.apply(&delta);
    // Another epoch of the partition than the present one.
    let old = Envelope { partition_epoch: PartitionEpoch(1), ..bench.envelope(DEFAULT, "a") };
    let raised = super::maps::raise(bench.instance.map(), DEFAULT, old.partition.0);
    bench.apply(&raised);
    let first = bench.read_at(old, "a", Query::Lookup);
    let second = bench.read_at(old, "a", Query::Lookup);
    match bench.answer(first) {
        Some(Err(Failure::WrongOwner { epoch, delta })) => {
            assert_eq!(epoch, MapEpoch(3));
            let decoded = zerohop_placement::MapDelta::decode(&delta).expect("is a delta");
            assert_eq!((decoded.from, decoded.to), (MapEpoch(1), MapEpoch(3)));
        }
        other => panic!("{other:?}"),
    }
    // The client already has the change; it is sent only once.
    match bench.answer(second) {
        Some(Err(Failure::WrongOwner { delta, .. })) => assert!(delta.is_empty()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn request_for_unknown_keyspace_or_partition_is_refused() {
    let mut bench = InstanceBench::new();
    let envelope = bench.envelope(DEFAULT, "a");
    let strange = Envelope { keyspace: KeyspaceId(9), partition_epoch: PartitionEpoch(0), ..envelope };
    let request = bench.read_at(strange, "a", Query::Lookup);
    let failure = Failure::UnknownKeyspace { keyspace: KeyspaceId(9) };
    assert_eq!(bench.answer(request), Some(Err(failure)));
    let beyond = Envelope { partition: PartitionId(PARTITIONS_MAX), ..envelope };
    let request = bench.read_at(beyond, "a", Query::Lookup);
    assert_eq!(bench.answer(request), Some(Err(BadRequestReason::NoSuchPartition.into())));
    // The keyspace of a map that has not arrived here, and not a keyspace that does not exist.
    let newer = Envelope { keyspace: KeyspaceId(9), partition_epoch: PartitionEpoch(1), ..envelope };
    let request = bench.read_at(newer, "a", Query::Lookup);
    assert!(matches!(bench.answer(request), Some(Err(Failure::Unavailable { .. }))));
    let newer = Envelope { partition_epoch: PartitionEpoch(2), ..envelope };
    let request = bench.read_at(newer, "a", Query::Lookup);
    assert!(matches!(bench.answer(request), Some(Err(Failure::Unavailable { .. }))));
}

#[test]
fn sessions_differ_and_maps_and_pulses_are_answered() {
    let mut bench = InstanceBench::new();
    for _ in 0..3 {
        bench.send_request(Envelope::default(), &Message::SessionOpen(SessionOpen));
    }
    let mut sessions = bench.sent.sessions.clone();
    sessions.dedup();
    assert_eq!(sessions.len(), 3);
    assert!(sessions.iter().all(|session| session.issued.millis() == bench.now.unix_ms));
    bench.send_request(Envelope::default(), &Message::MapGet(MapGet { since: MapEpoch(0) }));
    let (epoch, since, encoded) = bench.sent.maps.pop().expect("is answered");
    assert_eq!((epoch, since), (1, 0));
    assert_eq!(encoded, bench.instance.map().encode());
    let ping = bench.send_request(Envelope::default(), &Message::Ping(Ping { map_epoch: MapEpoch(1) }));
    assert_eq!(bench.answer(ping), Some(Ok("pong 1".to_owned())));
}

#[test]
fn client_of_other_cluster_is_refused() {
    let mut bench = InstanceBench::new();
    let other = hello(ClusterId([1; 16]), 0);
    assert_eq!(bench.instance.hello(1, &other, bench.now), Err(Failure::OtherCluster));
    let greeting = hello(ClusterId::default(), 0);
    let ack = bench.instance.hello(1, &greeting, bench.now).expect("is accepted");
    assert_eq!((ack.cluster, ack.map_epoch), (CLUSTER, MapEpoch(1)));
}

#[test]
fn requests_and_failures_are_counted() {
    let mut bench = InstanceBench::new();
    bench.store(DEFAULT, "a", "1");
    bench.value(DEFAULT, "b").expect_err("is not there");
    let stats = bench.instance.stats();
    let counted: Vec<(&str, u64)> = stats.requests.iter().map(|(kind, n)| (kind.text(), *n)).collect();
    assert_eq!(counted, [("lookup", 1), ("insert", 1)]);
    assert_eq!(stats.failures, [(200, 1)]);
    assert_eq!((stats.partitions, stats.records), (256, 1));
}

#[test]
fn write_of_a_session_without_an_epoch_is_refused_and_others_are_not() {
    let mut bench = InstanceBench::new();
    let envelope = Envelope { partition_epoch: PartitionEpoch(0), ..bench.envelope(DEFAULT, "a") };
    let change = messages::WriteChange::Insert(Insert { value: b"value", expiry: Expiry::Never });
    let write = RecordWrite { key: b"a", condition: Condition::Always, change };
    let session = SessionId { issued: Timestamp::from_millis(999_000), nonce: 7 };
    let stamp = Stamp { session, sequence: Sequence(1), lowest_unanswered: Sequence(1), ..Stamp::default() };
    let numbered = bench.send_request(envelope, &Message::Write { stamp, write });
    bench.end();
    assert_eq!(bench.answer(numbered), Some(Err(BadRequestReason::NoEpoch.into())));
    let other = bench.send_request(envelope, &Message::Write { stamp: Stamp::default(), write });
    bench.end();
    assert!(matches!(bench.answer(other), Some(Ok(_))));
}
