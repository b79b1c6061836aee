//! 32 Rust clients under faults, each with its own connections and its own records. A client
//! inserts one record at a time, and remembers the acknowledged versions and the longest gap
//! between two acknowledgements.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use bench_common::failure::Failure;
use bench_common::process::now;
use bench_common::workload::Records;
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};
use zerohop_client::{Client, ClientOptions, Error, Keyspace};

use crate::limits::{CLIENTS, OPERATION};
use crate::servers::KEYSPACE;

/// The results of one client.
struct ClientInserts {
    client: usize,
    /// For each of its records: the last acknowledged version, and the last attempted one.
    versions: Vec<(u8, u8)>,
    acknowledged: u64,
    failed: u64,
    gap: Duration,
    /// The first error.
    first_error: Option<String>,
}

/// The results of all clients, and of the final verification.
#[derive(Default)]
pub(crate) struct AllInserts {
    pub(crate) acknowledged: u64,
    pub(crate) failed: u64,
    pub(crate) lost: u64,
    pub(crate) gap: Duration,
    /// The first error.
    pub(crate) first_error: Option<String>,
}

/// Runs all clients until `stop`, and reports when they have started. Then reads everything back.
pub(crate) fn insert_until(
    stop: &Arc<AtomicBool>,
    begun: &Sender<()>,
    endpoints: &[SocketAddr],
    records: Records,
) -> Result<AllInserts, Failure> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::while_doing("starting the clients' runtime"))?;
    LocalSet::new().block_on(&runtime, async {
        let records = Rc::new(records);
        let mut tasks = Vec::with_capacity(CLIENTS);
        for client in 0..CLIENTS {
            let keyspace = connect(endpoints).await?;
            tasks.push(spawn_local(insert(client, keyspace, Rc::clone(&records), Arc::clone(stop))));
        }
        // A receiver that is gone has set `stop`.
        let _ = begun.send(());
        let mut all = Vec::with_capacity(CLIENTS);
        for task in tasks {
            all.push(task.await.map_err(|error| Failure::Protocol(error.to_string()))?);
        }
        read_back(all, &connect(endpoints).await?, &records).await
    })
}

async fn read_back(
    all: Vec<ClientInserts>,
    keyspace: &Keyspace,
    records: &Records,
) -> Result<AllInserts, Failure> {
    let mut seen = AllInserts::default();
    for inserted in all {
        seen.acknowledged += inserted.acknowledged;
        seen.failed += inserted.failed;
        seen.gap = seen.gap.max(inserted.gap);
        seen.first_error = seen.first_error.or(inserted.first_error);
        let own = (inserted.client as u32..records.count()).step_by(CLIENTS);
        for (index, (acknowledged, tried)) in own.zip(inserted.versions) {
            let found = keyspace.lookup_bytes(records.key(index)).await.map_err(client_failure)?;
            let is = |version| found.as_deref() == Some(records.value(index, version).as_slice());
            // A write in doubt may be executed or not; without an acknowledged one the record may
            // be absent.
            let is_right = is(acknowledged) || is(tried) || (acknowledged == 0 && found.is_none());
            seen.lost += u64::from(!is_right);
        }
    }
    Ok(seen)
}

/// A new client, for the measured keyspace.
pub(super) async fn connect(endpoints: &[SocketAddr]) -> Result<Keyspace, Failure> {
    connect_client(endpoints).await.map(|(_, keyspace)| keyspace)
}

/// The same, and the client itself.
pub(super) async fn connect_client(endpoints: &[SocketAddr]) -> Result<(Client, Keyspace), Failure> {
    let endpoints: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
    let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
    let options = ClientOptions { deadline: OPERATION, ..ClientOptions::default() };
    let client = Client::connect_with(&endpoints, options).await.map_err(client_failure)?;
    let keyspace = client.keyspace(KEYSPACE).await.map_err(client_failure)?;
    Ok((client, keyspace))
}

/// Versions are one byte; 0 means none, and 1 follows 255.
async fn insert(
    client: usize,
    keyspace: Keyspace,
    records: Rc<Records>,
    stop: Arc<AtomicBool>,
) -> ClientInserts {
    let own: Vec<u32> = (client as u32..records.count()).step_by(CLIENTS).collect();
    let mut seen = ClientInserts {
        client,
        versions: vec![(0, 0); own.len()],
        acknowledged: 0,
        failed: 0,
        gap: Duration::ZERO,
        first_error: None,
    };
    let mut last = now();
    for at in (0..own.len()).cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (acknowledged, tried) = &mut seen.versions[at];
        *tried = tried.checked_add(1).unwrap_or(1);
        match keyspace.insert(records.key(own[at]), records.value(own[at], *tried)).await {
            Ok(_) => {
                *acknowledged = *tried;
                seen.acknowledged += 1;
                let passed = now();
                seen.gap = seen.gap.max(passed - last);
                last = passed;
            }
            Err(error) => {
                seen.failed += 1;
                seen.first_error.get_or_insert(error.to_string());
            }
        }
    }
    // The wait that is open at the end counts too.
    seen.gap = seen.gap.max(now() - last);
    seen
}

/// A client error as a failure of the run.
pub(super) fn client_failure(error: Error) -> Failure {
    Failure::Protocol(error.to_string())
}
