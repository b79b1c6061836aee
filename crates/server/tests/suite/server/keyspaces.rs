//! Keyspaces are created, changed and dropped while the node serves, and persist over a restart.

use zerohop_client::Failure;
use zerohop_server::Server;
use zerohop_wire::admin::{
    AdminQuestion, AdminRefusal, AdminReply, KeyspaceDrop, KeyspaceSettings, REFUSED_EXISTS, REFUSED_FAILED,
    REFUSED_SETTING, REFUSED_UNKNOWN,
};

use crate::server::support::{admin, anywhere, block_on, client, create, in_memory, on, status};

fn named(name: &str) -> KeyspaceSettings {
    KeyspaceSettings { name: name.to_owned(), ..KeyspaceSettings::default() }
}

fn refused(answer: AdminReply) -> AdminRefusal {
    match answer {
        AdminReply::Refused(refused) => refused,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn new_keyspace_is_served_once_create_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(on(folder.path(), anywhere())).unwrap();
    block_on(async {
        let client = client(&server).await;
        for number in 0..20 {
            let name = format!("k{number}");
            let made = create(&client, &name, Some("sync")).await;
            assert_eq!((&*made.name, made.partitions, &*made.durability), (&*name, 8, "sync"));
            let keyspace = client.keyspace(&name).await.unwrap();
            for key in 0..10 {
                keyspace.insert(&format!("key {key}"), &name).await.unwrap();
            }
        }
        let exists = refused(admin(&client, AdminQuestion::CreateKeyspace(named("k3"))).await);
        assert_eq!(exists.code, REFUSED_EXISTS);
        assert_eq!(status(&client).await.keyspaces.len(), 21);
    });
}

#[test]
fn keyspace_alteration_under_load_loses_no_records() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(on(folder.path(), anywhere())).unwrap();
    block_on(async {
        let client = client(&server).await;
        create(&client, "papers", None).await;
        let writer = {
            let keyspace = client.keyspace("papers").await.unwrap();
            tokio::spawn(async move {
                for key in 0..2000 {
                    keyspace.insert(&format!("key {key}"), "value").await.unwrap();
                }
            })
        };
        for durability in ["sync", "memory", "interval:20ms", "sync", "memory", "sync"] {
            let settings = KeyspaceSettings { durability: Some(durability.into()), ..named("papers") };
            match admin(&client, AdminQuestion::AlterKeyspace(settings)).await {
                AdminReply::Keyspace(keyspace) => assert_eq!(keyspace.durability, durability),
                other => panic!("not altered: {other:?}"),
            }
        }
        writer.await.unwrap();
        let keyspace = client.keyspace("papers").await.unwrap();
        let reported = status(&client).await;
        assert_eq!(reported.keyspaces.last().unwrap().durability, "sync");
        for key in 0..2000 {
            let found = keyspace.lookup_bytes(&format!("key {key}")).await.unwrap();
            assert_eq!(found.as_deref(), Some(&b"value"[..]), "key {key}");
        }
    });
}

#[test]
fn dropped_keyspace_name_can_be_reused_empty() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(on(folder.path(), anywhere())).unwrap();
    let first_id = block_on(async {
        let client = client(&server).await;
        let first = create(&client, "papers", None).await;
        let old = client.keyspace("papers").await.unwrap();
        old.insert("key", "of the first").await.unwrap();
        match admin(
            &client,
            AdminQuestion::DropKeyspace(KeyspaceDrop { name: "papers".into(), ..Default::default() }),
        )
        .await
        {
            AdminReply::Keyspace(keyspace) => assert_eq!(keyspace.id, first.id),
            other => panic!("not dropped: {other:?}"),
        }
        let failure = old.lookup("key").await.unwrap_err();
        let is_gone = matches!(failure.failure(), Some(Failure::UnknownKeyspace { .. }));
        assert!(is_gone || failure.to_string().contains("keyspace"), "{failure}");
        first.id
    });
    server.stop().unwrap();
    let server = Server::start(on(folder.path(), anywhere())).unwrap();
    block_on(async {
        let client = client(&server).await;
        assert!(client.keyspace("papers").await.is_err());
        let second = create(&client, "papers", None).await;
        assert!(second.id > first_id, "an id is never given twice, also after a restart");
        assert_eq!(client.keyspace("papers").await.unwrap().lookup("key").await.unwrap(), None);
    });
}

#[test]
fn invalid_keyspace_change_is_refused_without_effect() {
    let server = in_memory(1);
    block_on(async {
        let client = client(&server).await;
        let before = status(&client).await.map_epoch;
        let settings = KeyspaceSettings { replicas: Some(3), ..named("a") };
        let refusal = refused(admin(&client, AdminQuestion::CreateKeyspace(settings)).await);
        assert!(refusal.code == REFUSED_SETTING && refusal.reason.contains("1 node"), "{}", refusal.reason);
        let settings = KeyspaceSettings { durability: Some("sync".into()), ..named("a") };
        let refusal = refused(admin(&client, AdminQuestion::CreateKeyspace(settings)).await);
        assert!(refusal.reason.contains("--memory"), "{}", refusal.reason);
        let drop = |name: &str| {
            AdminQuestion::DropKeyspace(KeyspaceDrop { name: name.into(), ..Default::default() })
        };
        assert_eq!(refused(admin(&client, drop("default")).await).code, REFUSED_SETTING);
        assert_eq!(refused(admin(&client, drop("a")).await).code, REFUSED_UNKNOWN);
        assert_eq!(status(&client).await.map_epoch, before);
    });
}

#[test]
fn keyspaces_are_as_they_were_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(on(folder.path(), anywhere())).unwrap();
    let before = block_on(async {
        let client = client(&server).await;
        create(&client, "a", Some("sync")).await;
        create(&client, "b", Some("interval:7ms")).await;
        status(&client).await
    });
    server.stop().unwrap();
    let server = Server::start(on(folder.path(), anywhere())).unwrap();
    let after = block_on(async { status(&client(&server).await).await });
    assert_eq!(after.keyspaces, before.keyspaces);
    assert_eq!((&after.cluster, after.nodes[0].id), (&before.cluster, before.nodes[0].id));
    assert!(after.map_epoch > before.map_epoch);
}

#[test]
fn unsaved_change_has_no_effect_and_node_keeps_serving() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(on(folder.path(), anywhere())).unwrap();
    block_on(async {
        let client = client(&server).await;
        let before = status(&client).await;
        std::fs::remove_dir_all(folder.path().join("node")).unwrap();
        let refusal = refused(admin(&client, AdminQuestion::CreateKeyspace(named("papers"))).await);
        assert_eq!(refusal.code, REFUSED_FAILED);
        assert!(refusal.reason.contains("could not be saved, and was not made"), "{}", refusal.reason);
        let after = status(&client).await;
        assert_eq!((after.map_epoch, after.keyspaces), (before.map_epoch, before.keyspaces));
        let is_reported = |trouble: &String| trouble.contains("could not be saved");
        assert!(after.nodes[0].troubles.iter().any(is_reported), "{:?}", after.nodes[0].troubles);
        let keyspace = client.keyspace("default").await.unwrap();
        keyspace.insert("k", "v").await.unwrap();
    });
}
