//! Transactions of two keys on zerohop, compared with single writes, with transactions over many
//! partitions, with contended ones, and with the same two keys on etcd.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bench_common::failure::Failure;
use bench_common::generator::{Generator, KeySource, Table};
use bench_common::histogram::Histogram;
use bench_common::process::now;
use bench_common::protocol::Op;
use bench_common::reading::Measurement;
use bench_common::workload::{Draws, Records, shuffled};
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};
use zerohop_client::{Client, Error, Keyspace};

use super::Orders;
use super::clients::{client_failure, connect_client};
use crate::etcd::Etcd;
use crate::limits::{CLIENTS, CONTENDED, MANY_KEYS, WARM_UP, ZIPF};
use crate::servers::{Cluster, Place, Setting};

/// The operation of a client, repeated one after the other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LoadKind {
    /// One replicated write.
    Write,
    /// Two blind writes as one transaction.
    Two,
    /// [`MANY_KEYS`] blind writes as one transaction.
    Many,
    /// Two keys that all clients draw by the same Zipf distribution.
    Contended,
}

struct Run {
    records: Records,
    /// The cumulative Zipf distribution over the records.
    demand: Vec<f64>,
    failed: Cell<u64>,
}

pub(super) fn on_zerohop(setting: Setting, place: Place, orders: &Orders) -> Result<Measurement, Failure> {
    let mut cluster = Cluster::of_zerohop(place)?;
    cluster.create_keyspace(setting)?;
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::while_doing("starting the clients' runtime"))?;
    let measured = LocalSet::new().block_on(&runtime, measure(&cluster, orders));
    // A server that has ended explains more than the clients' error.
    cluster.check()?;
    measured
}

async fn measure(cluster: &Cluster, orders: &Orders) -> Result<Measurement, Failure> {
    let records = Records::new(orders.records, orders.seed);
    let mut sum = 0.0;
    let demand = (1..=orders.records).map(|rank| {
        sum += f64::from(rank).powf(-ZIPF);
        sum
    });
    let run = Rc::new(Run { demand: demand.collect(), records, failed: Cell::new(0) });
    let mut clients = Vec::new();
    for _ in 0..CONTENDED.iter().copied().max().unwrap_or(CLIENTS).max(CLIENTS) {
        clients.push(connect_client(&cluster.addresses).await?);
    }
    let mut reading = Measurement::default();
    let alone = &clients[..1];
    let all = &clients[..CLIENTS];
    let us = |latencies: &Histogram| latencies.percentile(0.5) as f64 / 1e3;
    let (write, _) = phase(&run, LoadKind::Write, alone, orders).await?;
    let (two, _) = phase(&run, LoadKind::Two, alone, orders).await?;
    let (many, _) = phase(&run, LoadKind::Many, alone, orders).await?;
    let (_, writes) = phase(&run, LoadKind::Write, all, orders).await?;
    let (_, twos) = phase(&run, LoadKind::Two, all, orders).await?;
    reading.put("write p50 us", us(&write));
    reading.put("two-key p50 us", us(&two));
    reading.put("64 keys p50 us", us(&many));
    reading.put("write K op/s", writes / 1e3);
    reading.put("two-key K txn/s", twos / 1e3);
    reading.put("latency of two / write", us(&two) / us(&write));
    reading.put("latency of 64 / two", us(&many) / us(&two));
    reading.put("rate of two / write", twos / writes);
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for count in CONTENDED {
        let (_, rate) = phase(&run, LoadKind::Contended, &clients[..count], orders).await?;
        reading.put(&format!("zipf, {count} clients K txn/s"), rate / 1e3);
        (least, most) = (least.min(rate), most.max(rate));
    }
    reading.put("zipf least / peak", least / most);
    reading.put("failed transactions", run.failed.get() as f64);
    Ok(reading)
}

