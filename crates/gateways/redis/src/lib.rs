//! Redis commands whose keys live in several partitions, each done as one transaction of a client.
//!
//! An instance executes by itself what has its keys in one partition. What has not comes here: it is executed over records that
//! are fetched as it asks for them ([`zerohop_resp::GatheredRecords`]), and what it changes is committed if all that was fetched is
//! still so; else it begins again. What changes nothing is confirmed to have been so at one moment.

mod limits;
mod records;
mod work;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;
use zerohop_client::{Client, ClientOptions, Error, Keyspace};

use crate::limits::UNDER_WAY_MAX;

/// Takes the reply of a unit.
pub type ReplySink = Box<dyn FnOnce(Vec<u8>) + Send>;

/// A thread that does such commands, for as long as this lives.
#[derive(Clone, Debug)]
pub struct Spans {
    units: mpsc::Sender<CrossPartitionUnit>,
}

/// A unit to be executed.
struct CrossPartitionUnit {
    keyspace: String,
    unit: Vec<u8>,
    tell: ReplySink,
}

/// There are too many under way: nothing of the unit is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl std::fmt::Display for NoRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{UNDER_WAY_MAX} commands over several partitions are under way already: try again")
    }
}

impl std::error::Error for NoRoom {}

impl Spans {
    /// Starts the thread. It connects to these endpoints when the first unit comes.
    ///
    /// # Errors
    /// The system's.
    pub fn start(endpoints: Vec<String>, options: ClientOptions) -> io::Result<Spans> {
        let (units, asked) = mpsc::channel(UNDER_WAY_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new()
            .name("zerohop-spans".to_owned())
            .spawn(move || runtime.block_on(serve(asked, endpoints, options)))?;
        Ok(Spans { units })
    }

    /// Takes up a unit over a keyspace. It is executed whole, at one moment, or not at all, and `tell` gets its reply, on the
    /// thread of this, where it must not wait.
    ///
    /// # Errors
    /// [`NoRoom`]; `tell` is not called then.
    pub fn take(&self, keyspace: &str, unit: Vec<u8>, tell: ReplySink) -> Result<(), NoRoom> {
        self.units
            .try_send(CrossPartitionUnit { keyspace: keyspace.to_owned(), unit, tell })
            .map_err(|_| NoRoom)
    }
}

/// The cluster, as soon as it is reached, and its keyspaces by name.
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

    /// A keyspace of this name may be another by now.
    fn forget(&self, name: &str) {
        self.keyspaces.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

async fn serve(
    mut asked: mpsc::Receiver<CrossPartitionUnit>,
    endpoints: Vec<String>,
    options: ClientOptions,
) {
    let (client, keyspaces) = (tokio::sync::Mutex::new(None), Mutex::new(BTreeMap::new()));
    let cluster = Arc::new(Cluster { endpoints, options, client, keyspaces });
    let room = Arc::new(tokio::sync::Semaphore::new(UNDER_WAY_MAX));
    while let Some(CrossPartitionUnit { keyspace, unit, tell }) = asked.recv().await {
        // Never closed.
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
