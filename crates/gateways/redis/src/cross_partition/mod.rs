//! Redis commands with keys in several partitions, each executed as one transaction of a client.
//!
//! An instance executes units with keys in one partition itself; the others come here. A unit is
//! executed over records that are fetched on demand ([`zerohop_resp::GatheredRecords`]). Its
//! changes are committed if the fetched records have not changed; else it starts again. A unit
//! without changes is confirmed: its records were all current at one time.

mod limits;
mod records;
mod work;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;
use zerohop_client::{Client, ClientOptions, Error, Keyspace};

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

/// The cluster, once it is reached, and its keyspaces by name.
struct Cluster {
    endpoints: Vec<String>,
    options: ClientOptions,
    client: tokio::sync::Mutex<Option<Client>>,
    keyspaces: Mutex<BTreeMap<String, Keyspace>>,
}

impl Cluster {
    async fn keyspace(&self, name: &str) -> Result<(Client, Keyspace), Error> {
        let client = {
            let mut client = self.client.lock().await;
            match &*client {
                Some(client) => client.clone(),
                None => {
                    let endpoints: Vec<&str> = self.endpoints.iter().map(String::as_str).collect();
                    let connected = Client::connect_with(&endpoints, self.options.clone()).await?;
                    client.insert(connected).clone()
                }
            }
        };
        let known = self.keyspaces.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        let keyspace = match known {
            Some(keyspace) => keyspace,
            None => {
                let found = client.keyspace(name).await?;
                let mut keyspaces = self.keyspaces.lock().unwrap_or_else(PoisonError::into_inner);
                keyspaces.insert(name.to_owned(), found.clone());
                found
            }
        };
        Ok((client, keyspace))
    }

    /// Another keyspace may have this name by now.
    fn remove_keyspace(&self, name: &str) {
        self.keyspaces.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

async fn serve(
    mut receiver: mpsc::Receiver<CrossPartitionUnit>,
    endpoints: Vec<String>,
    options: ClientOptions,
) {
    let (client, keyspaces) = (tokio::sync::Mutex::new(None), Mutex::new(BTreeMap::new()));
    let cluster = Arc::new(Cluster { endpoints, options, client, keyspaces });
    let room = Arc::new(tokio::sync::Semaphore::new(UNDER_WAY_MAX));
    while let Some(CrossPartitionUnit { keyspace, unit, send_reply: tell }) = receiver.recv().await {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let cluster = Arc::clone(&cluster);
        tokio::spawn(async move {
            let mut reply = Vec::new();
            work::execute(&cluster, &keyspace, &unit, &mut reply).await;
            tell(reply);
            drop(permit);
        });
    }
}
