//! Connections whose keyspace is dropped get the same error for each command that needs a keyspace.

use crate::redis::support::{Redis, Reply, addresses, drop_keyspace, in_memory, make_keyspace, ok};
use crate::support::waiting::wait_for;

/// Commands without keys that need the keyspace.
const WITHOUT_KEYS: [&str; 10] = [
    "CLUSTER COUNTKEYSINSLOT 7",
    "CLUSTER INFO",
    "CLUSTER SLOTS",
    "DBSIZE",
    "FLUSHALL",
    "FLUSHDB",
    "KEYS *",
    "RANDOMKEY",
    "SCAN 0",
    "ZH.KEYSPACE",
];

fn is_dropped(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with("ERR the keyspace of this connection was dropped: "))
}

#[test]
fn all_commands_in_a_dropped_keyspace_are_refused() {
    let server = in_memory(2);
    make_keyspace(server.manager_address(), "gone", "memory");
    make_keyspace(server.manager_address(), "stays", "memory");
    let mut clients: Vec<Redis> = addresses(&server).into_iter().map(Redis::connect).collect();
    for client in &mut clients {
        assert_eq!(client.send_command("ZH.KEYSPACE gone"), ok());
        assert_eq!(client.send_command("SET k v"), ok());
        assert_eq!(client.send_command("DBSIZE"), Reply::Number(1));
    }
    drop_keyspace(server.manager_address(), "gone");
    for client in &mut clients {
        wait_for("the instance knows of the drop", || client.send_command("GET k"), is_dropped);
        for line in WITHOUT_KEYS {
            let reply = client.send_command(line);
            assert!(is_dropped(&reply), "{line}: {reply:?}");
        }
        assert_eq!(client.send_command("PING"), Reply::Simple("PONG".to_owned()));
        assert_eq!(client.send_command("ZH.KEYSPACE stays"), ok());
        assert_eq!(client.send_command("DBSIZE"), Reply::Number(0));
    }
    server.stop().unwrap();
}
