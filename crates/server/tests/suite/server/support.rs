//! Starts nodes and sends requests to them.

use std::net::SocketAddr;
use std::path::Path;

use zerohop_client::{Client, ClientOptions, Keyspace};
use zerohop_server::{Server, ServerOptions};
use zerohop_wire::admin::{
    AdminAnswer, AdminQuestion, AdminReply, AdminRequest, KeyspaceSettings, KeyspaceStatus, Status, StatusGet,
};

use crate::support::give_up::GIVE_UP_AFTER;
use crate::support::ports::ports;

/// Any free ports.
pub(crate) fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A node in memory.
pub(crate) fn in_memory(instances: usize) -> Server {
    Server::start(ServerOptions { instances: Some(instances), ..ServerOptions::new(anywhere()) }).unwrap()
}

/// The options of a node with this folder.
pub(crate) fn on(folder: &Path, listen: SocketAddr) -> ServerOptions {
    let data = Some(folder.to_owned());
    ServerOptions { data, instances: Some(2), memory_bytes: Some(64 << 20), ..ServerOptions::new(listen) }
}

/// A port with two free ones behind it, so that a node can be started again at the same addresses.
pub(crate) fn fixed_ports() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], ports(3)))
}

pub(crate) async fn client(server: &Server) -> Client {
    Client::connect(&server.manager_address().to_string()).await.unwrap()
}

/// A client with time-outs long enough for a restart.
pub(crate) async fn patient_client(server: &Server) -> Client {
    let options = ClientOptions {
        deadline: GIVE_UP_AFTER,
        connect_deadline: GIVE_UP_AFTER,
        ..ClientOptions::default()
    };
    Client::connect_with(&[&server.manager_address().to_string()], options).await.unwrap()
}

pub(crate) async fn default_keyspace(client: &Client) -> Keyspace {
    client.keyspace("default").await.unwrap()
}

pub(crate) async fn admin(client: &Client, query: AdminQuestion) -> AdminReply {
    let answer = client.admin(AdminRequest::of(query).to_bytes().into()).await.unwrap();
    AdminAnswer::from_bytes(&answer).unwrap().answer.unwrap()
}

pub(crate) async fn status(client: &Client) -> Status {
    match admin(client, AdminQuestion::Status(StatusGet {})).await {
        AdminReply::Status(status) => *status,
        other => panic!("no status: {other:?}"),
    }
}

pub(crate) async fn create(client: &Client, name: &str, durability: Option<&str>) -> KeyspaceStatus {
    let settings = KeyspaceSettings {
        name: name.to_owned(),
        partitions: Some(8),
        durability: durability.map(str::to_owned),
        ..KeyspaceSettings::default()
    };
    match admin(client, AdminQuestion::CreateKeyspace(settings)).await {
        AdminReply::Keyspace(keyspace) => *keyspace,
        other => panic!("not created: {other:?}"),
    }
}

/// Runs a test on its own runtime.
pub(crate) fn block_on<R>(future: impl Future<Output = R>) -> R {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
