//! Stop and start: acknowledged writes are there, and clients continue.

use std::fs::read_to_string;
use std::time::Duration;

use zerohop_server::{Server, ServerOptions, StartError};
use zerohop_wire::ids::InstanceId;

use crate::server::support::{
    anywhere, block_on, client, create, default_keyspace, fixed_ports, in_memory, on, patient_client, status,
};

#[test]
fn client_sessions_survive_a_server_restart() {
    let folder = tempfile::tempdir().unwrap();
    let listen = fixed_ports();
    let server = Server::start(on(folder.path(), listen)).unwrap();
    block_on(async {
        let client = patient_client(&server).await;
        let keyspace = default_keyspace(&client).await;
        for key in 0..500 {
            keyspace.insert(&format!("key {key}"), &format!("value {key}")).await.unwrap();
        }
        assert_eq!(keyspace.increment("counter", 5).await.unwrap(), 5);
        let mut server = server;
        for round in 1..=3 {
            // Under way while the server stops and starts: retried under its sequence number,
            // executed once.
            let others = keyspace.clone();
            let counting = tokio::spawn(async move {
                for _ in 0..50 {
                    others.increment("counter", 1).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
            let options = on(folder.path(), listen);
            server = tokio::task::spawn_blocking(move || {
                server.stop().unwrap();
                Server::start(options).unwrap()
            })
            .await
            .unwrap();
            counting.await.unwrap();
            assert_eq!(keyspace.increment("counter", 0).await.unwrap(), 5 + 50 * round);
        }
        for key in 0..500 {
            let found = keyspace.lookup_bytes(&format!("key {key}")).await.unwrap();
            assert_eq!(found.as_deref(), Some(format!("value {key}").as_bytes()));
        }
    });
}

#[test]
fn second_server_on_a_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(on(folder.path(), anywhere())).unwrap();
    let error = Server::start(on(folder.path(), anywhere())).unwrap_err();
    assert!(matches!(error, StartError::Folder(_)), "{error}");
    assert!(error.to_string().contains("another zerohop process uses this data folder"), "{error}");
    block_on(async { default_keyspace(&client(&server).await).await.insert("k", "v").await.unwrap() });
    server.stop().unwrap();
    Server::start(on(folder.path(), anywhere())).unwrap().stop().unwrap();
}

/// After a kill, the next node may start while the system still releases the old one's resources.
#[test]
fn start_waits_for_predecessor_folder_and_ports() {
    let folder = tempfile::tempdir().unwrap();
    let listen = fixed_ports();
    let first = Server::start(on(folder.path(), listen)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            first.stop().unwrap();
        });
        Server::start(on(folder.path(), listen)).unwrap().stop().unwrap();
    });
}

#[test]
fn options_that_contradict_data_are_refused_with_valid_value() {
    let folder = tempfile::tempdir().unwrap();
    Server::start(on(folder.path(), anywhere())).unwrap().stop().unwrap();
    let other = ServerOptions { instances: Some(3), ..on(folder.path(), anywhere()) };
    let error = Server::start(other).unwrap_err().to_string();
    assert!(error.contains("has 2 instances") && error.contains("--instances 2"), "{error}");
    let as_made = ServerOptions { instances: None, ..on(folder.path(), anywhere()) };
    assert_eq!(Server::start(as_made).unwrap().instances().len(), 2);

    std::fs::write(folder.path().join("instance-01/format"), "zerohop engine data, format 9\n").unwrap();
    let error = Server::start(on(folder.path(), anywhere())).unwrap_err();
    assert!(matches!(error, StartError::Instance { instance: InstanceId(2), .. }), "{error}");
    std::fs::remove_dir_all(folder.path().join("instance-01")).unwrap();
    Server::start(on(folder.path(), anywhere())).expect("the failed start left no lock and no port behind");

    let options = |instances| ServerOptions { instances: Some(instances), ..ServerOptions::new(anywhere()) };
    for instances in [0, 256] {
        let error = Server::start(options(instances)).unwrap_err();
        assert!(matches!(error, StartError::Instances { .. }), "{error}");
    }
    let unmade = folder.path().join("unmade");
    let beyond = on(&unmade, "0.0.0.0:0".parse().unwrap());
    assert!(matches!(Server::start(beyond).unwrap_err(), StartError::NotLoopback { .. }));
    assert!(!unmade.exists(), "a refusal leaves nothing behind");
}

#[test]
fn memory_keyspaces_are_lost_with_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(on(folder.path(), anywhere())).unwrap();
    block_on(async {
        let client = client(&server).await;
        for (name, durability) in [("gone", "memory"), ("soon", "interval:60000ms"), ("now", "sync")] {
            create(&client, name, Some(durability)).await;
            let keyspace = client.keyspace(name).await.unwrap();
            keyspace.insert("k", name).await.unwrap();
        }
    });
    // A clean shutdown syncs every keyspace with a disk.
    server.stop().unwrap();
    let server = Server::start(on(folder.path(), anywhere())).unwrap();
    block_on(async {
        let client = client(&server).await;
        for (name, is_there) in [("gone", false), ("soon", true), ("now", true)] {
            let keyspace = client.keyspace(name).await.unwrap();
            assert_eq!(keyspace.lookup("k").await.unwrap().is_some(), is_there, "{name}");
        }
    });
}

#[test]
fn server_stops_during_client_waits_and_closes_its_port() {
    let server = in_memory(2);
    let address = server.manager_address();
    block_on(async {
        let client = client(&server).await;
        let waiting = {
            let client = client.clone();
            tokio::spawn(async move {
                let keyspace = default_keyspace(&client).await;
                let wait = keyspace.wait("never", zerohop_client::WaitUntil::Present);
                wait.deadline(Duration::from_millis(500)).await
            })
        };
        tokio::time::sleep(Duration::from_millis(50)).await;
        tokio::task::spawn_blocking(move || server.stop().unwrap()).await.unwrap();
        let waited = waiting.await.unwrap();
        assert!(!matches!(waited, Ok(Some(_))), "{waited:?}");
    });
    assert!(std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err());
}

/// An environment variable: the test is the only one in its process.
const ALONE: &str = "ZEROHOP_IDLE_TEST_ALONE";

#[test]
fn idle_node_uses_little_and_starts_fast() {
    if std::env::var_os(ALONE).is_none() {
        let test = "server::restart::idle_node_uses_little_and_starts_fast";
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let child = command.args(["--exact", test, "--nocapture"]).env(ALONE, "1").output().unwrap();
        return assert!(child.status.success(), "{child:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(on(folder.path(), anywhere())).unwrap();
    // Benchmarks measure the time; this test only checks that it is reported.
    assert!(server.ready_after() > Duration::ZERO);
    let text = read_to_string("/proc/self/status").unwrap();
    let resident = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 128 << 10, "{kib} KiB");
    block_on(async { assert_eq!(status(&client(&server).await).await.nodes[0].instances.len(), 2) });
}
