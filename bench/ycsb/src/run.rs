//! One run of a system: a server in an empty folder, the load, and one workload after the other.

use std::fmt::Display;

use bench_common::driver::print_error;
use bench_common::failure::Failure;
use bench_common::limits::{END, SERVING, STATUS_POLL};
use bench_common::postgresql::PostgresqlServer;
use bench_common::process::now;
use bench_common::reading::Measurement;
use bench_common::servers::{Cluster, Place};
use bench_common::usage::Cpu;
use tokio::runtime::Builder;
use zerohop_ycsb::{YcsbStore, YcsbWorkload};

use crate::etcd::{self, EtcdStore};
use crate::modes::{Mode, System};
use crate::postgresql::{self, PostgresqlStore};
use crate::redis::{self, RedisStore};
use crate::workloads::{LoadedStores, Orders};
use crate::zerohop;

/// The outcome of each workload that has begun.
type WorkloadOutcomes = Vec<(YcsbWorkload, Result<Measurement, Failure>)>;

/// Runs the workloads on a system in an empty folder: first those without scans on one server, then those with scans on another one, because
/// Redis needs an index for them. The outcome of each is returned. After a failure the others of that server have the same.
pub(crate) fn run(
    system: System,
    mode: Mode,
    place: &Place,
    workloads: &[YcsbWorkload],
    orders: Orders,
) -> WorkloadOutcomes {
    let mut all = Vec::new();
    for scans in [false, true] {
        let chosen: Vec<YcsbWorkload> =
            workloads.iter().copied().filter(|workload| workload.scans() == scans).collect();
        if chosen.is_empty() {
            continue;
        }
        let dir = place.dir.join(if scans { "scans" } else { "records" });
        let place = Place { own_program: place.own_program.clone(), cores: place.cores.clone(), dir };
        let mut measured = Vec::new();
        let ended = std::fs::create_dir(&place.dir)
            .map_err(Failure::io("creating", &place.dir))
            .and_then(|()| run_server(system, mode, &place, &chosen, orders, &mut measured));
        if let Err(failure) = ended {
            let why = failure.to_string();
            // A server that does not end in order has no valid figures either.
            let missing = chosen.iter().filter(|workload| !measured.iter().any(|(of, _)| of == *workload));
            let missing: Vec<YcsbWorkload> = missing.copied().collect();
            let affected = if missing.is_empty() { chosen.clone() } else { missing };
            measured.retain(|(of, _)| !affected.contains(of));
            measured.extend(affected.into_iter().map(|of| (of, Err(Failure::Usage(why.clone())))));
        }
        all.append(&mut measured);
    }
    all
}

/// Runs workloads on one server. An error is that of the first workload which is not in `measured`, or of the end.
fn run_server(
    system: System,
    mode: Mode,
    place: &Place,
    workloads: &[YcsbWorkload],
    orders: Orders,
    measured: &mut WorkloadOutcomes,
) -> Result<(), Failure> {
    match system {
        System::Zerohop => {
            let cluster = zerohop::start(place, mode)?;
            on_runtime(on_zerohop(&cluster, workloads, orders, measured))?;
            cluster.end()
        }
        System::Redis => {
            let (mut server, address) = redis::start(place, mode)?;
            let has_index = workloads.iter().any(|workload| workload.scans());
            on_runtime(async {
                let connect = || RedisStore::connect(address, has_index);
                let mut stores = vec![first(|| server.check(), async || connect().await).await?];
                for _ in 1..orders.load_operations() {
                    stores.push(connect().await?);
                }
                measure(stores, &|| Cpu::of_family(server.pid()), workloads, orders, measured).await
            })?;
            server.end(END)
        }
        System::Etcd => {
            let (mut server, address) = etcd::start(place)?;
            on_runtime(async {
                let serving = async || {
                    let mut store = EtcdStore::connect(address).await?;
                    // It has elected itself when it answers.
                    store.read("ready").await.map(|_| store)
                };
                let mut stores = vec![first(|| server.check(), serving).await?];
                for _ in 1..orders.load_operations() {
                    stores.push(EtcdStore::connect(address).await?);
                }
                measure(stores, &|| Cpu::of_family(server.pid()), workloads, orders, measured).await
            })?;
            // It ends by the signal itself, which counts as no success.
            server.kill()
        }
        System::Postgresql => {
            let mut server = postgresql::start(place, mode, orders.load_operations())?;
            on_runtime(on_postgresql(&mut server, workloads, orders, measured))?;
            server.end()
        }
    }
}

