//! A full disk: operations that need space are refused with a message, and operations that free
//! space succeed, in any number of partitions.

use std::ops::Range;
use std::process::Output;

use rustix::process::{Signal, kill_process};

use crate::support::disk::SmallDisk;
use crate::support::serving::{ServingProgram, code, pid, stderr, zerohop};
use crate::support::wait_for;

const MIB: u64 = 1 << 20;

/// Names sort in the order of their numbers, which are below ten.
const TRIES: usize = 9;

/// Writes until both instances report that the disk is full: each measures it at times of its own.
fn fill_disk(cluster: &ServingProgram) {
    let long = vec![b'x'; 1 << 20];
    let is_full = (0..80).any(|number| {
        let insert = cluster.run_with(&["kv", "insert", &format!("fill-{number}"), "-"], &long);
        code(&insert) == 3 && stderr(&insert).contains("the disk is full")
    });
    assert!(is_full, "writes still succeed");
    let full = |status: &String| {
        [1, 2].iter().all(|instance| status.contains(&format!("instance {instance}: its disk is full")))
    };
    wait_for("both instances report the full disk", || cluster.ok(&["status"]), full);
}

/// The first operation that fails: its number and its output. A node frees space as it compacts, at
/// any time, so that the free space is set again before each try.
fn until_refused(disk: &SmallDisk, left: u64, mut one: impl FnMut(usize) -> Output) -> (usize, Output) {
    let mut tries = (0..TRIES).map(|number| {
        disk.leave(left);
        (number, one(number))
    });
    tries.find(|(_, output)| code(output) != 0).expect("one is refused")
}

#[test]
fn blobs_are_removed_from_a_full_disk_and_transactions_refused_in_words() {
    let folder = crate::support::folder();
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk"), "220m") else {
        return crate::support::not_run("only root may mount a disk of 220 MiB");
    };
    let data = folder.path().join("disk/data");
    let cluster = ServingProgram::up(&["--data", data.to_str().unwrap(), "--instances", "2"]);
    let stays = |number: usize| format!("stays-{number}");
    let blobs = [("one".into(), 1), ("some".into(), 40), ("many".into(), 2000)];
    for (name, chunks) in blobs.into_iter().chain((0..TRIES).map(|number| (stays(number), 300))) {
        let put = cluster.run_with(&["blob", "put", &name, "--chunk", "4KiB"], &vec![7; chunks * 4096]);
        assert_eq!(code(&put), 0, "{put:?}");
    }
    let kept = |number: usize| format!("kept-{number}");
    for key in ["a", "b", "c"].map(String::from).into_iter().chain((0..TRIES).map(kept)) {
        cluster.ok(&["kv", "insert", &key, "v"]);
    }

    // A node reserves 64 MiB, of which removals may use half.
    disk.leave(60 * MIB);
    fill_disk(&cluster);
    // Space that is allocated ahead is freed as far as removals need it.
    disk.leave(56 * MIB);
    for name in ["one", "some", "many"] {
        let removed = cluster.run(&["blob", "rm", name]);
        assert_eq!(code(&removed), 0, "{removed:?}");
        assert_eq!(code(&cluster.run(&["blob", "stat", name])), 1);
    }
    let only_removals = cluster.run_with(&["txn"], "remove a\nremove b\nremove c\nlookup kept-0".as_bytes());
    assert_eq!(only_removals.stdout, b"v\n", "{only_removals:?}");
    let (number, refused) = until_refused(&disk, 56 * MIB, |number| {
        let lines = format!("insert e-{number} v\ninsert f-{number} v\nremove {}", kept(number));
        cluster.run_with(&["txn"], lines.as_bytes())
    });
    assert_eq!(code(&refused), 3, "{refused:?}");
    assert!(stderr(&refused).contains("disk or memory of a partition is full"), "{refused:?}");
    assert_eq!(cluster.ok(&["kv", "lookup", &kept(number)]), "v");
    for key in [format!("e-{number}"), format!("f-{number}")] {
        assert_eq!(code(&cluster.run(&["kv", "lookup", &key])), 1, "nothing of what is refused is done");
    }
    let there: String = (0..TRIES).map(|number| stays(number) + "\n").collect();
    assert_eq!(cluster.ok(&["blob", "ls"]), there, "reads do not wait");

    // Another program takes that half too: each instance gives the room that it holds to its first removal.
    let (number, refused) = until_refused(&disk, MIB, |number| cluster.run(&["blob", "rm", &stays(number)]));
    assert!(number > 0, "the first removal is accepted: {refused:?}");
    assert_eq!(code(&refused), 3, "{refused:?}");
    // The transaction is refused, or the first of its entries.
    assert!(
        stderr(&refused).contains("disk is full") || stderr(&refused).contains("memory is full"),
        "{refused:?}"
    );

    disk.free();
    for number in number..TRIES {
        cluster.ok(&["blob", "rm", &stays(number)]);
    }
    assert_eq!(cluster.ok(&["blob", "ls"]), "");
}

