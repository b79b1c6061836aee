//! The load on zerohop: clients in one thread, each with its own connections, that read and write
//! blobs.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench_common::failure::Failure;
use bench_common::histogram::Histogram;
use bench_common::process::now;
use bench_common::reading::Measurement;
use bench_common::servers::{Cluster, KEYSPACE, Place};
use bench_common::workload::Draws;
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};
use zerohop_client::{Client, ClientOptions, Error, Keyspace};

use crate::Orders;
use crate::limits::{CHUNKS, CONNECTIONS, DEPTH, LARGE_BYTES, OBJECTS, OPERATION, SMALL_BYTES, WARM_UP};

/// A repeated operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RepeatedWork {
    Read {
        bytes: usize,
    },
    Write {
        bytes: usize,
    },
    /// As many bytes of each of several chunks.
    ReadChunks,
    Lookup,
}

/// Bytes of a chunk in the scenarios of small reads.
const CHUNK_BYTES: usize = 1 << 20;

/// The durability of keyspaces on disk.
const INTERVAL: &str = "interval";

/// The result of a measured phase.
struct WorkDone {
    latencies: Histogram,
    passed: Duration,
}

/// Large reads and writes.
pub(crate) fn bulk(place: &Place, orders: &Orders) -> Result<Measurement, Failure> {
    on(place, (1, "4MiB", INTERVAL), |cluster| async move {
        let objects = made(&cluster, CONNECTIONS, LARGE_BYTES).await?;
        let before = cluster.cpu()?;
        let read = run(&objects, 1, RepeatedWork::Read { bytes: LARGE_BYTES }, orders).await?;
        let between = cluster.cpu()?;
        let written = run(&objects, 1, RepeatedWork::Write { bytes: LARGE_BYTES }, orders).await?;
        let mut reading = Measurement::default();
        reading.put("read MB/s", megabytes(&read, LARGE_BYTES));
        reading.put("write MB/s", megabytes(&written, LARGE_BYTES));
        let gigabytes = |done: &WorkDone| done.latencies.count() as f64 * LARGE_BYTES as f64 / 1e9;
        // The CPU time includes the warm-up, the count does not: correct for it.
        let counted = 1.0 / (1.0 + WARM_UP);
        let seconds = between.since(before).ran.as_secs_f64() * counted;
        reading.put("server s of CPU a GB read", seconds / gigabytes(&read));
        let seconds = cluster.cpu()?.since(between).ran.as_secs_f64() * counted;
        reading.put("server s of CPU a GB written", seconds / gigabytes(&written));
        cluster.end()?;
        Ok(reading)
    })
}

/// Large and small operations at the depth of `rados bench`.
pub(crate) fn objects(place: &Place, in_memory: bool, orders: &Orders) -> Result<Measurement, Failure> {
    let durability = if in_memory { "memory" } else { INTERVAL };
    on(place, (1, "4MiB", durability), |cluster| async move {
        let objects = made(&cluster, 1, LARGE_BYTES).await?;
        let (large, small) = (LARGE_BYTES, SMALL_BYTES);
        let mut reading = Measurement::default();
        let done = run(&objects, DEPTH, RepeatedWork::Write { bytes: large }, orders).await?;
        reading.put("write MB/s", megabytes(&done, large));
        let done = run(&objects, DEPTH, RepeatedWork::Read { bytes: large }, orders).await?;
        reading.put("read MB/s", megabytes(&done, large));
        let done = run(&objects, DEPTH, RepeatedWork::Write { bytes: small }, orders).await?;
        reading.put("small write K op/s", thousands(&done));
        let done = run(&objects, DEPTH, RepeatedWork::Read { bytes: small }, orders).await?;
        reading.put("small read K op/s", thousands(&done));
        let done = run(&objects, 1, RepeatedWork::Write { bytes: small }, orders).await?;
        reading.put("one write ms", done.latencies.mean() / 1e6);
        let done = run(&objects, 1, RepeatedWork::Read { bytes: small }, orders).await?;
        reading.put("one read ms", done.latencies.mean() / 1e6);
        cluster.end()?;
        Ok(reading)
    })
}

/// Small reads of one chunk each.
pub(crate) fn one_chunk(place: &Place, nodes: usize, orders: &Orders) -> Result<Measurement, Failure> {
    let what = RepeatedWork::Read { bytes: SMALL_BYTES };
    one_at_a_time(place, nodes, CHUNKS * CHUNK_BYTES, what, orders)
}

/// Lookups of records of the same length.
pub(crate) fn key(place: &Place, orders: &Orders) -> Result<Measurement, Failure> {
    one_at_a_time(place, 1, SMALL_BYTES, RepeatedWork::Lookup, orders)
}

/// Small reads of several chunks at once.
pub(crate) fn many_chunks(place: &Place, orders: &Orders) -> Result<Measurement, Failure> {
    one_at_a_time(place, 3, CHUNKS * CHUNK_BYTES, RepeatedWork::ReadChunks, orders)
}

fn one_at_a_time(
    place: &Place,
    nodes: usize,
    bytes: usize,
    what: RepeatedWork,
    orders: &Orders,
) -> Result<Measurement, Failure> {
    on(place, (nodes as u16, "1MiB", INTERVAL), |cluster| async move {
        let objects = made(&cluster, 1, bytes).await?;
        let done = run(&objects, 1, what, orders).await?;
        let mut reading = Measurement::default();
        reading.put("p50 us", done.latencies.percentile(0.5) as f64 / 1e3);
        reading.put("p99 us", done.latencies.percentile(0.99) as f64 / 1e3);
        cluster.end()?;
        Ok(reading)
    })
}

