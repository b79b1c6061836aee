//! The load and the workloads on connected stores of any system, and their figures.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use bench_common::failure::Failure;
use bench_common::histogram::Histogram;
use bench_common::process::now;
use bench_common::reading::Measurement;
use bench_common::usage::{Cpu, own_cpu};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zerohop_ycsb::{YcsbFailure, YcsbOperation, YcsbPart, YcsbRun, YcsbStore, YcsbWorkload, operate_all};

use crate::limits;
use crate::modes::{CLIENTS_CPU, RATE, SERVERS_CPU, latency};

/// The size of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Orders {
    pub(crate) records: u64,
    pub(crate) value_bytes: u32,
    pub(crate) clients: u32,
    /// Operations under way of each client.
    pub(crate) depth: u32,
    /// Measured time of each workload.
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
}

impl Orders {
    /// Operations under way of all clients.
    pub(crate) fn operations(self) -> u32 {
        self.clients * self.depth
    }

    /// Operations under way of the load.
    pub(crate) fn load_operations(self) -> u32 {
        self.operations().max(limits::LOAD_OPERATIONS)
    }
}

/// The latencies by operation, as in [`YcsbOperation::ALL`].
type Latencies = [Histogram; 5];

/// What a task of a part leaves: its place, its store, its latencies, and how it ended.
type PartOutcome<S, E> = (usize, S, Latencies, Result<(), YcsbFailure<E>>);

/// Stores with loaded records: one for each operation under way.
pub(crate) struct LoadedStores<S> {
    run: Arc<YcsbRun>,
    stores: Vec<S>,
    seconds: u64,
}

impl<S> LoadedStores<S>
where
    S: YcsbStore + 'static,
    S::Error: Display,
{
    /// Loads the records through all of these stores, and keeps the first ones for the workloads. Returns also how long that took.
    pub(crate) async fn load(stores: Vec<S>, orders: Orders) -> Result<(LoadedStores<S>, Duration), Failure> {
        let run = Arc::new(YcsbRun::new(orders.records, orders.value_bytes as usize, orders.seed));
        let mut loaded = LoadedStores { run, stores, seconds: orders.seconds };
        let (_, took) = loaded.part(YcsbPart::Load, orders.records, limits::LOAD).await?;
        loaded.stores.truncate(orders.operations() as usize);
        Ok((loaded, took))
    }

    /// Runs a workload for its time. `cpu` reads the CPU time of the servers.
    pub(crate) async fn measure(
        &mut self,
        workload: YcsbWorkload,
        cpu: impl Fn() -> Result<Cpu, Failure>,
    ) -> Result<Measurement, Failure> {
        let (servers, own) = (cpu()?, own_cpu());
        let limit = Duration::from_secs(self.seconds) + limits::OPERATION;
        let (latencies, took) = self.part(YcsbPart::Run(workload), u64::MAX, limit).await?;
        Ok(figures(&latencies, took, cpu()?.since(servers), own_cpu() - own))
    }

    /// Does a part: a load until all records are there, a workload until its time is over.
    async fn part(
        &mut self,
        part: YcsbPart,
        count: u64,
        limit: Duration,
    ) -> Result<(Latencies, Duration), Failure> {
        self.run.begin();
        let started = now();
        let mut tasks = JoinSet::new();
        for (at, mut store) in self.stores.drain(..).enumerate() {
            let run = Arc::clone(&self.run);
            tasks.spawn(async move {
                let mut latencies: Latencies = std::array::from_fn(|_| Histogram::new());
                let record = |operation: YcsbOperation, took: Duration| {
                    latencies[operation as usize].record(took.as_nanos() as u64, 1);
                };
                let ended = operate_all(&run, part, count, &mut store, record).await;
                (at, store, latencies, ended)
            });
        }
        let (run, time) = (Arc::clone(&self.run), Duration::from_secs(self.seconds));
        let stop = matches!(part, YcsbPart::Run(_)).then(|| {
            tokio::spawn(async move {
                sleep(time).await;
                run.stop();
            })
        });
        let ended = timeout(limit, self.join(tasks)).await;
        let took = now() - started;
        if let Some(stop) = stop {
            stop.abort();
        }
        Ok((ended.map_err(|_| Failure::TimedOut(limit))??, took))
    }

    /// Waits for all tasks, and gets the stores back in their order.
    async fn join(&mut self, mut tasks: JoinSet<PartOutcome<S, S::Error>>) -> Result<Latencies, Failure> {
        let mut all: Latencies = std::array::from_fn(|_| Histogram::new());
        let (mut stores, mut failed) = (BTreeMap::new(), None);
        while let Some(ended) = tasks.join_next().await {
            let panicked = |_| Failure::Usage("a client has panicked".into());
            let (at, store, latencies, ended) = ended.map_err(panicked)?;
            stores.insert(at, store);
            all.iter_mut().zip(&latencies).for_each(|(sum, one)| sum.add(one));
            match ended {
                Ok(()) => {}
                Err(YcsbFailure::Failed(error)) => _ = failed.get_or_insert(error.to_string()),
                Err(YcsbFailure::Wrong(what)) => _ = failed.get_or_insert(format!("WRONG: {what}")),
            }
        }
        self.stores.extend(stores.into_values());
        failed.map_or(Ok(all), |why| Err(Failure::Usage(why)))
    }
}

fn figures(latencies: &Latencies, took: Duration, servers: Cpu, clients: Duration) -> Measurement {
    let ended: u64 = latencies.iter().map(Histogram::count).sum();
    let per_operation = |time: Duration| time.as_secs_f64() * 1e6 / ended.max(1) as f64;
    let mut figures = Measurement::default();
    figures.put(RATE, ended as f64 / took.as_secs_f64().max(1e-9));
    for (operation, latencies) in YcsbOperation::ALL.into_iter().zip(latencies) {
        if latencies.count() == 0 {
            continue;
        }
        for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
            figures.put(&latency(operation, name), latencies.percentile(part) as f64 / 1e3);
        }
    }
    figures.put(SERVERS_CPU, per_operation(servers.ran));
    figures.put("servers kept waiting us/operation", per_operation(servers.waited));
    figures.put(CLIENTS_CPU, per_operation(clients));
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_rates_of_the_time_and_latencies_of_what_was_done() {
        let mut latencies: Latencies = std::array::from_fn(|_| Histogram::new());
        latencies[YcsbOperation::Read as usize].record(2_000, 30);
        latencies[YcsbOperation::Scan as usize].record(40_000, 10);
        let servers = Cpu { ran: Duration::from_micros(400), waited: Duration::ZERO };
        let figures = figures(&latencies, Duration::from_secs(2), servers, Duration::from_micros(80));
        let figure = |name: &str| figures.get(name);
        assert_eq!(
            (figure(RATE), figure(SERVERS_CPU), figure(CLIENTS_CPU)),
            (Some(20.0), Some(10.0), Some(2.0))
        );
        assert!(figure("read p50 us").is_some_and(|us| (1.9..2.1).contains(&us)));
        assert!(figure("scan p99 us").is_some_and(|us| (39.0..41.0).contains(&us)));
        assert_eq!(figure("update p50 us"), None);
    }
}