/// The keyspace of a log is made by a manager, and its record by a partition, which has no room.
#[test]
fn log_that_has_no_room_is_completed_by_the_same_command() {
    let folder = crate::support::folder();
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk"), "220m") else {
        return crate::support::not_run("only root may mount a disk of 220 MiB");
    };
    let data = folder.path().join("disk/data");
    let cluster = ServingProgram::up(&["--data", data.to_str().unwrap(), "--instances", "2"]);
    disk.leave(60 * MIB);
    fill_disk(&cluster);
    let name = |number: usize| format!("ev-{number}");
    let create = |number: usize| cluster.run(&["log", "create", &name(number)]);
    let (number, refused) = until_refused(&disk, 56 * MIB, create);
    assert_eq!(code(&refused), 4, "{refused:?}");
    assert!(stderr(&refused).contains("the same `zerohop log create` completes it"), "{refused:?}");
    let made = |line: &str| line.starts_with(&name(number));
    assert!(cluster.ok(&["keyspace", "list"]).lines().any(made));
    // This command has made no keyspace, and changed nothing.
    disk.leave(56 * MIB);
    assert_eq!(code(&create(number)), 3);
    disk.free();
    wait_for("there is room", || create(number), |created| code(created) == 0);
    cluster.ok(&["log", "append", &name(number), "a"]);
}

/// The last flush uses space that is allocated ahead. The clean-shutdown file (24 bytes in a file
/// of its own) may find no space, and the next start works without it.
#[test]
fn full_cluster_stops_cleanly_and_keeps_acknowledged_writes() {
    let folder = crate::support::folder();
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk"), "220m") else {
        return crate::support::not_run("only root may mount a disk of 220 MiB");
    };
    let data = folder.path().join("disk/data");
    let up = || ServingProgram::up(&["--data", data.to_str().unwrap(), "--instances", "2"]);
    let keys = |range: Range<usize>| range.map(|number| format!("key-{number}"));
    let mark_of = |instance: usize| data.join(format!("node-1/instance-{instance:02}/closed"));

    let cluster = up();
    for key in keys(0..20) {
        cluster.ok(&["kv", "insert", &key, &key]);
    }
    disk.fill_disk();
    assert_eq!(cluster.end_with(Signal::TERM), Some(0), "it stops cleanly, and nothing is lost");

    disk.free();
    let cluster = up();
    for key in keys(0..20) {
        assert_eq!(cluster.ok(&["kv", "lookup", &key]), key);
    }
    cluster.ok(&["kv", "insert", "after", "value"]);
    assert_eq!(cluster.end_with(Signal::TERM), Some(0));
    assert!([0, 1].iter().all(|instance| mark_of(*instance).exists()), "there is room again");
}

/// Another program fills the disk to the last byte, and only removals come.
#[test]
fn records_are_removed_from_a_disk_without_a_free_byte() {
    let folder = crate::support::folder();
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk"), "220m") else {
        return crate::support::not_run("only root may mount a disk of 220 MiB");
    };
    let data = folder.path().join("disk/data");
    let cluster = ServingProgram::up(&["--data", data.to_str().unwrap(), "--instances", "2"]);
    let long = vec![b'x'; 1 << 20];
    let keys: Vec<String> = (0..20).map(|number| format!("key-{number}")).collect();
    for key in &keys {
        assert_eq!(code(&cluster.run_with(&["kv", "insert", key, "-"], &long)), 0);
    }
    let ballast = |instance: usize| data.join(format!("node-1/instance-{instance:02}/reserve"));
    let bytes = |instance| std::fs::metadata(ballast(instance)).map_or(0, |file| file.len());
    wait_for("the instances have their ballast", || bytes(0) + bytes(1), |bytes| *bytes == 8 * MIB);
    disk.fill_disk();
    for key in &keys {
        cluster.ok(&["kv", "remove", key]);
    }
    let insert = || cluster.run_with(&["kv", "insert", "other", "-"], &long);
    assert_eq!(code(&insert()), 3, "writes need the reserve");
    disk.free();
    wait_for("writes are accepted", insert, |insert| code(insert) == 0);
}

/// No other writes happen meanwhile, which would cause the checkpoints that compaction needs.
#[test]
fn removals_on_a_full_disk_allow_writes() {
    let folder = crate::support::folder();
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk"), "220m") else {
        return crate::support::not_run("only root may mount a disk of 220 MiB");
    };
    let data = folder.path().join("disk/data");
    let cluster = ServingProgram::up(&["--data", data.to_str().unwrap(), "--instances", "2"]);
    let long = vec![b'x'; 1 << 20];
    let insert = |key: &str| cluster.run_with(&["kv", "insert", key, "-"], &long);
    let is_there = |key: &str| code(&cluster.run(&["kv", "lookup", key])) == 0;
    disk.leave(160 * MIB);
    let number = (0..200).find(|number| code(&insert(&format!("key-{number}"))) != 0);
    let keys: Vec<String> = (0..number.expect("the disk is full")).map(|n| format!("key-{n}")).collect();
    let (halves, rest): (Vec<_>, Vec<_>) = keys.iter().enumerate().partition(|(number, _)| number % 2 == 0);
    for (_, key) in &halves {
        cluster.ok(&["kv", "remove", key]);
    }
    wait_for("writes succeed after half of the data is removed", || insert("again"), |one| code(one) == 0);
    assert!(rest.iter().all(|(_, key)| is_there(key)), "something is gone that was not removed");
}

