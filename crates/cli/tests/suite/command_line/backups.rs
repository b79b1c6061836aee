//! `zerohop backup`, `zerohop restore` and `zerohop verify`; and the snapshots that they use, with
//! many concurrent writers.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Signal, kill_process};
use zerohop_client::{Error, Expiry, Failure, Range, Record, SnapshotOptions};

use crate::support::GIVE_UP_AFTER;
use crate::support::patience;
use crate::support::process::RunningProcess;
use crate::support::serving::{ServingProgram, code, stderr, stdout, zerohop};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn run<R>(work: impl Future<Output = R>) -> R {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Records of each type, blobs with holes and attributes, in two keyspaces.
fn write_records(cluster: &ServingProgram) {
    cluster.ok(&["keyspace", "create", "other", "--partitions", "4", "--durability", "memory"]);
    run(async {
        let client = patience::client(cluster.endpoint()).await.unwrap();
        let (keyspace, other) =
            (client.keyspace("default").await.unwrap(), client.keyspace("other").await.unwrap());
        for n in 0..60 {
            keyspace.insert(&format!("key-{n}"), &format!("value {n}")).await.unwrap();
        }
        keyspace.insert_until("soon", "gone", Expiry::AfterMs(86_400_000)).await.unwrap();
        let values: Vec<Vec<u8>> = (0..9_000u32).map(|n| n.to_le_bytes().to_vec()).collect();
        for some in values.chunks(4_000) {
            let some: Vec<&[u8]> = some.iter().map(Vec::as_slice).collect();
            keyspace.append("crew", &some).await.unwrap();
        }
        other.insert("colour", "blue").await.unwrap();
    });
    let film: Vec<u8> = (0..300_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let put = ["blob", "put", "film", "--chunk", "64KiB", "--attributes", "silent"];
    assert_eq!(code(&cluster.run_with(&put, &film)), 0);
    assert_eq!(code(&cluster.run_with(&["blob", "put", "sparse", "--chunk", "4KiB"], b"begin")), 0);
    cluster.ok(&["blob", "write", "sparse", "end", "--at", "90000"]);
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}

/// The whole contents of a keyspace, as one text.
fn keyspace_text(cluster: &ServingProgram, keyspace: &str) -> String {
    run(async {
        let client = patience::client(cluster.endpoint()).await.unwrap();
        let keyspace = client.keyspace(keyspace).await.unwrap();
        let mut all = Vec::new();
        let mut scan = keyspace.scan("");
        while let Some(page) = scan.next_page().await.unwrap() {
            for one in page {
                let key = String::from_utf8_lossy(&one.key).into_owned();
                let expires = keyspace.inspect(&one.key).await.unwrap().unwrap().expires_at_ms;
                let mut values = Vec::new();
                loop {
                    let range = Range { start: values.len() as i64, stop: i64::MAX };
                    match keyspace.lookup_range(&one.key, range).await.unwrap().unwrap() {
                        Record::Bytes { bytes, .. } => values.push(bytes),
                        Record::List { values: some, length, .. } => {
                            values.extend(some);
                            if (values.len() as u64) < length {
                                continue;
                            }
                        }
                    }
                    break;
                }
                all.push(format!("{key} {expires:?} {} {}\n", values.len(), sum(&values.concat())));
            }
        }
        let mut list = keyspace.list_blobs("");
        while let Some(page) = list.next_page().await.unwrap() {
            for name in page {
                let blob = keyspace.blob(name.clone());
                let info = blob.stat().await.unwrap().unwrap();
                let bytes = blob.read_at(0, info.size).await.unwrap().read_to_end().await.unwrap();
                let (size, chunk, attributes) = (info.size, info.chunk_bytes, info.attributes);
                all.push(format!("{name:?} {size} {chunk} {attributes:?} {}\n", sum(&bytes)));
            }
        }
        all.sort();
        all.concat()
    })
}

#[test]
fn backup_restores_fully_and_incrementally_elsewhere() {
    let folder = crate::support::folder();
    let (full, next, third) =
        (folder.path().join("full"), folder.path().join("next"), folder.path().join("third"));
    let cluster = ServingProgram::in_memory();
    write_records(&cluster);
    let before = [keyspace_text(&cluster, "default"), keyspace_text(&cluster, "other")];
    let report = cluster.json(&["backup", text(&full)]);
    assert_eq!((report["records"].as_u64(), report["kept"].as_u64()), (Some(65), Some(0)));

    // A changed record, list and blob, and a removed record and blob.
    cluster.ok(&["kv", "insert", "key-7", "another value"]);
    cluster.ok(&["kv", "remove", "key-8"]);
    cluster.ok(&["kv", "append", "crew", "Aronnax"]);
    cluster.ok(&["blob", "write", "film", "later", "--at", "70000"]);
    cluster.ok(&["blob", "rm", "sparse"]);
    let after = [keyspace_text(&cluster, "default"), keyspace_text(&cluster, "other")];
    assert_ne!(before, after);
    let report = cluster.json(&["backup", text(&next), "--since", text(&full)]);
    assert_eq!((report["records"].as_u64(), report["kept"].as_u64()), (Some(63), Some(60)));
    let written = |folder: &Path| -> u64 {
        files(folder).iter().map(|file| std::fs::metadata(file).unwrap().len()).sum()
    };
    assert!(written(&next) < written(&full) / 2, "{} of {}", written(&next), written(&full));
    cluster.ok(&["kv", "insert", "key-9", "a third value"]);
    let last = keyspace_text(&cluster, "default");
    cluster.ok(&["backup", text(&third), "--since", text(&next), "--keyspace", "default"]);
    for folder in [&full, &next, &third] {
        let verified = cluster.json(&["verify", text(folder)]);
        assert_eq!(verified["intact"], true, "{verified}");
    }
    let read = cluster.ok(&["verify"]);
    assert!(read.contains("all was read"), "{read}");
    drop(cluster);

    let wants = [(&full, &before), (&next, &after)];
    for (folder, want) in wants {
        let cluster = ServingProgram::in_memory();
        let restored = cluster.json(&["restore", text(folder)]);
        assert_eq!(restored["keyspaces"].as_array().unwrap().len(), 2, "{restored}");
        assert_eq!([keyspace_text(&cluster, "default"), keyspace_text(&cluster, "other")], *want);
        let settings = cluster.json(&["keyspace", "show", "other"]);
        assert_eq!((&settings["partitions"], &settings["durability"]), (&4.into(), &"memory".into()));
        // A second restore needs a confirmation.
        let again = cluster.run(&["restore", text(folder)]);
        assert_eq!(code(&again), 3, "{again:?}");
        assert!(stderr(&again).contains("is not empty"), "{again:?}");
        // An unfinished restore has left a mark; the same command completes it.
        let mark: &[u8] = b"\xFFzhr unfinished restore";
        run(async {
            let client = patience::client(cluster.endpoint()).await.unwrap();
            for name in ["default", "other"] {
                client.keyspace(name).await.unwrap().insert(mark, "").await.unwrap();
            }
        });
        cluster.ok(&["kv", "remove", "key-3"]);
        cluster.ok(&["restore", text(folder)]);
        assert_eq!([keyspace_text(&cluster, "default"), keyspace_text(&cluster, "other")], *want);
        cluster.ok(&["kv", "insert", "key-1", "changed since"]);
        cluster.ok(&["kv", "insert", "mine", "stays"]);
        cluster.ok(&["restore", text(folder), "--overwrite"]);
        assert_eq!(cluster.ok(&["kv", "lookup", "key-1"]), "value 1");
        assert_eq!(cluster.ok(&["kv", "lookup", "mine"]), "stays");
    }
    // The base backup has moved, with this backup or without it.
    let cluster = ServingProgram::in_memory();
    let moved = folder.path().join("moved");
    std::fs::create_dir(&moved).unwrap();
    std::fs::rename(&next, moved.join("next")).unwrap();
    let lost = cluster.run(&["restore", text(&third)]);
    assert_eq!(code(&lost), 3, "{lost:?}");
    assert!(stderr(&lost).contains("--base"), "{lost:?}");
    cluster.ok(&[
        "restore",
        text(&third),
        "--base",
        text(&moved.join("next")),
        "-k",
        "default",
        "--as",
        "copy",
    ]);
    assert_eq!(keyspace_text(&cluster, "copy"), last);
}

/// A backup contains all data: only its owner may read it, whatever the umask.
#[test]
fn backup_is_private_to_its_owner() {
    use std::os::unix::fs::MetadataExt as _;
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["kv", "insert", "colour", "blue"]);
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("tuesday");
    let script = format!("umask 0; exec \"$0\" backup {}", text(&folder));
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_zerohop")]).env("ZEROHOP_ENDPOINT", cluster.endpoint());
    let output = command.env("ZEROHOP_SECRET_FILE", "").output().unwrap();
    assert_eq!(code(&output), 0, "{output:?}");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let all = files(&folder);
    assert!(all.len() >= 2 && all.iter().all(|file| mode(file) == 0o600), "{all:?}");
}

#[test]
fn corrupt_or_truncated_backup_is_detected() {
    let folder = crate::support::folder();
    let full = folder.path().join("full");
    let cluster = ServingProgram::in_memory();
    write_records(&cluster);
    cluster.ok(&["backup", text(&full), "--keyspace", "default"]);
    let refused = cluster.run(&["backup", text(&full)]);
    assert_eq!(code(&refused), 3, "{refused:?}");
    assert!(stderr(&refused).contains("not empty"), "{refused:?}");
    let all = files(&full);
    assert!(all.len() > 3);
    let mut tried = 0;
    for file in [&all[0], &all[all.len() / 2], all.last().unwrap()] {
        let good = std::fs::read(file).unwrap();
        let mut flipped = good.clone();
        flipped[good.len() / 2] ^= 4;
        let mut longer = good.clone();
        longer.push(0);
        for bad in [&flipped[..], &good[..good.len() - 1], &good[..good.len() / 2], &longer, b""] {
            std::fs::write(file, bad).unwrap();
            let verified = cluster.run(&["verify", text(&full)]);
            assert_eq!(code(&verified), 1, "{}: {verified:?}", file.display());
            assert!(stderr(&verified).contains("incomplete"), "{verified:?}");
            let restored = cluster.run(&["restore", text(&full), "-k", "default", "--as", "copy"]);
            assert_eq!(code(&restored), 3, "{restored:?}");
            tried += 1;
        }
        std::fs::remove_file(file).unwrap();
        assert_eq!(code(&cluster.run(&["verify", text(&full)])), 1, "{} is missing", file.display());
        std::fs::write(file, &good).unwrap();
    }
    assert_eq!(tried, 15);
    assert_eq!(code(&cluster.run(&["keyspace", "show", "copy"])), 3, "nothing was made of it");
    assert_eq!(code(&cluster.run(&["verify", text(&full)])), 0);
}

/// Makes a backup with a limit on file sizes, in blocks of 512 bytes, which simulates a full disk.
fn backup_on_full_disk(cluster: &ServingProgram, path: &Path, blocks: u64) {
    let mut command = std::process::Command::new("sh");
    let script = format!("ulimit -f {blocks}; exec \"$0\" backup \"$1\"");
    let program = env!("CARGO_BIN_EXE_zerohop");
    command.args(["-c", &script, program, text(path)]).env("ZEROHOP_ENDPOINT", cluster.endpoint());
    let output = command.env("ZEROHOP_SECRET_FILE", "").output().unwrap();
    assert_eq!(code(&output), 3, "{output:?}");
    assert!(stderr(&output).contains("writing failed"), "{output:?}");
    assert!(!path.exists(), "what was made is removed");
}

#[test]
fn small_backup_reports_full_disk_at_buffer_flush_or_manifest() {
    let folder = crate::support::folder();
    let path = folder.path().join("half");
    let cluster = ServingProgram::in_memory();
    for n in 0..40 {
        cluster.ok(&["kv", "insert", &format!("short-{n}"), "v"]);
    }
    // Large enough for each part, but not for the manifest.
    backup_on_full_disk(&cluster, &path, 1);
    cluster.ok(&["kv", "insert", "longer", &"v".repeat(100_000)]);
    // Large enough for the manifest, but not for a part that is buffered until the end.
    backup_on_full_disk(&cluster, &path, 64);
    cluster.ok(&["backup", text(&path)]);
    assert_eq!(code(&cluster.run(&["verify", text(&path)])), 0);
}

#[test]
fn interrupted_backup_leaves_nothing() {
    let folder = crate::support::folder();
    let path = folder.path().join("half");
    let cluster = ServingProgram::in_memory();
    let large = vec![7; 4 << 20];
    for n in 0..12 {
        assert_eq!(code(&cluster.run_with(&["blob", "put", &format!("large-{n}")], &large)), 0);
    }
    backup_on_full_disk(&cluster, &path, 1000);

    let mut command = zerohop(&["backup", text(&path)]);
    let mut child = RunningProcess::start(command.env("ZEROHOP_ENDPOINT", cluster.endpoint()));
    let started = std::time::Instant::now();
    while !path.exists() && child.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < GIVE_UP_AFTER, "it does not begin");
    }
    let _ended = kill_process(child.pid(), Signal::INT);
    match child.ended().code() {
        // The backup was complete before the signal came.
        Some(0) => assert_eq!(code(&cluster.run(&["verify", text(&path)])), 0),
        ended => {
            assert_eq!(ended, Some(130));
            assert!(!path.exists(), "what was made is removed");
        }
    }
    // The folder of a killed backup is not a backup, and is used again.
    let left = folder.path().join("left");
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("unfinished"), "").unwrap();
    std::fs::write(left.join("0000-0000000.part"), "half of one").unwrap();
    let verified = cluster.run(&["verify", text(&left)]);
    assert_eq!(code(&verified), 1, "{verified:?}");
    assert!(stderr(&verified).contains("never finished"), "{verified:?}");
    cluster.ok(&["backup", text(&left)]);
    let verified = cluster.run(&["verify", text(&left)]);
    assert!(stdout(&verified).contains("intact"), "{verified:?}");
}

