//! A partition is moved under load, compared with a plain copy of its files.
//!
//! ```text
//!   fill ──> load begins ──> copy, copy, copy ──> move: asked ······· new primary ──> load ends ──> all read back
//! ```

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use bench_common::driver::print_error;
use bench_common::failure::Failure;
use bench_common::process::{now, pause};
use bench_common::protocol::map_of;
use bench_common::reading::Measurement;
use bench_common::workload::Draws;
use tokio::runtime::Builder;
use tokio::task::LocalSet;
use zerohop_placement::ClusterMap;

use super::clients::{client_failure, connect};
use super::paced::{PacedLoad, run_until};
use super::{Orders, copying};
use crate::limits::{AROUND_SWAP, COPIES, FILLERS, MAP_POLL, MOVE, SETTLE, WHOLE};
use crate::servers::{Cluster, KEYSPACE, Place};

/// The state of the partition's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    /// It has every entry that was ever written.
    Whole,
    /// Half of the records were overwritten, and the dead entries compacted.
    Compacted,
}

pub(super) fn run(log: Log, place: Place, orders: &Orders) -> Result<Measurement, Failure> {
    let folders: Vec<PathBuf> =
        (0..crate::limits::NODES).map(|node| place.dir.join(format!("node-{node}"))).collect();
    let copy_to = place.dir.join("copy");
    let mut cluster = Cluster::of_zerohop(place)?;
    let durability = "--durability interval --replicas 1 --min-in-sync 1 --partitions 1";
    cluster.command(&format!("keyspace create {KEYSPACE} {durability}"))?;
    cluster.wait_until_whole()?;
    let endpoints = cluster.addresses.clone();
    let records = PartitionFiller::new(orders);
    records.fill(&endpoints, log)?;
    pause(SETTLE);
    let stop = Arc::new(AtomicBool::new(false));
    let (begin, begun) = channel();
    let mut reading = Measurement::default();
    thread::scope(|scope| {
        let load = scope.spawn(|| run_until(&stop, &begin, &endpoints, orders.rate));
        // If the load cannot start, its result says why.
        let has_begun = begun.recv_timeout(WHOLE).is_ok();
        let moved = if has_begun {
            let moved = move_it(&cluster, &folders, &copy_to, &mut reading);
            // The time after the swap counts as its effect.
            pause(AROUND_SWAP);
            Some(moved)
        } else {
            None
        };
        stop.store(true, Ordering::Relaxed);
        let seen = load.join().map_err(|_| Failure::Protocol("the load has panicked".into()))?;
        let moved = moved.transpose()?;
        cluster.check()?;
        let seen: PacedLoad = seen?;
        let Some(moved) = moved else { return Ok(()) };
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let around = (moved.swapped - AROUND_SWAP, moved.swapped + AROUND_SWAP);
        reading.put("slowest at swap ms", ms(seen.slowest(around.0, around.1)));
        reading.put("slowest in move ms", ms(seen.slowest(moved.requested, moved.swapped)));
        reading.put("slowest before ms", ms(seen.slowest(moved.before, moved.copies_begin)));
        reading.put("slowest in copies ms", ms(seen.slowest(moved.copies_begin, moved.requested)));
        reading.put("operations", seen.done as f64);
        reading.put("failed operations", (seen.failed + seen.left_out) as f64);
        if let Some(first_error) = seen.first_error {
            print_error(&format!("bench-cluster: the first failure: {first_error}"));
        }
        Ok(())
    })?;
    reading.put("wrong records", records.wrong(&endpoints)? as f64);
    Ok(reading)
}

/// The times of the events.
struct MoveTimes {
    before: std::time::Instant,
    copies_begin: std::time::Instant,
    requested: std::time::Instant,
    swapped: std::time::Instant,
}

fn move_it(
    cluster: &Cluster,
    folders: &[PathBuf],
    copy_to: &Path,
    reading: &mut Measurement,
) -> Result<MoveTimes, Failure> {
    let before = now();
    pause(AROUND_SWAP);
    let map = map_of(cluster.addresses[0])?;
    let from = primary(&map)?;
    let target = map.nodes().find(|node| node.id().0 != from).map(|node| node.id().0);
    let target = target.ok_or_else(|| Failure::Protocol("there is no other node".into()))?;
    let is_it =
        |node: &SocketAddr| map.nodes().any(|one| one.id().0 == from && one.manager() == node.to_string());
    let holder = cluster.addresses.iter().position(is_it);
    let holder = holder.ok_or_else(|| Failure::Protocol("no node has the partition".into()))?;
    let files = copying::segments(&largest_partition(&folders[holder])?)?;
    let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    reading.put("MiB", bytes as f64 / f64::from(1 << 20));
    let copies_begin = now();
    let mut took = Vec::new();
    for _ in 0..COPIES {
        took.push(copying::copy(&files, copy_to)?);
    }
    took.sort();
    let copy = took[took.len() / 2];
    let rate = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e6;
    reading.put("copy MB/s", rate(copy));
    let cpu = cluster.cpu()?;
    let requested = now();
    let swapped = thread::scope(|scope| {
        let line = format!("partition move {KEYSPACE}/0 --to {target}");
        let command = scope.spawn(move || cluster.command_within(&line, MOVE));
        let swapped = loop {
            // The time before the request counts: the map was decided by then.
            let looked = now();
            if map_of(cluster.addresses[0]).and_then(|map| primary(&map)).is_ok_and(|node| node == target) {
                break Ok(looked);
            }
            if looked - requested > MOVE {
                break Err(Failure::Protocol("the partition was not moved".into()));
            }
            if command.is_finished() {
                break Ok(looked);
            }
            pause(MAP_POLL);
        };
        let first_error = command.join().map_err(|_| Failure::Protocol("the command has panicked".into()))?;
        first_error.and(swapped)
    })?;
    let used = cluster.cpu()?.since(cpu);
    let took = swapped - requested;
    reading.put("move MB/s", rate(took));
    reading.put("move of copy", rate(took) / rate(copy));
    reading.put("move ms", took.as_secs_f64() * 1e3);
    reading.put("servers' CPU ms", used.ran.as_secs_f64() * 1e3);
    Ok(MoveTimes { before, copies_begin, requested, swapped })
}

