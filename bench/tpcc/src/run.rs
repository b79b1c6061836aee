//! One run of a system: servers, population, terminals, full scan, conditions.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use bench_common::driver::print_error;
use bench_common::failure::Failure;
use bench_common::postgresql::PostgresqlServer;
use bench_common::process::now;
use bench_common::servers::{Cluster, Place};
use bench_common::usage::{Cpu, own_cpu};
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use crate::conditions::{self, AcknowledgedRows, ConditionResult};
use crate::database::{DatabaseConnection, TransactionError};
use crate::inputs::TransactionKind;
use crate::limits;
use crate::loader;
use crate::modes::{Mode, System};
use crate::moving::{self, Mark};
use crate::population::Scale;
use crate::postgresql::{self, Session};
use crate::tables::Tables;
use crate::terminals::{self, Orders, TerminalCounts};
use crate::zerohop::{self, Database};

/// What a run has measured.
pub(crate) struct RunMeasurement {
    /// The system with its version, as far as it says that.
    pub(crate) version: String,
    pub(crate) counts: TerminalCounts,
    /// CPU time in the measured time: of all servers, and of the terminals.
    pub(crate) servers: Cpu,
    pub(crate) terminals: Duration,
    pub(crate) conditions: Vec<ConditionResult>,
    pub(crate) marks: Vec<Mark>,
}

/// The counts of the terminals, with the CPU time.
type CountsAndCpu = (TerminalCounts, Cpu, Duration);

/// Runs the terminals on a system in an empty folder.
pub(crate) fn run(
    system: System,
    mode: Mode,
    place: &Place,
    orders: Orders,
) -> Result<RunMeasurement, Failure> {
    match system {
        System::Zerohop | System::ZerohopMoving => run_zerohop(system, mode, place, orders),
        System::Postgresql => run_postgresql(place, orders),
    }
}

fn run_zerohop(system: System, mode: Mode, place: &Place, orders: Orders) -> Result<RunMeasurement, Failure> {
    let is_moving = system == System::ZerohopMoving;
    // A region can only move to a node without a copy of it.
    let nodes = mode.copies + u16::from(is_moving);
    let mut cluster = Cluster::without_keyspaces(place, nodes)?;
    zerohop::create(&mut cluster, orders.scale.warehouses, mode.copies, mode.durability)?;
    let (begin, begun) = channel::<Instant>();
    let (counts, tables, marks) = thread::scope(|scope| {
        let mover = is_moving.then(|| {
            let cluster = &cluster;
            scope.spawn(move || match begun.recv() {
                Ok(started) => moving::run(cluster, orders.scale.warehouses, started, orders.seconds),
                // The terminals have never begun.
                Err(_) => Ok(Vec::new()),
            })
        });
        let result = on_runtime(run_on_cluster(&cluster, orders, |started| {
            // Without a mover none receives it.
            let _ = begin.send(started);
        }));
        drop(begin);
        let panicked = |_| Failure::Protocol("nothing: the moves have panicked".into());
        let marks = mover.map_or(Ok(Ok(Vec::new())), |mover| mover.join().map_err(panicked))?;
        let (counts, tables) = result?;
        Ok::<_, Failure>((counts, tables, marks?))
    })?;
    cluster.end()?;
    Ok(RunMeasurement::new(format!("zerohop, {nodes} nodes"), counts, &tables, marks, orders.scale))
}

async fn run_on_cluster(
    cluster: &Cluster,
    orders: Orders,
    begin: impl FnOnce(Instant),
) -> Result<(CountsAndCpu, Tables), Failure> {
    // A client for each warehouse: its terminals share the connections.
    let mut databases = Vec::new();
    for _ in 0..orders.scale.warehouses {
        databases.push(Database::connect(&cluster.addresses).await.map_err(failure)?);
    }
    loader::populate(&databases[0], orders.scale, orders.seed, orders.time).await.map_err(failure)?;
    let terminals = orders.terminals as usize;
    let connections: Vec<Database> =
        databases.iter().flat_map(|database| std::iter::repeat_n(database.clone(), terminals)).collect();
    let counts = measure(connections, orders, &|| cluster.cpu(), begin).await?;
    let tables = databases[0].read_tables().await.map_err(failure)?;
    Ok((counts, tables))
}

