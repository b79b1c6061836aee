//! The thread that executes Redis commands with keys in several partitions: a client of the cluster
//! for [`zerohop_relay::cross_partition`].

mod limits;

use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use zerohop_client::{Client, ClientOptions, ClusterHandle, Error};
use zerohop_relay::cross_partition::{CrossPartitionUnits, refuse_unit};

use self::limits::UNDER_WAY_MAX;

/// Receives the reply of a unit.
pub type ReplySink = Box<dyn FnOnce(Vec<u8>) + Send>;

/// A thread that executes such units; it ends when this is dropped.
#[derive(Clone, Debug)]
pub struct CrossPartitionCommands {
    units: mpsc::Sender<CrossPartitionUnit>,
}

/// A unit to be executed.
struct CrossPartitionUnit {
    keyspace: String,
    unit: Vec<u8>,
    send_reply: ReplySink,
}

/// Too many units are under way: nothing of this one is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyUnits;

impl std::fmt::Display for TooManyUnits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{UNDER_WAY_MAX} commands over several partitions are under way already: try again")
    }
}

impl std::error::Error for TooManyUnits {}

impl CrossPartitionCommands {
    /// Starts the thread. It connects to these endpoints at the first unit.
    ///
    /// # Errors Those of the system.
    pub fn start(endpoints: Vec<String>, options: ClientOptions) -> io::Result<CrossPartitionCommands> {
        let (units, receiver) = mpsc::channel(UNDER_WAY_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new()
            .name("zerohop-spans".to_owned())
            .spawn(move || runtime.block_on(serve(receiver, endpoints, options)))?;
        Ok(CrossPartitionCommands { units })
    }

    /// Accepts a unit over a keyspace. The unit is atomic. `tell` receives its reply on this
    /// crate's thread and must not block.
    ///
    /// # Errors [`TooManyUnits`]; then `tell` is not called.
    pub fn start_unit(&self, keyspace: &str, unit: Vec<u8>, tell: ReplySink) -> Result<(), TooManyUnits> {
        self.units
            .try_send(CrossPartitionUnit { keyspace: keyspace.to_owned(), unit, send_reply: tell })
            .map_err(|_| TooManyUnits)
    }
}

/// The cluster, and what executes the units once it is reached.
struct Cluster {
    endpoints: Vec<String>,
    options: ClientOptions,
    units: tokio::sync::OnceCell<CrossPartitionUnits>,
}

impl Cluster {
    async fn units(&self) -> Result<&CrossPartitionUnits, Error> {
        let connect = || async {
            let endpoints: Vec<&str> = self.endpoints.iter().map(String::as_str).collect();
            let client = Client::connect_with(&endpoints, self.options.clone()).await?;
            Ok(CrossPartitionUnits::new(ClusterHandle::clone(&client)))
        };
        self.units.get_or_try_init(connect).await
    }

    async fn execute(&self, keyspace: &str, unit: &[u8], reply: &mut Vec<u8>) {
        match self.units().await {
            Ok(units) => units.execute(keyspace, unit, now_ms, reply).await,
            Err(error) => refuse_unit(&error, unit, reply),
        }
    }
}

/// Deadlines that clients give are by the time of day.
#[expect(clippy::disallowed_methods, reason = "a gateway, which has the clock of its process")]
fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

async fn serve(
    mut receiver: mpsc::Receiver<CrossPartitionUnit>,
    endpoints: Vec<String>,
    options: ClientOptions,
) {
    let cluster = Arc::new(Cluster { endpoints, options, units: tokio::sync::OnceCell::new() });
    let room = Arc::new(tokio::sync::Semaphore::new(UNDER_WAY_MAX));
    while let Some(CrossPartitionUnit { keyspace, unit, send_reply: tell }) = receiver.recv().await {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let cluster = Arc::clone(&cluster);
        tokio::spawn(async move {
            let mut reply = Vec::new();
            cluster.execute(&keyspace, &unit, &mut reply).await;
            tell(reply);
            drop(permit);
        });
    }
}
