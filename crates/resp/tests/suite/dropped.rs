//! A connection whose keyspace was dropped: each command that needs a keyspace gets the same error, also if it needs no key.

use super::connection::ModelClient;
use zerohop_wire::ids::KeyspaceId;

/// Commands of the keyspace, with valid arguments.
const NEEDS_KEYSPACE: [&str; 21] = [
    "CLUSTER COUNTKEYSINSLOT 1",
    "CLUSTER INFO",
    "CLUSTER NODES",
    "CLUSTER SHARDS",
    "CLUSTER SLOTS",
    "DBSIZE",
    "FLUSHALL",
    "FLUSHDB",
    "FLUSHDB ASYNC",
    "KEYS *",
    "RANDOMKEY",
    "SCAN 0",
    "SCAN 0 MATCH x COUNT 1000 TYPE string",
    "SCAN 77",
    // Behind the last partition.
    "SCAN 4294967295000",
    "ZH.KEYSPACE",
    "GET k",
    "MGET {a}1 {b}2",
    "DEL {a}1 {b}2",
    "WATCH k",
    "ZH.WAIT k v 1000",
];

/// Commands without one.
const NEEDS_NONE: [&str; 13] = [
    "CLUSTER KEYSLOT k",
    "CLUSTER MYID",
    "CLIENT ID",
    "CONFIG GET save",
    "COMMAND COUNT",
    "DISCARD",
    "ECHO x",
    "HELLO",
    "INFO",
    "MULTI",
    "PING",
    "SELECT 0",
    "TIME",
];

fn is_refused(reply: &str) -> bool {
    reply.starts_with("-ERR the keyspace of this connection was dropped: ") && reply.lines().count() == 1
}

#[test]
fn commands_in_dropped_keyspace_are_refused_in_words() {
    for spans in [false, true] {
        for line in NEEDS_KEYSPACE {
            let mut client = ModelClient::new();
            client.world.serves_cross_partition = spans;
            client.send("SET k 1\nSET {a}1 1");
            assert!(!client.send(line).starts_with("-ERR the keyspace"), "{line}");
            client.world.run_waiting(&mut client.connection, &mut client.out);
            let mut client = ModelClient::new();
            client.world.serves_cross_partition = spans;
            client.world.absent.dropped.insert(KeyspaceId(1));
            let reply = client.send(line);
            assert!(is_refused(&reply), "{line}: {reply}");
            // The connection goes on, in a keyspace that exists.
            assert_eq!(client.send("ZH.KEYSPACE other\nSET k 2\nDBSIZE"), "+OK\r\n+OK\r\n:1\r\n", "{line}");
        }
    }
}

#[test]
fn commands_before_first_keyspace_get_temporary_error() {
    for spans in [false, true] {
        for line in NEEDS_KEYSPACE.into_iter().chain(["ZH.KEYSPACE default", "MULTI\nSET k 1\nEXEC"]) {
            let mut client = ModelClient::new();
            client.world.serves_cross_partition = spans;
            client.world.absent.are_awaited = true;
            let reply = client.send(line);
            let last = reply.lines().last().unwrap_or_default();
            assert!(last.starts_with("-TRYAGAIN "), "{line}: {reply}");
            client.world.absent.are_awaited = false;
            assert_eq!(client.send("SET k 2\nDBSIZE"), "+OK\r\n:1\r\n", "{line}");
        }
    }
}

#[test]
fn other_commands_work_when_the_keyspace_is_dropped() {
    for line in NEEDS_NONE {
        let mut client = ModelClient::new();
        let before = client.send(line);
        let mut client = ModelClient::new();
        client.world.absent.dropped.insert(KeyspaceId(1));
        assert_eq!(client.send(line), before, "{line}");
        assert!(!is_refused(&before), "{line}: {before}");
    }
}

#[test]
fn arguments_are_checked_before_the_keyspace() {
    let mut client = ModelClient::new();
    client.world.absent.dropped.insert(KeyspaceId(1));
    for line in ["FLUSHDB NOW", "SCAN x", "SCAN 0 COUNT 0", "KEYS", "CLUSTER COUNTKEYSINSLOT x"] {
        let reply = client.send(line);
        assert!(reply.starts_with("-ERR ") && !is_refused(&reply), "{line}: {reply}");
    }
}

#[test]
fn transaction_in_dropped_keyspace_is_refused() {
    let mut client = ModelClient::new();
    assert_eq!(client.send("WATCH k\nMULTI\nSET k 1"), "+OK\r\n+OK\r\n+QUEUED\r\n");
    client.world.absent.dropped.insert(KeyspaceId(1));
    let reply = client.send("EXEC");
    assert!(is_refused(&reply), "{reply}");
}

/// A keyspace that is dropped while partitions are asked.
#[test]
fn command_over_all_partitions_of_keyspace_dropped_meanwhile_is_refused() {
    for line in ["DBSIZE", "FLUSHDB", "KEYS *", "RANDOMKEY", "SCAN 0 COUNT 4096"] {
        let mut client = ModelClient::new();
        client.world.remote.extend([0, 1, 2, 3]);
        assert_eq!(client.send(line), "");
        client.world.absent.dropped.insert(KeyspaceId(1));
        let reply = client.deliver_all();
        assert!(is_refused(&reply), "{line}: {reply}");
    }
}
