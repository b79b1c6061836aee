//! A keyspace or a snapshot that disappears while clients use it: they receive an error, and none
//! waits.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use zerohop_client::{Client, Error, Failure, Keyspace, Record, SnapshotOptions};

use crate::support::process::RunningProcess;
use crate::support::serving::{ServingProgram, code, stderr, stdout, zerohop};
use crate::support::{GIVE_UP_AFTER, patience};

/// The lease of a snapshot that is not renewed.
const LEASE: Duration = Duration::from_millis(600);

fn in_runtime(task: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(task);
}

fn is_absent_error(error: &Error) -> bool {
    matches!(error.failure(), Some(Failure::UnknownKeyspace { .. }))
}

fn is_expired(error: &Error) -> bool {
    matches!(error.failure(), Some(Failure::SnapshotExpired))
}

async fn keyspace_of(cluster: &ServingProgram, name: &str) -> (Client, Keyspace) {
    cluster.ok(&["keyspace", "create", name, "--durability", "memory", "--chunk-size", "4KiB"]);
    let client = patience::client(cluster.endpoint()).await.unwrap();
    let keyspace = client.keyspace(name).await.unwrap();
    (client, keyspace)
}

#[test]
fn transaction_over_dropped_keyspace_is_refused() {
    let cluster = ServingProgram::in_memory();
    in_runtime(async {
        let (client, gone) = keyspace_of(&cluster, "gone").await;
        let stays = client.keyspace("default").await.unwrap();
        let transaction = client.begin();
        transaction.write(stays.insert("k", "v")).unwrap();
        assert!(transaction.read(gone.lookup("k")).await.unwrap().is_none());
        transaction.write(gone.insert("k", "v")).unwrap();
        transaction.blob(&gone, "b").create(b"").await.unwrap();
        transaction.stage(gone.insert("long", &vec![1; 1 << 20])).await.unwrap();
        cluster.ok(&["keyspace", "drop", "gone", "--yes"]);
        let refused = transaction.commit().await.unwrap_err();
        assert!(is_absent_error(&refused), "{refused}");
        assert!(stays.lookup("k").await.unwrap().is_none(), "a part of it is done");

        // A new keyspace of the same name is another one: clients of the old one receive an error.
        cluster.ok(&["keyspace", "create", "gone"]);
        let refused = gone.insert("k", "v").await.unwrap_err();
        assert!(is_absent_error(&refused), "{refused}");
    });
    let output = cluster.run_with(&["txn"], b"incr n\nincr n -k absent");
    assert_eq!(code(&output), 3, "{output:?}");
    assert!(stderr(&output).contains("zerohop keyspace create"), "{output:?}");
}

