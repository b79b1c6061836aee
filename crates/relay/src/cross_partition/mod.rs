//! Redis commands with keys in several partitions, each executed as one transaction of a client.
//!
//! An instance executes units with keys in one partition itself; the others come here. A unit is
//! executed over records that are fetched on demand ([`zerohop_resp::GatheredRecords`]). Its
//! changes are committed if the fetched records have not changed; else it starts again. A unit
//! without changes is confirmed: its records were all current at one time.
//!
//! The futures need no runtime: the shell of [`ClusterHandle`] has connections and time.

mod joined_replies;
mod records;
mod work;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use zerohop_session::procedures::{ClusterHandle, Error, Keyspace};
use zerohop_wire::Failure;

pub use work::refuse_unit;

/// Executes units over several partitions with one client, and knows the keyspaces that it has opened by name.
#[derive(Debug)]
pub struct CrossPartitionUnits {
    client: ClusterHandle,
    keyspaces: Mutex<BTreeMap<String, Keyspace>>,
}

impl CrossPartitionUnits {
    /// Executes units with this client.
    #[must_use]
    pub fn new(client: ClusterHandle) -> CrossPartitionUnits {
        CrossPartitionUnits { client, keyspaces: Mutex::default() }
    }

    /// Executes a unit over the keyspace of this name and appends its reply, also if it fails. `now_ms` is the time of day in milliseconds.
    pub async fn execute(&self, name: &str, unit: &[u8], now_ms: impl Fn() -> u64, reply: &mut Vec<u8>) {
        let result = match self.keyspace(name).await {
            Ok(keyspace) => work::run(&self.client, &keyspace, unit, &now_ms).await,
            Err(error) => Err(error),
        };
        match result {
            Ok(bytes) => reply.extend_from_slice(&bytes),
            Err(error) => {
                if matches!(error.failure(), Some(Failure::UnknownKeyspace { .. })) {
                    // Another keyspace may have this name by now.
                    self.keyspaces.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
                }
                refuse_unit(&error, unit, reply);
            }
        }
    }

    async fn keyspace(&self, name: &str) -> Result<Keyspace, Error> {
        let known = self.keyspaces.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = self.client.keyspace(name).await?;
        let mut keyspaces = self.keyspaces.lock().unwrap_or_else(PoisonError::into_inner);
        keyspaces.insert(name.to_owned(), found.clone());
        Ok(found)
    }
}
