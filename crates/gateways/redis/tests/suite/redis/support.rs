//! A node, and its keyspaces.

use std::net::SocketAddr;

use zerohop_client::Client;
use zerohop_server::{Server, ServerOptions};
use zerohop_wire::admin::{
    AdminAnswer, AdminQuestion, AdminReply, AdminRequest, KeyspaceDrop, KeyspaceSettings,
};

pub(crate) use super::connection::{Redis, Reply, addresses, command, ok};

/// A node in memory.
pub(crate) fn in_memory(instances: usize) -> Server {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    Server::start(ServerOptions {
        instances: Some(instances),
        gateway: Some(zerohop_redis::GATEWAY),
        ..ServerOptions::new(listen)
    })
    .unwrap()
}

pub(crate) fn bulk(bytes: &str) -> Reply {
    Reply::Bulk(Some(bytes.as_bytes().to_vec()))
}

/// Makes a keyspace of one partition with `sync` durability, through the native protocol.
pub(crate) fn make_sync_keyspace(manager: SocketAddr, name: &str) {
    make_keyspace(manager, name, "sync");
}

/// How often a split is requested while copies move, and the pause between two requests.
const SPLIT_ATTEMPTS_MAX: u32 = 1_200;
const SPLIT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// The same with any durability.
pub(crate) fn make_keyspace(manager: SocketAddr, name: &str, durability: &str) {
    let settings = KeyspaceSettings {
        name: name.to_owned(),
        partitions: Some(1),
        durability: Some(durability.to_owned()),
        ..KeyspaceSettings::default()
    };
    about_keyspace(manager, AdminQuestion::CreateKeyspace(settings));
}

/// Makes an ordered keyspace in memory that is divided at these keys.
pub(crate) fn make_ordered_keyspace(manager: SocketAddr, name: &str, split_at: &[&str]) {
    let settings = KeyspaceSettings {
        name: name.to_owned(),
        hash: Some("ordered".to_owned()),
        durability: Some("memory".to_owned()),
        split_at: split_at.iter().map(|key| key.as_bytes().to_vec()).collect(),
        ..KeyspaceSettings::default()
    };
    about_keyspace(manager, AdminQuestion::CreateKeyspace(settings));
}

/// Splits a keyspace to so many partitions.
pub(crate) fn split_keyspace(manager: SocketAddr, name: &str, partitions: u32) {
    let partitions = Some(partitions);
    let settings = KeyspaceSettings { name: name.to_owned(), partitions, ..KeyspaceSettings::default() };
    // A partition that is being moved is not split: after the split before, copies move.
    for _ in 0..SPLIT_ATTEMPTS_MAX {
        match admin(manager, AdminQuestion::AlterKeyspace(settings.clone())) {
            Some(AdminReply::Keyspace(_)) => return,
            Some(AdminReply::Refused(refusal)) if refusal.reason.contains("is being moved") => {}
            other => panic!("{other:?}"),
        }
        std::thread::sleep(SPLIT_PAUSE);
    }
    panic!("a partition of {name} is being moved all the time");
}

/// Drops a keyspace. Instances learn of it later.
pub(crate) fn drop_keyspace(manager: SocketAddr, name: &str) {
    let name = name.to_owned();
    let answer = admin(manager, AdminQuestion::DropKeyspace(KeyspaceDrop { name, ..Default::default() }));
    assert!(!matches!(answer, None | Some(AdminReply::Refused(_))), "{answer:?}");
}

fn about_keyspace(manager: SocketAddr, query: AdminQuestion) {
    let answer = admin(manager, query);
    assert!(matches!(answer, Some(AdminReply::Keyspace(_))), "{answer:?}");
}

fn admin(manager: SocketAddr, query: AdminQuestion) -> Option<AdminReply> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&manager.to_string()).await.unwrap();
        let answer = client.admin(AdminRequest::of(query).to_bytes().into()).await.unwrap();
        AdminAnswer::from_bytes(&answer).unwrap().answer
    })
}