async fn on_zerohop(
    cluster: &Cluster,
    workloads: &[YcsbWorkload],
    orders: Orders,
    measured: &mut WorkloadOutcomes,
) -> Result<(), Failure> {
    let mut clients = Vec::new();
    for _ in 0..orders.clients {
        clients.push(zerohop::connect(&cluster.addresses).await.map_err(failure)?);
    }
    // Operations of a client share its connections.
    let stores = clients.iter().cycle().take(orders.load_operations() as usize).cloned().collect();
    measure(stores, &|| cluster.cpu(), workloads, orders, measured).await
}

async fn on_postgresql(
    server: &mut PostgresqlServer,
    workloads: &[YcsbWorkload],
    orders: Orders,
    measured: &mut WorkloadOutcomes,
) -> Result<(), Failure> {
    let socket = server.socket().to_path_buf();
    let connect = async || postgresql::connect(&socket).await.map_err(failure);
    let client = first(|| server.check(), connect).await?;
    postgresql::create(&client).await.map_err(failure)?;
    let mut stores = Vec::new();
    for _ in 0..orders.load_operations() {
        stores.push(PostgresqlStore::connect(&socket).await.map_err(failure)?);
    }
    let mut loaded = load(stores, orders).await?;
    postgresql::finish_load(&client).await.map_err(failure)?;
    for workload in workloads {
        measured.push((*workload, Ok(loaded.measure(*workload, || server.cpu()).await?)));
    }
    Ok(())
}

/// Loads the stores, and runs the workloads until one fails.
async fn measure<S>(
    stores: Vec<S>,
    cpu: &dyn Fn() -> Result<Cpu, Failure>,
    workloads: &[YcsbWorkload],
    orders: Orders,
    measured: &mut WorkloadOutcomes,
) -> Result<(), Failure>
where
    S: YcsbStore + 'static,
    S::Error: Display,
{
    let mut loaded = load(stores, orders).await?;
    for workload in workloads {
        measured.push((*workload, Ok(loaded.measure(*workload, cpu).await?)));
    }
    Ok(())
}

async fn load<S>(stores: Vec<S>, orders: Orders) -> Result<LoadedStores<S>, Failure>
where
    S: YcsbStore + 'static,
    S::Error: Display,
{
    let (loaded, took) = LoadedStores::load(stores, orders).await?;
    let rate = orders.records as f64 / took.as_secs_f64().max(1e-9);
    print_error(&format!("{} records loaded, {rate:.0} a second", orders.records));
    Ok(loaded)
}

/// The first connection to a server that is starting.
async fn first<C>(
    mut check: impl FnMut() -> Result<(), Failure>,
    connect: impl AsyncFn() -> Result<C, Failure>,
) -> Result<C, Failure> {
    let deadline = now() + SERVING;
    loop {
        check()?;
        match connect().await {
            Ok(connection) => return Ok(connection),
            Err(error) if now() >= deadline => {
                return Err(Failure::Protocol(format!("nothing in time: {error}")));
            }
            Err(_) => tokio::time::sleep(STATUS_POLL).await,
        }
    }
}

fn on_runtime<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::while_doing("starting the clients' runtime"))?;
    // Connections end with it.
    runtime.block_on(work)
}

fn failure(error: impl Display) -> Failure {
    Failure::Usage(error.to_string())
}