fn run_postgresql(place: &Place, orders: Orders) -> Result<RunMeasurement, Failure> {
    let terminals = orders.all_terminals();
    if terminals > limits::POSTGRESQL_TERMINALS_MAX {
        let most = limits::POSTGRESQL_TERMINALS_MAX;
        return Err(Failure::Usage(format!(
            "{terminals} terminals: PostgreSQL has a process for each, up to {most}"
        )));
    }
    let mut server = postgresql::start(place, terminals + limits::POSTGRESQL_CONNECTIONS)?;
    let (version, counts, tables) = on_runtime(run_on_server(&mut server, orders))?;
    server.end()?;
    Ok(RunMeasurement::new(format!("PostgreSQL {version}"), counts, &tables, Vec::new(), orders.scale))
}

async fn run_on_server(
    server: &mut PostgresqlServer,
    orders: Orders,
) -> Result<(String, CountsAndCpu, Tables), Failure> {
    let client = postgresql::connect_first(server).await?;
    let version = postgresql::version(&client).await.map_err(failure)?;
    postgresql::create(&client).await.map_err(failure)?;
    let loading = postgresql::loading(server).await.map_err(failure)?;
    loader::populate(&loading, orders.scale, orders.seed, orders.time).await.map_err(failure)?;
    drop(loading);
    postgresql::finish_population(&client).await.map_err(failure)?;
    let mut sessions = Vec::new();
    for _ in 0..orders.all_terminals() {
        sessions.push(Session::connect(server).await.map_err(failure)?);
    }
    // The clones keep the connections, so that the CPU time of their processes can be read at the end.
    let counts = measure(sessions.clone(), orders, &|| server.cpu(), |_| ()).await?;
    drop(sessions);
    let tables = postgresql::read_tables(&client).await.map_err(failure)?;
    Ok((version, counts, tables))
}

async fn measure<S: DatabaseConnection>(
    connections: Vec<S>,
    orders: Orders,
    cpu: &dyn Fn() -> Result<Cpu, Failure>,
    begin: impl FnOnce(Instant),
) -> Result<CountsAndCpu, Failure> {
    print_error(&format!("{} s of transactions", orders.seconds));
    let (servers, own) = (cpu()?, own_cpu());
    let started = now();
    begin(started);
    let counts = terminals::run(connections, orders, started).await;
    let measured = (counts, cpu()?.since(servers), own_cpu() - own);
    print_error("reading all rows for the consistency conditions");
    Ok(measured)
}

fn on_runtime<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::while_doing("starting the clients' runtime"))?;
    // Connections end with it.
    LocalSet::new().block_on(&runtime, work)
}

impl RunMeasurement {
    fn new(
        version: String,
        (counts, servers, terminals): CountsAndCpu,
        tables: &Tables,
        marks: Vec<Mark>,
        scale: Scale,
    ) -> RunMeasurement {
        let conditions = conditions::check(tables, expected(scale, &counts).as_ref());
        RunMeasurement { version, counts, servers, terminals, conditions, marks }
    }
}

/// The rows that must exist; `None` if the outcome of a transaction is unknown.
fn expected(scale: Scale, measured: &TerminalCounts) -> Option<AcknowledgedRows> {
    if measured.kinds.iter().any(|counts| counts.unknown > 0) {
        return None;
    }
    let mut expected = AcknowledgedRows::of(scale);
    expected.orders += measured.of(TransactionKind::NewOrder).committed;
    expected.payments += measured.of(TransactionKind::Payment).committed;
    for district in &measured.delivered {
        *expected.delivered.entry(*district).or_default() += 1;
    }
    Some(expected)
}

fn failure(error: TransactionError) -> Failure {
    Failure::Protocol(error.to_string())
}