#[test]
fn reads_of_a_blob_and_of_a_snapshot_end_with_their_keyspace() {
    let cluster = ServingProgram::in_memory();
    in_runtime(async {
        let (client, gone) = keyspace_of(&cluster, "gone").await;
        gone.insert("k", "v").await.unwrap();
        let blob = gone.blob("b");
        blob.create_with(12, b"").await.unwrap();
        let bytes = vec![7; 48 << 20];
        blob.write_at(0, &bytes).await.unwrap();
        let snapshot = client.snapshot(&[&gone]).await.unwrap();
        assert!(snapshot.lookup(&gone, "k").await.unwrap().is_some());
        let mut pieces = blob.read_at(0, u64::MAX).await.unwrap();
        let first = pieces.next_piece().await.unwrap().unwrap();
        let mut filling = blob.staged_extension().await.unwrap();
        filling.push(&bytes[..100_000]).await.unwrap();

        // The program waits until its output is read.
        let mut command = zerohop(&["blob", "get", "b", "-k", "gone"]);
        command.env("ZEROHOP_ENDPOINT", cluster.endpoint());
        let mut getting = RunningProcess::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let mut out = getting.stdout.take().unwrap();
        out.read_exact(&mut [0; 1000]).unwrap();

        cluster.ok(&["keyspace", "drop", "gone", "--yes"]);
        let (mut got, refused) = (
            first.len(),
            loop {
                match pieces.next_piece().await {
                    Ok(Some(piece)) => {
                        assert!(piece.iter().all(|byte| *byte == 7), "zeros in place of what is gone")
                    }
                    Ok(None) => panic!("all of it is read, and confirmed, of a keyspace that is gone"),
                    Err(error) => break error,
                }
            },
        );
        assert!(is_absent_error(&refused), "{refused}");
        let refused = match filling.push(&bytes[..100_000]).await {
            Ok(()) => filling.publish().await.unwrap_err(),
            Err(error) => error,
        };
        assert!(is_absent_error(&refused), "{refused}");
        for refused in [
            snapshot.lookup(&gone, "k").await.map(drop).unwrap_err(),
            snapshot.scan(&gone, "").next_page().await.map(drop).unwrap_err(),
            client.snapshot(&[&gone]).await.map(drop).unwrap_err(),
            blob.extend(b"more").await.map(drop).unwrap_err(),
            blob.delete().await.map(drop).unwrap_err(),
        ] {
            assert!(is_absent_error(&refused), "{refused}");
        }

        let mut rest = Vec::new();
        got += out.read_to_end(&mut rest).unwrap();
        let output = getting.output();
        assert!(got > 0 && code(&output) == 3, "{output:?}");
        assert!(stderr(&output).contains("there is no keyspace"), "{output:?}");
    });
}

#[test]
fn read_of_snapshot_with_expired_lease_is_refused() {
    let cluster = ServingProgram::in_memory();
    in_runtime(async {
        let (client, keyspace) = keyspace_of(&cluster, "kept").await;
        let blob = keyspace.blob("b");
        blob.create_with(12, b"").await.unwrap();
        blob.write_at(0, &[7; 10_000]).await.unwrap();
        let options = SnapshotOptions { lease: LEASE, ..SnapshotOptions::default() };
        // The snapshot is renewed in the background, unless the machine stalls for longer than the
        // lease.
        let (began, mut value) = (Instant::now(), 0);
        let snapshot = loop {
            keyspace.insert("k", &format!("old {value}")).await.unwrap();
            let snapshot = client.snapshot_with(&[&keyspace], options).await.unwrap();
            keyspace.insert("k", "new").await.unwrap();
            tokio::time::sleep(LEASE * 5 / 2).await;
            match snapshot.lookup(&keyspace, "k").await {
                Ok(Some(Record::Bytes { bytes, .. })) if bytes[..] == *format!("old {value}").as_bytes() => {
                    break snapshot;
                }
                Err(error) if is_expired(&error) && began.elapsed() < GIVE_UP_AFTER => {}
                other => panic!("it does not renew by itself: {other:?}"),
            }
            value += 1;
        };

        // This blocks the only thread of the runtime, so that nothing is renewed.
        std::thread::sleep(LEASE * 5);
        let of_record = snapshot.lookup(&keyspace, "k").await.map(drop).unwrap_err();
        let of_scan = snapshot.scan(&keyspace, "").next_page().await.map(drop).unwrap_err();
        for refused in [of_record, of_scan] {
            assert!(is_expired(&refused), "{refused}");
            assert!(refused.to_string().contains("open a new one"), "{refused}");
        }
        assert_eq!(keyspace.lookup_bytes("k").await.unwrap().as_deref(), Some(&b"new"[..]));

        for options in [
            SnapshotOptions { lease: Duration::from_secs(301), ..SnapshotOptions::default() },
            SnapshotOptions { lease: Duration::ZERO, ..SnapshotOptions::default() },
        ] {
            let refused = client.snapshot_with(&[&keyspace], options).await.map(drop).unwrap_err();
            assert!(matches!(refused.failure(), Some(Failure::BadRequest { .. })), "{options:?}: {refused}");
        }
    });
    let old = cluster.run(&["kv", "lookup", "k", "-k", "kept"]);
    assert_eq!(stdout(&old), "new");
}
