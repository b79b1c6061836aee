//! The Rust client's load: inserts, one at a time or many, collected or not.

use std::rc::Rc;
use std::time::Duration;

use bench_common::failure::Failure;
use bench_common::histogram::Histogram;
use bench_common::process::now;
use bench_common::reading::Measurement;
use bench_common::usage::{Cpu, own_cpu};
use bench_common::workload::Records;
use tokio::runtime::Builder;
use tokio::task::LocalSet;
use zerohop_client::{Client, ClientOptions, Coalescing, Collect, Error, Keyspace};

use super::Orders;
use crate::subjects::RunningServer;

/// How the client is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientUse {
    /// One operation at a time: its closed loop.
    OneByOne,
    /// [`MANY`] at a time, each in its own frame.
    Many,
    /// [`MANY`] at a time, collected for up to a millisecond.
    Collected,
}

/// Enough for several full batches in a millisecond.
const MANY: u32 = 1024;

/// How long the client waits for further operations, and up to how many bytes.
const COLLECT: Collect = Collect { delay_us: 1000, bytes: 64 << 10 };

/// Records looked up at the end.
const CHECKED: u32 = 1000;

/// Warm-up before the measured time, as a fraction of it.
const WARM_UP: f64 = 0.2;

pub(super) fn insert(
    way: ClientUse,
    running: &RunningServer,
    orders: &Orders,
) -> Result<Measurement, Failure> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::while_doing("starting the client's runtime"))?;
    LocalSet::new().block_on(&runtime, measure(way, running, orders))
}

async fn measure(way: ClientUse, running: &RunningServer, orders: &Orders) -> Result<Measurement, Failure> {
    let (tasks, collecting) = match way {
        ClientUse::OneByOne => (1, Coalescing::Never),
        ClientUse::Many => (MANY, Coalescing::Never),
        ClientUse::Collected => (MANY, Coalescing::Within(COLLECT)),
    };
    let options = ClientOptions { collecting, ..ClientOptions::default() };
    let client =
        Client::connect_with(&[&running.address.to_string()], options).await.map_err(client_failure)?;
    let keyspace = client.keyspace(running.keyspace).await.map_err(client_failure)?;
    let records = Rc::new(Records::new(orders.records, orders.seed));

    insert_for(tasks, orders.seconds * WARM_UP, &keyspace, &records).await?;
    let pid = running.server.pid();
    let (server, own, start) = (Cpu::of(pid)?, own_cpu(), now());
    let latencies = insert_for(tasks, orders.seconds, &keyspace, &records).await?;
    let took = (now() - start).as_secs_f64();
    let (own, server) = (own_cpu() - own, Cpu::of(pid)?.since(server));
    check(tasks, &keyspace, &records).await?;

    let ops = latencies.count() as f64;
    let mut reading = Measurement::default();
    reading.put("insert K op/s", ops / took / 1e3);
    reading.put("insert p50 us", latencies.percentile(0.5) as f64 / 1e3);
    reading.put("insert p99 us", latencies.percentile(0.99) as f64 / 1e3);
    reading.put("insert server CPU us/op", server.ran.as_secs_f64() * 1e6 / ops);
    reading.put("insert client CPU us/op", own.as_secs_f64() * 1e6 / ops);
    Ok(reading)
}

/// So many tasks insert their own records, each the next one when the last is done.
async fn insert_for(
    tasks: u32,
    seconds: f64,
    keyspace: &Keyspace,
    records: &Rc<Records>,
) -> Result<Histogram, Failure> {
    let until = now() + Duration::from_secs_f64(seconds);
    let all: Vec<_> = (0..tasks)
        .map(|task| {
            let (keyspace, records) = (keyspace.clone(), Rc::clone(records));
            tokio::task::spawn_local(async move {
                let mut latencies = Vec::new();
                let own = (task..records.count()).step_by(tasks as usize);
                for index in own.cycle() {
                    let start = now();
                    if start >= until {
                        break;
                    }
                    keyspace.insert(records.key(index), records.value(index, 0)).await?;
                    latencies.push((now() - start).as_nanos() as u64);
                }
                Ok::<_, Error>(latencies)
            })
        })
        .collect();
    let mut histogram = Histogram::new();
    for task in all {
        let latencies =
            task.await.map_err(|error| Failure::Protocol(error.to_string()))?.map_err(client_failure)?;
        latencies.into_iter().for_each(|ns| histogram.record(ns, 1));
    }
    Ok(histogram)
}

/// Every task has inserted at least its first record.
async fn check(tasks: u32, keyspace: &Keyspace, records: &Records) -> Result<(), Failure> {
    for index in 0..tasks.min(CHECKED) {
        let found = keyspace.lookup_bytes(records.key(index)).await.map_err(client_failure)?;
        if found.as_deref() != Some(records.value(index, 0).as_slice()) {
            let what = if found.is_some() { "has a wrong value" } else { "is missing" };
            return Err(Failure::WrongAnswer { key: *records.key(index), what: what.into() });
        }
    }
    Ok(())
}

fn client_failure(error: Error) -> Failure {
    Failure::Protocol(error.to_string())
}
