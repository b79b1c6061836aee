//! Deadlines, clocks, and background maintenance.

use zerohop_placement::Durability;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::messages::{Query, RecordRead};
use zerohop_wire::{Failure, Message};

use super::bench::{DEFAULT, InstanceBench, create};
use crate::ClockReading;
use crate::limits::{MAINTENANCE_BUSY_MS, MAINTENANCE_IDLE_MS, MAINTENANCE_MS};

#[test]
fn wait_ends_at_its_time_out_on_idle_instance() {
    let mut bench = InstanceBench::new();
    let wait = bench.wait(DEFAULT, "a", 700);
    let until_ms = bench.now.elapsed_ms + 700;
    bench.end();
    for _ in 0..1_000 {
        assert!(bench.answer(wait).is_none());
        let wake_ms = bench.instance.next_tick_ms();
        assert!(wake_ms <= until_ms, "sleeps past the time-out");
        let pass_ms = (wake_ms - bench.now.elapsed_ms).max(1);
        bench.advance_ms(pass_ms);
        if bench.now.elapsed_ms >= until_ms {
            break;
        }
    }
    assert!(matches!(bench.answer(wait), Some(Err(Failure::TimedOut { .. }))));
}

#[test]
fn a_wait_ends_in_time_also_when_the_day_is_set_back() {
    let mut bench = InstanceBench::new();
    let wait = bench.wait(DEFAULT, "a", 700);
    bench.end();
    bench.now.unix_ms -= 900_000;
    // The clock runs at a sixteenth less than real time until the wall clock has caught up.
    bench.advance_ms(750);
    assert!(matches!(bench.answer(wait), Some(Err(Failure::TimedOut { .. }))));
}

#[test]
fn wait_is_answered_by_matching_write() {
    let mut bench = InstanceBench::new();
    let wait = bench.wait(DEFAULT, "a", 60_000);
    bench.end();
    bench.store(DEFAULT, "a", "here");
    assert_eq!(bench.answer(wait), Some(Ok("here".to_owned())));
}

#[test]
fn closed_connection_leaves_no_waits() {
    let mut bench = InstanceBench::new();
    let wait = bench.wait(DEFAULT, "a", 60_000);
    bench.end();
    assert_eq!(bench.instance.stats().waits, 1);
    bench.instance.disconnected(1);
    assert_eq!(bench.instance.stats().waits, 0);
    bench.store(DEFAULT, "a", "here");
    assert_eq!(bench.answer(wait), None);
}

#[test]
fn idle_instance_sleeps_and_busy_one_syncs_in_time() {
    let mut bench = InstanceBench::new();
    bench.store(DEFAULT, "a", "1");
    bench.instance.maintain(bench.now);
    assert!(bench.instance.next_tick_ms() <= bench.now.elapsed_ms + MAINTENANCE_MS);
    for _ in 0..(MAINTENANCE_BUSY_MS / MAINTENANCE_MS) + 20 {
        bench.advance_ms(MAINTENANCE_MS);
    }
    assert!(bench.instance.next_tick_ms() > bench.now.elapsed_ms + MAINTENANCE_IDLE_MS / 2);
    let (mut bench, _) = bench.crash();
    assert_eq!(bench.value(DEFAULT, "a"), Ok("1".to_owned()));
}

#[test]
fn stop_answers_waits_and_closed_instance_restarts_with_its_data() {
    let mut bench = InstanceBench::new();
    let delta = create(bench.instance.map(), 2, "papers", Durability::Sync);
    bench.apply(&delta);
    bench.store(DEFAULT, "a", "1");
    bench.store(2, "b", "2");
    let wait = bench.wait(DEFAULT, "never", 60_000);
    bench.instance.stop(bench.now, &mut bench.sent);
    assert!(matches!(bench.answer(wait), Some(Err(Failure::Unavailable { .. }))));
    let map = zerohop_placement::ClusterMap::clone(bench.instance.map());
    let disk = bench.instance.close().expect("closes");
    let (mut bench, opened) = InstanceBench::on(disk, map, bench.now);
    assert!(opened.lost_states.is_empty());
    assert_eq!(bench.value(DEFAULT, "a"), Ok("1".to_owned()));
    assert_eq!(bench.value(2, "b"), Ok("2".to_owned()));
}

#[test]
fn versions_rise_over_a_restart_though_the_day_was_set_back() {
    let mut bench = InstanceBench::new();
    bench.store(DEFAULT, "a", "1");
    bench.advance_ms(3_000);
    let newest = bench.instance.clock.now().ms;
    let InstanceBench { disk, instance, now, .. } = bench;
    let map = zerohop_placement::ClusterMap::clone(instance.map());
    instance.close().expect("closes");
    let back = ClockReading { unix_ms: now.unix_ms - 500_000, elapsed_ms: 0 };
    let (mut bench, _) = InstanceBench::on(disk, map, back);
    assert!(bench.instance.clock.now().ms >= newest - 3_000, "no client's timestamps are from the future");
    bench.store(DEFAULT, "a", "2");
}

#[test]
fn instance_accepts_timestamps_stored_by_other_instance() {
    let mut bench = InstanceBench::new();
    // The node's clock was set back by an hour while it was down. The other instance has stored earlier versions.
    let newest = Timestamp::from_millis(bench.now.unix_ms + 3_600_000);
    let read = |bench: &mut InstanceBench| {
        let envelope = bench.envelope(DEFAULT, "a");
        let read = RecordRead { key: b"a", query: Query::Lookup };
        let request = bench.send_request(envelope, &Message::Read { seen: newest, read });
        bench.end();
        bench.answer(request).expect("is answered")
    };
    assert!(matches!(read(&mut bench), Err(Failure::ClockAhead { .. })));
    bench.instance.not_before(newest);
    assert_eq!(read(&mut bench), Err(Failure::NotFound));
}
