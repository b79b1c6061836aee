//! zerohop: one node of one instance, an ordered keyspace with one copy, and a client of the Rust package for each client.

use std::net::SocketAddr;

use bench_common::failure::Failure;
use bench_common::servers::{Cluster, KEYSPACE, Place};
use zerohop_client::{Client, ClientOptions, Keyspace};

use crate::limits;
use crate::modes::Mode;

/// Starts a node with the keyspace. It serves.
pub(crate) fn start(place: &Place, mode: Mode) -> Result<Cluster, Failure> {
    let durability = mode.name();
    let setting = format!("--ordered --replicas 1 --min-in-sync 1 --durability {durability}");
    Cluster::start(place, 1, &setting)
}

/// Connects a client.
pub(crate) async fn connect(addresses: &[SocketAddr]) -> Result<Keyspace, zerohop_client::Error> {
    let endpoints: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
    let options = ClientOptions { deadline: limits::OPERATION, ..ClientOptions::default() };
    Client::connect_with(&endpoints, options).await?.keyspace(KEYSPACE).await
}