/// The node that leads the partition.
fn primary(map: &ClusterMap) -> Result<u32, Failure> {
    let missing = || Failure::Protocol(format!("a map without {KEYSPACE}"));
    let (_, keyspace) = map.keyspace_named(KEYSPACE).ok_or_else(missing)?;
    let (_, group) = keyspace.groups().next().ok_or_else(missing)?;
    Ok(map.instance(group.primary).ok_or_else(missing)?.node.0)
}

/// The largest folder of a node's partitions.
fn largest_partition(node: &Path) -> Result<PathBuf, Failure> {
    let (mut found, mut left) = (None, vec![node.to_owned()]);
    while let Some(folder) = left.pop() {
        for entry in folder.read_dir().map_err(Failure::io("listing", &folder))? {
            let path = entry.map_err(Failure::io("listing", &folder))?.path();
            if !path.is_dir() {
                continue;
            }
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("p-")) {
                let bytes = copying::segments(&path)?.iter().map(|(_, bytes)| bytes).sum::<u64>();
                found = found.max(Some((bytes, path)));
            } else {
                left.push(path);
            }
        }
    }
    found
        .map(|(_, path)| path)
        .ok_or_else(|| Failure::Protocol(format!("no partition in {}", node.display())))
}

/// The records that fill the partition.
struct PartitionFiller {
    noise: Vec<u8>,
    value_bytes: usize,
    count: u64,
}

impl PartitionFiller {
    fn new(orders: &Orders) -> PartitionFiller {
        let value_bytes = orders.value_bytes as usize;
        let mut draws = Draws::new(orders.seed);
        let noise = (0..2 * value_bytes.div_ceil(8)).flat_map(|_| draws.draw().to_le_bytes()).collect();
        PartitionFiller {
            noise,
            value_bytes,
            count: (u64::from(orders.mebibytes) << 20) / u64::from(orders.value_bytes),
        }
    }

    fn value(&self, number: u64, version: u64) -> &[u8] {
        let place = (number.wrapping_mul(0x9E37_79B9).wrapping_add(version)) as usize % self.value_bytes;
        &self.noise[place..place + self.value_bytes]
    }

    /// The last version of a record that may have been overwritten.
    fn version(number: u64, log: Log) -> u64 {
        u64::from(log == Log::Compacted && number.is_multiple_of(2))
    }

    fn fill(&self, endpoints: &[SocketAddr], log: Log) -> Result<(), Failure> {
        on_all(self.count, endpoints, async |keyspace, number| {
            let key = number.to_le_bytes();
            keyspace.insert(&key, self.value(number, 0)).await.map_err(client_failure).map(|_| 0)
        })?;
        on_all(self.count, endpoints, async |keyspace, number| {
            let version = PartitionFiller::version(number, log);
            if version == 0 {
                return Ok(0);
            }
            let key = number.to_le_bytes();
            keyspace.insert(&key, self.value(number, version)).await.map_err(client_failure).map(|_| 0)
        })?;
        Ok(())
    }

    /// The number of records with an unexpected value. An overwritten one may have either version.
    fn wrong(&self, endpoints: &[SocketAddr]) -> Result<u64, Failure> {
        on_all(self.count, endpoints, async |keyspace, number| {
            let found = keyspace.lookup_bytes(&number.to_le_bytes()).await.map_err(client_failure)?;
            let is = |version| found.as_deref() == Some(self.value(number, version));
            Ok(u64::from(!is(0) && !is(1)))
        })
    }
}

/// Runs an operation for each record, several at a time; returns the sum of the results.
fn on_all(
    count: u64,
    endpoints: &[SocketAddr],
    each: impl AsyncFn(&zerohop_client::Keyspace, u64) -> Result<u64, Failure>,
) -> Result<u64, Failure> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::while_doing("starting the filler's runtime"))?;
    LocalSet::new().block_on(&runtime, async {
        let keyspace = connect(endpoints).await?;
        let (keyspace, each) = (&keyspace, &each);
        let fill = |first: u64| async move {
            let mut sum = 0;
            for number in (first..count).step_by(FILLERS) {
                sum += each(keyspace, number).await?;
            }
            Ok::<u64, Failure>(sum)
        };
        let mut fillers: Vec<_> = (0..FILLERS as u64).map(|first| Box::pin(fill(first))).collect();
        let mut done: Vec<Option<Result<u64, Failure>>> = fillers.iter().map(|_| None).collect();
        std::future::poll_fn(|context| {
            let mut waits = false;
            for (filler, done) in fillers.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
                match filler.as_mut().poll(context) {
                    std::task::Poll::Ready(result) => *done = Some(result),
                    std::task::Poll::Pending => waits = true,
                }
            }
            if waits { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
        })
        .await;
        done.into_iter().flatten().sum()
    })
}
