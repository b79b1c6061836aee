//! A disk that is full: what needs room is refused in words, and what makes room is done, in however many partitions.

#![expect(clippy::print_stderr, reason = "whoever runs the test has to know that it was not run")]

use std::time::{Duration, Instant};

use crate::disk::Small;
use crate::support::{Serving, code, stderr};

/// Far less than an operation is tried for.
const SOON: Duration = Duration::from_secs(8);

const MIB: u64 = 1 << 20;

/// Writes until the disk is noticed to be full.
fn fill(cluster: &Serving) {
    let long = vec![b'x'; 1 << 20];
    let is_full = (0..80).any(|number| {
        let insert = cluster.run_with(&["kv", "insert", &format!("fill-{number}"), "-"], &long);
        code(&insert) == 3 && stderr(&insert).contains("the disk is full")
    });
    assert!(is_full, "it takes on and on");
}

#[test]
fn blobs_are_removed_from_a_full_disk_and_transactions_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Small::mount(&folder.path().join("disk"), "220m") else {
        eprintln!("full disk: not run, as only root may mount a disk of 220 MiB");
        return;
    };
    let data = folder.path().join("disk/data");
    let cluster = Serving::up(&["--data", data.to_str().unwrap(), "--instances", "2"]);
    for (name, chunks) in [("one", 1), ("some", 40), ("many", 2000), ("stays", 300)] {
        let put = cluster.run_with(&["blob", "put", name, "--chunk", "4KiB"], &vec![7; chunks * 4096]);
        assert_eq!(code(&put), 0, "{put:?}");
    }
    for key in ["a", "b", "c", "d"] {
        cluster.ok(&["kv", "insert", key, "v"]);
    }

    // A node keeps 64 MiB for itself, and lets removals into half of it.
    disk.leave(60 * MIB);
    fill(&cluster);
    // What was taken until then, and laid out ahead, is given back as far as removals need it.
    disk.leave(56 * MIB);
    let began = Instant::now();
    for name in ["one", "some", "many"] {
        cluster.ok(&["blob", "rm", name]);
        assert_eq!(code(&cluster.run(&["blob", "stat", name])), 1);
    }
    assert_eq!(cluster.run_with(&["txn"], b"remove a\nremove b\nremove c\nlookup d").stdout, b"v\n");
    let refused = cluster.run_with(&["txn"], b"insert e v\ninsert f v\nremove d");
    assert_eq!(code(&refused), 3, "{refused:?}");
    assert!(stderr(&refused).contains("disk or memory is full: remove records"), "{refused:?}");
    assert_eq!(cluster.ok(&["kv", "lookup", "d"]), "v");
    assert_eq!(cluster.ok(&["blob", "ls"]), "stays\n", "reads wait for nobody");

    disk.leave(16 * MIB);
    let full = ["blob", "rm", "stays"];
    let refused = (0..200).map(|_| cluster.run(&full)).find(|output| code(output) != 0);
    let refused = refused.unwrap_or_else(|| panic!("all is removed"));
    assert_eq!(code(&refused), 3, "{refused:?}");
    assert!(stderr(&refused).contains("the disk is full"), "{refused:?}");
    assert!(began.elapsed() < SOON, "it takes {:?}", began.elapsed());

    disk.free();
    cluster.ok(&["blob", "rm", "stays"]);
    assert_eq!(cluster.ok(&["blob", "ls"]), "");
}