#[test]
fn snapshots_have_constant_sum_during_transfers() {
    const ACCOUNTS: i64 = 40;
    const EACH: i64 = 100;
    let cluster = ServingProgram::up(&["--memory", "--instances", "2"]);
    let endpoint = cluster.endpoint().to_owned();
    run(async {
        let client = patience::client(&endpoint).await.unwrap();
        let bank = client.keyspace("default").await.unwrap();
        for n in 0..ACCOUNTS {
            bank.increment(&format!("account-{n}"), EACH).await.unwrap();
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let mut tellers = Vec::new();
        for teller in 0..4i64 {
            let (client, bank, is_over) = (client.clone(), bank.clone(), Arc::clone(&is_over));
            tellers.push(tokio::spawn(async move {
                let mut done = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let (from, to) =
                        ((teller * 7 + done * 3) % ACCOUNTS, (teller + done * 11 + 1) % ACCOUNTS);
                    let transaction = client.begin();
                    let (from, to) = (format!("account-{from}"), format!("account-{to}"));
                    if from != to {
                        let _ = transaction.write(bank.increment(&from, -3)).unwrap();
                        let _ = transaction.write(bank.increment(&to, 3)).unwrap();
                        transaction.commit().await.unwrap();
                    }
                    done += 1;
                }
                done
            }));
        }
        for _ in 0..6 {
            let snapshot = client.snapshot(&[&bank]).await.unwrap();
            for _ in 0..2 {
                let mut scan = snapshot.scan(&bank, "account-");
                let (mut sum, mut count) = (0, 0);
                while let Some(page) = scan.next_page().await.unwrap() {
                    let keys: Vec<_> = page.iter().map(|one| (&bank, &one.key)).collect();
                    for record in snapshot.read_many(&keys).await.unwrap() {
                        let Some(Record::Bytes { bytes, .. }) = record else { panic!("{record:?}") };
                        sum += std::str::from_utf8(&bytes).unwrap().parse::<i64>().unwrap();
                        count += 1;
                    }
                }
                assert_eq!((sum, count), (ACCOUNTS * EACH, ACCOUNTS));
            }
            snapshot.close().await.unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        let mut done = 0;
        for teller in tellers {
            done += teller.await.unwrap();
        }
        assert!(done > 20, "{done} transfers: hardly anything was tried");

        // Writes before the snapshot are in it, later ones are not; and the snapshot ends.
        bank.insert("before", "is there").await.unwrap();
        bank.insert_until("expires", "is there", Expiry::AfterMs(600_000)).await.unwrap();
        let snapshot = client.snapshot(&[&bank]).await.unwrap();
        bank.insert("after", "is not").await.unwrap();
        bank.remove("before").await.unwrap();
        assert!(snapshot.lookup(&bank, "before").await.unwrap().is_some());
        assert!(snapshot.lookup(&bank, "after").await.unwrap().is_none());
        assert!(snapshot.inspect(&bank, "expires").await.unwrap().unwrap().expires_at_ms.is_some());
        let age = std::time::Duration::from_secs(1);
        let options = SnapshotOptions { age, ..SnapshotOptions::default() };
        let snapshot = client.snapshot_with(&[&bank], options).await.unwrap();
        let started = std::time::Instant::now();
        let expired = loop {
            match snapshot.lookup(&bank, "before").await {
                Ok(_) => assert!(started.elapsed() < GIVE_UP_AFTER, "it does not end"),
                Err(error) => break error,
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        };
        assert!(is_expired(&expired), "{expired}");
    });
}

fn is_expired(error: &Error) -> bool {
    matches!(error.failure(), Some(Failure::SnapshotExpired))
}

/// The names of all keyspaces.
fn keyspaces(cluster: &ServingProgram) -> Vec<String> {
    let all = cluster.list(&["keyspace", "list"]);
    all.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn restore_to_fewer_nodes_reduces_replicas_and_reports_it() {
    let folder = crate::support::folder();
    let backup = folder.path().join("backup");
    let three = ServingProgram::start(zerohop(&["up", "--memory", "--nodes", "3", "--port", "0", "--json"]));
    three.ok(&[
        "keyspace",
        "create",
        "results",
        "--replicas",
        "3",
        "--durability",
        "memory",
        "--partitions",
        "4",
    ]);
    three.ok(&["kv", "insert", "k", "v", "--keyspace", "results"]);
    three.ok(&["kv", "insert", "colour", "blue"]);
    three.ok(&["backup", text(&backup)]);
    drop(three);

    let cluster = ServingProgram::in_memory();
    // Too many copies are refused before anything is changed, even if other keyspaces could be
    // restored.
    let refused = cluster.run(&["restore", text(&backup), "--replicas", "2"]);
    assert!(code(&refused) == 3 && stderr(&refused).contains("2 replicas, but"), "{refused:?}");
    assert_eq!(cluster.ok(&["kv", "scan"]), "");
    assert_eq!(keyspaces(&cluster), ["default"]);
    let done = cluster.run(&["restore", text(&backup)]);
    assert_eq!(code(&done), 0, "{done:?}");
    assert!(
        stderr(&done).contains("WARNING: keyspace results is made with 1 copy where it had 3"),
        "{done:?}"
    );
    assert_eq!(cluster.ok(&["kv", "lookup", "k", "--keyspace", "results"]), "v");
    assert_eq!(cluster.ok(&["kv", "lookup", "colour"]), "blue");
    assert_eq!(cluster.json(&["keyspace", "show", "results"])["replicas"], 1);
    // With an explicit number there is no warning.
    let more = ["restore", text(&backup), "--keyspace", "results", "--as", "more", "--replicas", "1"];
    let done = cluster.run(&more);
    assert_eq!((code(&done), stderr(&done).as_str()), (0, ""), "{done:?}");
}

#[test]
fn refused_restore_changes_nothing() {
    let folder = crate::support::folder();
    let backup = folder.path().join("backup");
    let disk = ServingProgram::up(&["--data", text(&folder.path().join("data"))]);
    disk.ok(&["keyspace", "create", "a", "--durability", "memory"]);
    disk.ok(&["keyspace", "create", "b", "--durability", "sync"]);
    for name in ["default", "a", "b"] {
        disk.ok(&["kv", "insert", "k", "v", "--keyspace", name]);
    }
    disk.ok(&["backup", text(&backup)]);
    drop(disk);

    let cluster = ServingProgram::in_memory();
    let refused = cluster.run(&["restore", text(&backup)]);
    assert!(code(&refused) == 3 && stderr(&refused).contains("durability sync"), "{refused:?}");
    assert_eq!(keyspaces(&cluster), ["default"]);
    assert_eq!(cluster.ok(&["kv", "scan"]), "");
    cluster.ok(&["keyspace", "create", "b", "--durability", "memory"]);
    cluster.ok(&["kv", "insert", "mine", "stays", "--keyspace", "b"]);
    let refused = cluster.run(&["restore", text(&backup)]);
    assert!(code(&refused) == 3 && stderr(&refused).contains("the keyspace b is not empty"), "{refused:?}");
    assert_eq!(keyspaces(&cluster), ["default", "b"]);
    assert_eq!(cluster.ok(&["kv", "scan"]), "");
    // Of several keyspaces one has to be named.
    let unnamed = cluster.run(&["restore", text(&backup), "--as", "c"]);
    assert!(code(&unnamed) == 2 && stderr(&unnamed).contains("the backup has default, a, b"), "{unnamed:?}");
    let one = folder.path().join("one");
    cluster.ok(&["kv", "insert", "colour", "blue"]);
    cluster.ok(&["backup", text(&one), "--keyspace", "default"]);
    cluster.ok(&["restore", text(&one), "--as", "c"]);
    assert_eq!(cluster.ok(&["kv", "lookup", "colour", "--keyspace", "c"]), "blue");
}