/// Clients, and their objects: blobs, and records of 4 KiB.
struct Objects {
    keyspaces: Vec<Rc<Keyspace>>,
    contents: Arc<[u8]>,
}

async fn made(cluster: &Cluster, clients: usize, bytes: usize) -> Result<Objects, Failure> {
    let mut draws = Draws::new(1);
    let contents: Arc<[u8]> = (0..bytes / 8).flat_map(|_| draws.draw().to_le_bytes()).collect();
    let endpoints: Vec<String> = cluster.addresses.iter().map(ToString::to_string).collect();
    let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
    let mut keyspaces = Vec::new();
    for _ in 0..clients {
        let options = ClientOptions { deadline: OPERATION, ..ClientOptions::default() };
        let client = Client::connect_with(&endpoints, options).await.map_err(failed)?;
        keyspaces.push(Rc::new(client.keyspace(KEYSPACE).await.map_err(failed)?));
    }
    for object in 0..OBJECTS {
        let (name, keyspace) = (name(object), &keyspaces[0]);
        let blob = keyspace.blob(name.clone());
        blob.create(b"").await.map_err(failed)?;
        blob.write_at(0, &contents).await.map_err(failed)?;
        let value = &contents[..SMALL_BYTES.min(bytes)];
        keyspace.insert(&name, value).await.map_err(failed)?;
    }
    Ok(Objects { keyspaces, contents })
}

async fn run(
    objects: &Objects,
    depth: usize,
    what: RepeatedWork,
    orders: &Orders,
) -> Result<WorkDone, Failure> {
    let begin = now() + Duration::from_secs_f64(orders.seconds * WARM_UP);
    let until = begin + Duration::from_secs_f64(orders.seconds);
    let mut tasks = Vec::new();
    for (client, keyspace) in objects.keyspaces.iter().enumerate() {
        for task in 0..depth {
            let (keyspace, contents) = (Rc::clone(keyspace), Arc::clone(&objects.contents));
            let seed = orders.seed ^ ((client * depth + task) as u64) << 32;
            tasks.push(spawn_local(async move {
                run_client(&keyspace, &contents, what, (begin, until), seed).await
            }));
        }
    }
    let mut done = WorkDone { latencies: Histogram::new(), passed: until - begin };
    for task in tasks {
        let latencies = task.await.map_err(|fault| Failure::Protocol(format!("that a client {fault}")))?;
        for took in latencies.map_err(failed)? {
            done.latencies.record(took, 1);
        }
    }
    Ok(done)
}

/// One client's operations, one after the other; returns their latencies in nanoseconds.
async fn run_client(
    keyspace: &Keyspace,
    contents: &[u8],
    what: RepeatedWork,
    (begin, until): (Instant, Instant),
    seed: u64,
) -> Result<Vec<u64>, Error> {
    let mut draws = Draws::new(seed);
    let blobs: Vec<_> = (0..OBJECTS).map(|object| keyspace.blob(name(object))).collect();
    let mut took = Vec::new();
    let mut ended = now();
    loop {
        let object = draws.draw() as usize % OBJECTS;
        let started = ended;
        if started >= until {
            return Ok(took);
        }
        let place = |bytes: usize| {
            let places = contents.len() / bytes;
            (draws.draw() as usize % places * bytes) as u64
        };
        let mut place = place;
        let right = match what {
            RepeatedWork::Read { bytes } => {
                let at = place(bytes);
                let read = blobs[object].read_at(at, bytes as u64).await?.read_to_end().await?;
                // A concurrent writer may have replaced it, with the same contents.
                read.len() == bytes
            }
            RepeatedWork::Write { bytes } => {
                let at = place(bytes);
                blobs[object].write_at(at, &contents[..bytes]).await?;
                true
            }
            RepeatedWork::ReadChunks => {
                let at = place(SMALL_BYTES) % (CHUNK_BYTES as u64);
                let ranges: Vec<(u64, u64)> = (0..CHUNKS as u64)
                    .map(|chunk| (chunk * CHUNK_BYTES as u64 + at, SMALL_BYTES as u64))
                    .collect();
                let read = blobs[object].read_ranges(&ranges).await?;
                read.len() == CHUNKS && read.iter().all(|one| one.len() == SMALL_BYTES)
            }
            RepeatedWork::Lookup => {
                let found = keyspace.lookup_bytes(&name(object)).await?;
                found.is_some_and(|found| found.len() == SMALL_BYTES)
            }
        };
        assert!(right, "a read brought something else than was written");
        ended = now();
        if started >= begin {
            took.push((ended - started).as_nanos() as u64);
        }
    }
}

fn name(object: usize) -> String {
    format!("object-{object}")
}

/// Starts a cluster and runs work on it, on a single-threaded runtime.
fn on<F>(
    place: &Place,
    (nodes, chunk, durability): (u16, &str, &str),
    work: impl FnOnce(Cluster) -> F,
) -> Result<Measurement, Failure>
where
    F: Future<Output = Result<Measurement, Failure>>,
{
    let setting = format!("--durability {durability} --replicas 1 --min-in-sync 1 --chunk-size {chunk}");
    let cluster = Cluster::start(place, nodes, &setting)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::while_doing("starting the clients' runtime"))?;
    LocalSet::new().block_on(&runtime, work(cluster))
}

fn failed(error: Error) -> Failure {
    Failure::Protocol(error.to_string())
}

fn thousands(done: &WorkDone) -> f64 {
    done.latencies.count() as f64 / done.passed.as_secs_f64() / 1e3
}

fn megabytes(done: &WorkDone, bytes: usize) -> f64 {
    thousands(done) * bytes as f64 / 1e3
}
