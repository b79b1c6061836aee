//! Regions of an ordered keyspace are split by their size.

use zerohop_placement::{Durability, MapChange};
use zerohop_wire::Message;
use zerohop_wire::ids::{KeyspaceId, PartitionId, SnapshotId, Timestamp};
use zerohop_wire::messages::{SnapshotQuery, SnapshotRequest};

use super::bench::{InstanceBench, create, next};
use super::splits::run_until_idle;
use crate::LargeRegion;
use crate::limits::{REGION_CHECK_MS, REGION_SPLIT_AGAIN_MS};

const LIMIT: u64 = 64 << 10;
const VALUE: &str = "a value of fifty bytes, as many records have one.";

/// One region, which may have [`LIMIT`] bytes.
fn bench() -> InstanceBench {
    let mut bench = InstanceBench::new();
    let mut delta = create(bench.instance.map(), 2, "papers", Durability::Memory);
    if let [MapChange::CreateKeyspace { config, groups, .. }] = &mut delta.changes[..] {
        *config = config.clone().ordered();
        *groups = groups.iter().take(1).collect();
    }
    bench.apply(&delta);
    bench.instance.set_region_limit(Some(LIMIT));
    bench
}

/// Writes records in this order, and checks sizes after each few.
fn fill(bench: &mut InstanceBench, numbers: impl IntoIterator<Item = u32>) -> Vec<LargeRegion> {
    for (count, n) in numbers.into_iter().enumerate() {
        bench.store(2, &format!("key {n:05}"), VALUE);
        if count % 20 == 0 {
            bench.advance_ms(REGION_CHECK_MS);
        }
        if !bench.sent.large_regions.is_empty() {
            break;
        }
    }
    std::mem::take(&mut bench.sent.large_regions)
}

fn split_as_requested(bench: &mut InstanceBench, large: &LargeRegion) {
    let LargeRegion { keyspace, region, separator, share, .. } = large.clone();
    let change = MapChange::SplitRegion { keyspace, region, separator: separator.into(), share };
    let delta = next(bench.instance.map(), vec![change]);
    bench.apply(&delta);
    run_until_idle(bench);
}

/// Numbers below 4,096 in an order without a direction.
fn scattered() -> impl Iterator<Item = u32> {
    (0..4_096).map(|n| n * 1_487 % 4_096)
}

#[test]
fn region_above_the_limit_is_split_near_the_middle_of_its_keys() {
    let mut bench = bench();
    let large = fill(&mut bench, scattered());
    let [one] = &large[..] else { panic!("{large:?}") };
    assert!(one.bytes > LIMIT && one.bytes < 2 * LIMIT, "{one:?}");
    assert_eq!((one.keyspace, one.region, one.share), (KeyspaceId(2), PartitionId(0), 128));
    assert_eq!(one.name.to_string(), "papers");
    assert!((&b"key 015"[..]..&b"key 026"[..]).contains(&&one.separator[..]), "{one:?}");
}

#[test]
fn region_that_grows_at_one_end_is_split_at_its_last_or_first_key() {
    let mut bench = bench();
    let large = fill(&mut bench, 0..4_096);
    let [one] = &large[..] else { panic!("{large:?}") };
    assert_eq!(one.share, 1, "the left child receives no more keys");
    split_as_requested(&mut bench, one);
    let map = bench.instance.map().clone();
    let found = map.keyspace(KeyspaceId(2)).expect("is there");
    assert_eq!(found.partition(&one.separator), PartitionId(2));
    assert_eq!(bench.value(2, "key 00000"), Ok(VALUE.to_owned()));

    let mut bench = self::bench();
    let large = fill(&mut bench, (0..4_096).rev());
    assert_eq!(large.first().map(|one| one.share), Some(255));
}

#[test]
fn children_are_measured_once_they_have_no_records_of_their_sibling() {
    let mut bench = bench();
    let large = fill(&mut bench, scattered());
    split_as_requested(&mut bench, &large[0]);
    for _ in 0..100 {
        bench.advance_ms(REGION_CHECK_MS);
    }
    assert_eq!(bench.sent.large_regions, [], "each child has half of the data");
}

#[test]
fn request_without_effect_is_repeated_with_growing_pauses() {
    let mut bench = bench();
    let first = fill(&mut bench, scattered());
    let mut requests = Vec::new();
    for s in 1..60 {
        bench.advance_ms(REGION_CHECK_MS);
        if !std::mem::take(&mut bench.sent.large_regions).is_empty() {
            requests.push(s);
        }
    }
    assert_eq!(REGION_SPLIT_AGAIN_MS, 5 * REGION_CHECK_MS);
    assert_eq!((first.len(), requests), (1, vec![5, 15, 35]));
}

#[test]
fn regions_are_not_split_without_a_limit_nor_while_their_keyspace_is_dropped() {
    let mut unlimited = bench();
    unlimited.instance.set_region_limit(None);
    assert_eq!(fill(&mut unlimited, scattered()), []);

    let mut dropping = bench();
    fill(&mut dropping, scattered());
    let begin = next(dropping.instance.map(), vec![MapChange::BeginDropKeyspace(KeyspaceId(2))]);
    dropping.apply(&begin);
    dropping.advance_ms(10 * REGION_SPLIT_AGAIN_MS);
    assert_eq!(dropping.sent.large_regions, []);
}

#[test]
fn region_with_an_open_snapshot_is_split_far_above_the_limit() {
    let mut bench = bench();
    bench.store(2, "key", VALUE);
    let envelope = bench.envelope(2, "key");
    let request = SnapshotQuery::Open { lease_ms: 3_600_000, age_ms: 3_600_000 };
    let open = SnapshotRequest { seen: Timestamp::ZERO, id: SnapshotId(7), request };
    let request = bench.send_request(envelope, &Message::Snapshot(open));
    bench.end();
    assert_eq!(bench.answer(request), Some(Ok("done".to_owned())));
    let large = fill(&mut bench, scattered());
    let [one] = &large[..] else { panic!("{large:?}") };
    assert!(one.bytes > 4 * LIMIT && one.bytes < 5 * LIMIT, "{one:?}");
}

#[test]
fn region_of_one_key_is_not_split() {
    let mut bench = bench();
    bench.store(2, "key", &VALUE.repeat(3_000));
    for _ in 0..10 {
        bench.advance_ms(REGION_CHECK_MS);
    }
    assert_eq!(bench.sent.large_regions, []);
}
