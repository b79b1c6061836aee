//! A node is killed, or all are restarted one by one, while 32 clients insert.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use bench_common::failure::Failure;
use bench_common::process::{now, pause};
use bench_common::protocol::map_of;
use bench_common::reading::Measurement;
use bench_common::workload::Records;
use zerohop_placement::ClusterMap;

use super::Orders;
use super::clients::{AllInserts, insert_until};
use crate::limits::{MAP_POLL, NODES, WHOLE};
use crate::servers::{Cluster, KEYSPACE, Place, Setting};

/// Settings of the keyspace for the inserts.
const SETTING: Setting = Setting { durability: "interval", replicas: 3, min_in_sync: 2 };

/// Kills a node that leads partitions: another one in each round.
pub(super) fn failover(place: Place, orders: &Orders) -> Result<Measurement, Failure> {
    let before = Duration::from_secs_f64(orders.seconds);
    under_load(place, orders, |cluster, reading| {
        pause(before);
        let map = map_of(cluster.addresses[0])?;
        let leads = |node: &usize| led_by(&map, cluster.addresses[*node]).is_ok_and(|led| led > 0);
        let from = orders.seed as usize;
        let victim = (from..from + NODES).map(|node| node % NODES).find(leads);
        let victim = victim.ok_or_else(|| Failure::Protocol("no node leads a partition".into()))?;
        let (address, survivor) = (cluster.addresses[victim], cluster.addresses[(victim + 1) % NODES]);
        let led = led_by(&map, address)?;
        let start = now();
        cluster.kill(victim)?;
        loop {
            // The time before the request counts: the map was decided by then.
            let requested_at = now();
            if map_of(survivor).and_then(|map| led_by(&map, address)).is_ok_and(|led| led == 0) {
                reading.put("partitions led", led as f64);
                reading.put("new primaries ms", (requested_at - start).as_secs_f64() * 1e3);
                break;
            }
            if requested_at - start > WHOLE {
                return Err(Failure::Protocol("no new primaries".into()));
            }
            pause(MAP_POLL);
        }
        pause(before);
        Ok(())
    })
}

/// Stops each node in order and starts it again; the next one follows when all copies are in sync.
pub(super) fn rolling(place: Place, orders: &Orders) -> Result<Measurement, Failure> {
    let turns = orders.turns;
    under_load(place, orders, |cluster, reading| {
        let (mut ending, mut whole) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..turns {
            for node in 0..NODES {
                let start = now();
                cluster.end(node)?;
                let ended = now();
                cluster.start(node)?;
                cluster.wait_until_whole()?;
                ending += ended - start;
                whole += now() - ended;
            }
        }
        let restarts = (turns * NODES) as f64;
        reading.put("restarts", restarts);
        reading.put("to end ms", ending.as_secs_f64() * 1e3 / restarts);
        reading.put("to be whole again ms", whole.as_secs_f64() * 1e3 / restarts);
        Ok(())
    })
}

/// Runs clients in their own thread while `disturb` acts on the cluster. Servers are started from
/// the main thread, because they end with the thread that started them.
fn under_load(
    place: Place,
    orders: &Orders,
    disturb: impl FnOnce(&mut Cluster, &mut Measurement) -> Result<(), Failure>,
) -> Result<Measurement, Failure> {
    let mut cluster = Cluster::of_zerohop(place)?;
    cluster.create_keyspace(SETTING)?;
    let endpoints = cluster.addresses.clone();
    let records = Records::new(orders.records, orders.seed);
    let stop = Arc::new(AtomicBool::new(false));
    let (begin, begun) = channel();
    let mut reading = Measurement::default();
    thread::scope(|scope| {
        let clients = scope.spawn(|| insert_until(&stop, &begin, &endpoints, records));
        // If the clients cannot start, their result says why.
        let has_begun = begun.recv_timeout(WHOLE).is_ok();
        let start = now();
        let disturbed = if has_begun { disturb(&mut cluster, &mut reading) } else { Ok(()) };
        let took = (now() - start).as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        let seen = clients.join().map_err(|_| Failure::Protocol("the clients have panicked".into()))?;
        // A failed server explains more than the clients' errors.
        disturbed?;
        cluster.check()?;
        let AllInserts { acknowledged, failed, lost, gap, first_error } = seen?;
        reading.put("K op/s", acknowledged as f64 / took / 1e3);
        reading.put("longest gap ms", gap.as_secs_f64() * 1e3);
        reading.put("failed operations", failed as f64);
        reading.put("lost writes", lost as f64);
        if let Some(first_error) = first_error {
            bench_common::driver::print_error(&format!("bench-cluster: the first failure: {first_error}"));
        }
        Ok(reading)
    })
}

/// How many of the keyspace's partitions are led by the node with this manager.
fn led_by(map: &ClusterMap, manager: SocketAddr) -> Result<usize, Failure> {
    let missing = || Failure::Protocol(format!("a map without {manager} or {KEYSPACE}"));
    let manager = manager.to_string();
    let node = map.nodes().find(|node| node.manager() == manager).ok_or_else(missing)?;
    let (_, keyspace) = map.keyspace_named(KEYSPACE).ok_or_else(missing)?;
    let is_its = |primary| map.instance(primary).is_some_and(|found| found.node == node.id());
    Ok(keyspace.groups().filter(|(_, group)| is_its(group.primary)).count())
}