/// Runs clients for the measured time, after a warm-up. Returns latencies, and the rate per second.
async fn phase(
    run: &Rc<Run>,
    kind: LoadKind,
    clients: &[(Client, Keyspace)],
    orders: &Orders,
) -> Result<(Histogram, f64), Failure> {
    let begin = now() + Duration::from_secs_f64(orders.seconds * WARM_UP);
    let end = begin + Duration::from_secs_f64(orders.seconds);
    let mut tasks = Vec::with_capacity(clients.len());
    for (number, client) in clients.iter().enumerate() {
        let (run, client) = (Rc::clone(run), client.clone());
        let mut draws = Draws::new(orders.seed ^ (number as u64) << 32 ^ kind as u64);
        tasks.push(spawn_local(async move {
            let mut latencies = Histogram::new();
            loop {
                let started = now();
                if started >= end {
                    return Ok::<_, Failure>(latencies);
                }
                match run.one(kind, &client, &mut draws).await {
                    Ok(()) if started >= begin => latencies.record((now() - started).as_nanos() as u64, 1),
                    Ok(()) => {}
                    Err(error) if error.is_conflict() => run.failed.set(run.failed.get() + 1),
                    Err(error) => return Err(client_failure(error)),
                }
            }
        }));
    }
    let mut all = Histogram::new();
    for task in tasks {
        all.add(&task.await.map_err(|error| Failure::Protocol(error.to_string()))??);
    }
    let rate = all.count() as f64 / orders.seconds;
    Ok((all, rate))
}

impl Run {
    async fn one(
        &self,
        kind: LoadKind,
        (client, keyspace): &(Client, Keyspace),
        draws: &mut Draws,
    ) -> Result<(), Error> {
        let count = match kind {
            LoadKind::Write => {
                let index = self.draw(false, draws);
                return keyspace
                    .insert(self.records.key(index), self.records.value(index, 1))
                    .await
                    .map(drop);
            }
            LoadKind::Two | LoadKind::Contended => 2,
            LoadKind::Many => MANY_KEYS,
        };
        let transaction = client.begin();
        for _ in 0..count {
            let index = self.draw(kind == LoadKind::Contended, draws);
            transaction.insert(keyspace, self.records.key(index), self.records.value(index, 1))?;
        }
        transaction.commit().await.map(drop)
    }

    fn draw(&self, is_contended: bool, draws: &mut Draws) -> u32 {
        let drawn = draws.draw();
        let count = self.records.count();
        match self.demand.last() {
            Some(all) if is_contended => {
                let at = drawn as f64 / u64::MAX as f64 * all;
                (self.demand.partition_point(|upto| *upto < at) as u32).min(count - 1)
            }
            _ => ((u128::from(drawn) * u128::from(count)) >> 64) as u32,
        }
    }
}

/// The same two keys in one transaction of etcd: as many connections, shared among the members.
pub(super) fn on_etcd(place: Place, orders: &Orders) -> Result<Measurement, Failure> {
    let mut cluster = Cluster::of_etcd(place)?;
    let members = cluster.addresses.clone();
    let order = shuffled(orders.records, orders.seed);
    let keys: Vec<Vec<u32>> = (0..members.len())
        .map(|server| order.iter().skip(server).step_by(members.len()).copied().collect())
        .collect();
    let mut reading = Measurement::default();
    for (clients, figure) in [(1, "two-key p50 us"), (CLIENTS, "two-key K txn/s")] {
        let open =
            |server: usize| Etcd::open_pairs(members[server]).map(|(stream, etcd)| (server, stream, etcd));
        let connections = (0..clients).map(|client| open(client % keys.len()));
        let mut generator = Generator::of_servers(connections.collect::<Result<Vec<_>, Failure>>()?)?;
        let mut table = Table::new(Records::new(orders.records, orders.seed));
        let mut for_seconds = |seconds: f64| {
            let start = now();
            let mut latencies = Histogram::new();
            let source = KeySource::of_servers(&keys, Some(start + Duration::from_secs_f64(seconds)));
            generator.run(Op::Insert, source, 1, &mut table, &mut latencies)?;
            Ok::<_, Failure>((latencies, (now() - start).as_secs_f64()))
        };
        for_seconds(orders.seconds * WARM_UP)?;
        let (latencies, took) = for_seconds(orders.seconds)?;
        let value = match clients {
            1 => latencies.percentile(0.5) as f64 / 1e3,
            _ => latencies.count() as f64 / took / 1e3,
        };
        reading.put(figure, value);
    }
    cluster.check()?;
    Ok(reading)
}
