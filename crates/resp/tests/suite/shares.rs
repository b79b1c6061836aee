//! Limits of a client: before authentication, by its token's permissions, and by available memory.

use zerohop_resp::NextStep;
use zerohop_resp::limits::UNPROVED_COMMANDS_MAX;

use crate::connection::ModelClient;

#[test]
fn commands_are_refused_before_authentication() {
    let mut client = ModelClient::new();
    client.world.password = Some(b"secret".to_vec());
    assert_eq!(client.send("GET k\nPING"), "-NOAUTH Authentication required.\r\n".repeat(2));
    assert!(client.send("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    for wrong in ["AUTH wrong", "AUTH absent secret"] {
        assert!(client.send(wrong).starts_with("-WRONGPASS"));
        assert_eq!(
            (client.then, client.send("PING"), client.then),
            (NextStep::PauseInput, String::new(), NextStep::PauseInput)
        );
        client.connection.end_delay();
        client.bytes(b"");
        assert_eq!(client.replies(), "-NOAUTH Authentication required.\r\n");
    }
    assert_eq!(client.send("AUTH secret\nGET k"), "+OK\r\n$-1\r\n");
    // The world may give its own reason.
    let mut client = ModelClient::new();
    client.world.password = Some(b"secret".to_vec());
    assert_eq!(client.send("AUTH old"), "-WRONGPASS it has expired\r\n");
    client.connection.end_delay();
    assert!(client.send("HELLO 3 AUTH default wrong").starts_with("-WRONGPASS"));
    client.connection.end_delay();
    let greeting = client.send("HELLO 3 AUTH default secret SETNAME me");
    assert!(greeting.starts_with("%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n"), "{greeting}");
    assert_eq!(client.send("CLIENT GETNAME\nGET k"), "$2\r\nme\r\n_\r\n");
}

#[test]
fn connection_closes_after_too_many_unauthenticated_commands() {
    let mut client = ModelClient::new();
    client.world.password = Some(b"secret".to_vec());
    for left in (1..UNPROVED_COMMANDS_MAX).rev() {
        assert_eq!(client.send("PING"), "-NOAUTH Authentication required.\r\n", "{left} are left");
        assert_eq!(client.then, NextStep::More);
    }
    assert_eq!(
        (client.send("PING"), client.then),
        ("-NOAUTH Authentication required.\r\n".to_owned(), NextStep::Close)
    );
    let mut client = ModelClient::new();
    client.world.password = Some(b"secret".to_vec());
    assert!(client.send("AUTH secret").starts_with("+OK"));
    assert_eq!(client.send(&"PING\n".repeat(20)), "+PONG\r\n".repeat(20));
}

#[test]
fn transaction_queues_only_permitted_commands() {
    let mut client = ModelClient::new();
    client.world.is_read_only = true;
    assert_eq!(client.send("MULTI\nGET k"), "+OK\r\n+QUEUED\r\n");
    assert!(client.send("SET k v").starts_with("-NOPERM"));
    assert_eq!(client.connection.buffered_bytes(), 0, "nothing of it is kept");
    assert_eq!(client.send("GET k"), "+QUEUED\r\n");
    assert_eq!(client.connection.buffered_bytes(), 0, "nor what follows, as it will not be executed");
    assert!(client.send("EXEC").starts_with("-EXECABORT"));
    assert_eq!(client.send("MULTI\nGET k\nEXEC"), "+OK\r\n+QUEUED\r\n*1\r\n$-1\r\n");
}

#[test]
fn commands_beyond_buffer_limit_are_refused() {
    let mut client = ModelClient::new();
    client.world.waiting_bytes_max = 100;
    assert_eq!(client.send("MULTI\nSET k 12345678901234567890"), "+OK\r\n+QUEUED\r\n");
    let buffered = client.connection.buffered_bytes();
    assert!((1..100).contains(&buffered), "{buffered}");
    assert!(client.send(&format!("SET k {}", "x".repeat(80))).starts_with("-OOM"));
    assert_eq!(client.connection.buffered_bytes(), 0);
    assert!(client.send("EXEC").starts_with("-EXECABORT"));
    assert!(client.send(&format!("WATCH {}", "x".repeat(100))).starts_with("-OOM"));
    assert!(
        client.send(&format!("ZH.WAIT {} PRESENT 1000", "x".repeat(100))).starts_with("-OOM"),
        "it waits"
    );
    assert!(client.send(&format!("SET {{b}} {}", "x".repeat(100))).starts_with("+OK"), "it is done at once");
}
