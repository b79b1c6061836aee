//! From nothing to serving: `zerohop up --nodes 3` on an empty folder, until a record has three
//! copies.

use std::net::SocketAddr;

use bench_common::failure::Failure;
use bench_common::reading::Measurement;
use tokio::runtime::Builder;
use zerohop_client::{Client, Error};

use crate::servers::{self, Place};

pub(super) fn from_nothing(place: &Place) -> Result<Measurement, Failure> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::while_doing("starting the client's runtime"))?;
    let mut copies = 0;
    let took = servers::up(place, |endpoint| match runtime.block_on(insert(endpoint)) {
        Ok(replicas) => {
            copies = replicas;
            true
        }
        Err(_) => false,
    })?;
    let mut reading = Measurement::default();
    reading.put("serving after ms", took.as_secs_f64() * 1e3);
    reading.put("copies of a record", f64::from(copies));
    Ok(reading)
}

/// Inserts a record into the default keyspace. Returns its number of copies.
async fn insert(endpoint: SocketAddr) -> Result<u8, Error> {
    let client = Client::connect(&endpoint.to_string()).await?;
    let keyspace = client.keyspace("default").await?;
    keyspace.insert("first key", "there").await?;
    Ok(keyspace.config().replicas)
}
