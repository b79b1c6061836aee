//! Writes with an unknown outcome.

use std::path::Path;

use crate::cluster::nodes::NodeCluster;
use crate::cluster::redis::Redis;

/// Three nodes with a keyspace `strict`, in which every write needs all three.
fn strict(folder: &Path) -> NodeCluster {
    let cluster = NodeCluster::start(folder, 3);
    cluster.wait_until_complete();
    cluster.json(&[
        "keyspace",
        "create",
        "strict",
        "--replicas",
        "3",
        "--min-in-sync",
        "3",
        "--partitions",
        "16",
    ]);
    cluster.wait_until_complete();
    cluster
}

#[test]
fn write_with_unknown_outcome_has_its_own_exit_code() {
    let folder = crate::support::folder();
    let cluster = strict(folder.path());
    // The paused nodes cannot acknowledge, and are more than half of the managers.
    cluster.pause(1, true);
    cluster.pause(2, true);
    let mut in_doubt = None;
    for key in 0..32 {
        let key = format!("k{key}");
        let (code, out, error) =
            cluster.run(&["kv", "insert", &key, "v", "--keyspace", "strict", "--timeout", "1s"]);
        assert!(out.is_empty() && !error.is_empty(), "{out}");
        match code {
            // The primary is paused, and the write was never sent.
            3 => assert!(error.contains("nothing was changed"), "{error}"),
            4 => {
                assert!(
                    error.contains("may or may not be done") && error.contains("look the record up"),
                    "{error}"
                );
                in_doubt = Some(key);
                break;
            }
            other => panic!("{other}: {error}"),
        }
    }
    let key = in_doubt.expect("one of the keys is of the node that goes on");
    cluster.pause(1, false);
    cluster.pause(2, false);
    cluster.wait_until_complete();
    let (code, out, error) = cluster.run(&["kv", "lookup", &key, "--keyspace", "strict"]);
    assert!((code, out.as_str()) == (0, "v") || code == 1, "{code}: {out} {error}");
}

#[test]
fn redis_commands_end_when_no_other_node_answers() {
    let folder = crate::support::folder();
    let cluster = strict(folder.path());
    let client = || {
        let mut redis = Redis::connect(&cluster.instance(0));
        assert_eq!(redis.send_command("ZH.KEYSPACE strict"), "OK");
        redis
    };
    let mut clients: Vec<Redis> = (0..48).map(|_| client()).collect();
    assert_eq!(clients[0].send_command("SET k0 old"), "OK");
    // The paused nodes cannot acknowledge, and are more than half of the managers.
    cluster.pause(1, true);
    cluster.pause(2, true);
    for (key, redis) in clients.iter_mut().enumerate() {
        redis.send(&format!("SET k{key} v"));
        redis.send(&format!("GET k{key}"));
    }
    let replies: Vec<String> = clients.iter_mut().flat_map(|redis| [redis.reply(), redis.reply()]).collect();
    for reply in &replies {
        let is_in_doubt = reply.starts_with("-ERR outcome unknown: the node");
        assert!(is_in_doubt || reply.starts_with("-TRYAGAIN"), "{reply}: {replies:?}");
    }
    assert!(
        replies.iter().any(|reply| reply.starts_with("-ERR")),
        "no key is of the node that goes on: {replies:?}"
    );
    // Reads of several partitions leave nothing in doubt.
    let keys: Vec<String> = (0..48).map(|key| format!("k{key}")).collect();
    let read = clients[0].send_command(&format!("MGET {}", keys.join(" ")));
    assert!(read.starts_with("-TRYAGAIN"), "{read}");
    assert!(read.contains("no quorum") && read.contains("`zerohop status`"), "{read}");
    cluster.pause(1, false);
    cluster.pause(2, false);
    cluster.wait_until_complete();
    let found = clients[0].send_command("GET k0");
    assert!(found == "v" || found == "old", "{found}");
}