#[test]
fn overwriting_on_a_small_disk_is_never_refused() {
    let folder = crate::support::folder();
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk"), "220m") else {
        return crate::support::not_run("only root may mount a disk of 220 MiB");
    };
    let data = folder.path().join("disk/data");
    let cluster = ServingProgram::up(&["--data", data.to_str().unwrap(), "--instances", "2"]);
    disk.leave(120 * MIB);
    for round in 0..300 {
        let value = vec![round as u8; 1 << 20];
        let insert = cluster.run_with(&["kv", "insert", &format!("key-{}", round % 8), "-"], &value);
        assert_eq!(code(&insert), 0, "round {round}: {insert:?}");
    }
}

#[test]
fn changes_that_cannot_be_saved_have_one_line_in_the_log() {
    let folder = crate::support::folder();
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk"), "220m") else {
        return crate::support::not_run("only root may mount a disk of 220 MiB");
    };
    let data = folder.path().join("disk/data");
    let log = folder.path().join("log");
    let mut command = zerohop(&["up", "--nodes", "1", "--port", "0", "--json", "--instances", "1", "--data"]);
    command.arg(&data);
    let cluster = ServingProgram::start_with_log(command, &log);
    disk.fill_disk();
    // The space that the node keeps for its own files is used first.
    cluster.ok(&["keyspace", "create", "fits"]);
    disk.fill_disk();
    // The command repeats its request until a time limit.
    let create = cluster.run(&["keyspace", "create", "other"]);
    assert_eq!(code(&create), 3, "{create:?}");
    let log = std::fs::read_to_string(&log).unwrap();
    assert_eq!(log.matches("could not be saved").count(), 1, "{log}");
    assert!(log.contains("attempts=1"), "{log}");
    disk.free();
}

/// Another program has filled the disk, and the node is killed before it notices it.
#[test]
fn killed_node_starts_on_a_disk_without_a_free_byte() {
    let folder = crate::support::folder();
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk"), "220m") else {
        return crate::support::not_run("only root may mount a disk of 220 MiB");
    };
    let up = || {
        let options = ["--json", "--log-level", "error", "--instances", "1", "--nodes", "1", "--port", "0"];
        let mut command = zerohop(&[&["up"][..], &options].concat());
        command.arg("--data").arg(folder.path().join("disk/data"));
        ServingProgram::start(command)
    };
    let cluster = up();
    cluster.ok(&["keyspace", "create", "durable", "--durability", "sync"]);
    cluster.ok(&["kv", "insert", "key", "value", "--keyspace", "durable"]);
    disk.fill_disk();
    let node = cluster.ready["nodes"][0]["pid"].as_u64().unwrap();
    kill_process(pid(node), Signal::KILL).unwrap();
    cluster.end_with(Signal::KILL);
    let again = up();
    assert_eq!(again.ok(&["kv", "lookup", "key", "--keyspace", "durable"]), "value");
    disk.free();
    // It fills the space for its own files again.
    again.ok(&["keyspace", "create", "more"]);
    assert!(folder.path().join("disk/data/node-1/node/reserve").exists());
    assert_eq!(again.end_with(Signal::INT), Some(0));
}

/// An idle partition is checked about once a minute.
#[test]
fn idle_node_frees_the_space_of_removed_records() {
    let folder = crate::support::folder();
    let data = folder.path().join("data");
    let cluster = ServingProgram::up(&["--data", data.to_str().unwrap(), "--instances", "1"]);
    let long = vec![b'x'; 1 << 20];
    let lines = |line: fn(usize) -> String| (0..60).map(line).collect::<String>();
    for number in 0..60 {
        let insert = cluster.run_with(&["kv", "insert", &format!("key-{number}"), "-"], &long);
        assert_eq!(code(&insert), 0, "{insert:?}");
    }
    let log_bytes = || -> u64 {
        let status = cluster.json(&["status"]);
        let instances = status["nodes"][0]["instances"].as_array().unwrap();
        instances.iter().map(|instance| instance["log_bytes"].as_u64().unwrap()).sum()
    };
    assert!(log_bytes() > 60 * MIB, "{}", log_bytes());
    cluster.ok(&["kv", "insert", "stays", "value"]);
    let removed = cluster.run_with(&["txn"], lines(|number| format!("remove key-{number}\n")).as_bytes());
    assert_eq!(code(&removed), 0, "{removed:?}");
    // No request comes that could cause it: only the status is read.
    wait_for("the space is free", log_bytes, |bytes| *bytes < 10 * MIB);
    assert_eq!(cluster.ok(&["kv", "lookup", "stays"]), "value");
}
