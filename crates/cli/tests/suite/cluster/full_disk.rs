//! Three nodes that share a disk, which another program fills to the last byte.

use crate::cluster::nodes::NodeCluster;
use crate::support::disk::SmallDisk;
use crate::support::wait_for;

/// Half of the reserve of an instance is 32 MiB: removals use it.
const FREE_BYTES: u64 = 48 << 20;

const KEYS: usize = 40;

fn key(number: usize) -> String {
    format!("key-{number}")
}

/// Without the marker of its epoch, a new primary answers nothing.
#[test]
fn takeover_without_a_free_byte_serves_reads_and_then_removals() {
    let folder = crate::support::folder();
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk"), "400m") else {
        return crate::support::not_run("only root may mount a disk of 400 MiB");
    };
    let mut cluster = NodeCluster::start(&folder.path().join("disk"), 3);
    let ok = |cluster: &NodeCluster, arguments: &[&str]| {
        let (code, out, problems) = cluster.run(arguments);
        assert_eq!(code, 0, "{arguments:?}: {out} {problems}");
        out
    };
    let keyspaces = [("lazy", "interval"), ("strict", "sync")];
    for (name, durability) in keyspaces {
        let settings =
            ["--replicas", "3", "--min-in-sync", "2", "--partitions", "4", "--durability", durability];
        ok(&cluster, &[&["keyspace", "create", name][..], &settings].concat());
        for number in 0..KEYS {
            ok(&cluster, &["kv", "insert", "-k", name, &key(number), &key(number)]);
        }
    }
    // A primary that appends an entry just then, such as a bound of its timestamps, leaves out followers that cannot store it. If both
    // are left out, no other node may take over. That is not the case of this test.
    for attempt in 0.. {
        assert!(attempt < 20, "each time a follower was left out");
        ok(&cluster, &["status", "--wait", "whole"]);
        disk.fill_disk();
        let is_whole = || {
            let status: serde_json::Value =
                serde_json::from_str(&ok(&cluster, &["status", "--json"])).unwrap();
            status["groups"]["rebuilding"] == 0
        };
        if (0..10).all(|_| is_whole()) {
            break;
        }
        disk.free();
    }
    cluster.kill(0);
    for (name, _) in keyspaces {
        for number in 0..KEYS {
            let lookup = || cluster.run(&["kv", "lookup", "-k", name, &key(number)]);
            let (_, found, _) = wait_for("the key is read", lookup, |(code, ..)| *code == 0);
            assert_eq!(found.trim_end(), key(number));
        }
    }
    disk.leave(FREE_BYTES);
    for (name, _) in keyspaces {
        for number in (0..KEYS).step_by(2) {
            let remove = || cluster.run(&["kv", "remove", "-k", name, &key(number)]);
            wait_for("the key is removed", remove, |(code, ..)| *code <= 1);
        }
    }
    disk.free();
    for (name, _) in keyspaces {
        let insert = || cluster.run(&["kv", "insert", "-k", name, "after", "value"]);
        wait_for("writes are accepted", insert, |(code, ..)| *code == 0);
    }
    cluster.start_again(0);
    for (name, _) in keyspaces {
        for number in 0..KEYS {
            let (code, found, problems) = cluster.run(&["kv", "lookup", "-k", name, &key(number)]);
            let expected = if number % 2 == 0 { (1, "") } else { (0, &*key(number)) };
            assert_eq!((code, found.trim_end()), expected, "{problems}");
        }
    }
}
