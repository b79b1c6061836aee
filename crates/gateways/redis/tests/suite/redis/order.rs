//! Replies come in the order of their commands, whatever the owner of the keys and the time of
//! each.

use std::io::Write;

use crate::redis::support::{Redis, Reply, addresses, bulk, command, in_memory, make_sync_keyspace, ok};

#[test]
fn pipeline_replies_over_all_instances_keep_order() {
    let server = in_memory(3);
    let mut redis = Redis::connect(addresses(&server)[0]);
    for round in 0..3 {
        let mut bytes = Vec::new();
        for n in 0..500 {
            bytes.extend(command(&[b"SET", format!("k{n}").as_bytes(), format!("{round}-{n}").as_bytes()]));
            bytes.extend(command(&[b"GET", format!("k{n}").as_bytes()]));
            bytes.extend(command(&[b"ECHO", format!("{n}").as_bytes()]));
        }
        redis.stream.write_all(&bytes).unwrap();
        for n in 0..500 {
            assert_eq!(redis.reply(), ok());
            assert_eq!(redis.reply(), bulk(&format!("{round}-{n}")));
            assert_eq!(redis.reply(), bulk(&n.to_string()));
        }
    }
    for address in &addresses(&server) {
        let mut other = Redis::connect(*address);
        assert_eq!(other.send_command("DBSIZE"), Reply::Number(500));
        assert_eq!(other.send_command("GET k499"), bulk("2-499"));
    }
    assert_eq!(redis.send_command("FLUSHDB"), ok());
    assert_eq!(redis.send_command("DBSIZE"), Reply::Number(0));
    server.stop().unwrap();
}

#[test]
fn empty_key_is_refused_in_words_and_connection_goes_on() {
    let server = in_memory(2);
    let mut redis = Redis::connect(addresses(&server)[0]);
    for words in [&[b"SET", &b""[..], b"v"][..], &[b"RPUSH", b"", b"v"], &[b"INCR", b""]] {
        redis.stream.write_all(&command(words)).unwrap();
        let text = "ERR the key is empty: a key has 1 to 65536 bytes".to_owned();
        assert_eq!(redis.reply(), Reply::Error(text), "{words:?}");
    }
    redis.stream.write_all(&command(&[b"GET", b""])).unwrap();
    assert_eq!(redis.reply(), Reply::Bulk(None));
    assert_eq!(redis.send_command("SET k v"), ok());
    server.stop().unwrap();
}

#[test]
fn replies_keep_order_behind_disk_waits() {
    let folder = tempfile::tempdir().unwrap();
    let listen = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let options = zerohop_server::ServerOptions {
        data: Some(folder.path().to_owned()),
        instances: Some(2),
        gateway: Some(zerohop_redis::GATEWAY),
        ..zerohop_server::ServerOptions::new(listen)
    };
    let server = zerohop_server::Server::start(options).unwrap();
    make_sync_keyspace(server.manager_address(), "durable");
    for address in &addresses(&server) {
        let mut redis = Redis::connect(*address);
        assert_eq!(redis.send_command("ZH.KEYSPACE durable"), ok());
        let words =
            ["SET a 1", "INCR a", "PING", "MULTI", "INCR a", "RPUSH l x y", "EXEC", "GET a", "DEL a l"];
        words.iter().for_each(|words| redis.send(words));
        let number = Reply::Number;
        let queued = || Reply::Simple("QUEUED".to_owned());
        let expected = [
            ok(),
            number(2),
            Reply::Simple("PONG".to_owned()),
            ok(),
            queued(),
            queued(),
            Reply::Array(Some(vec![number(3), number(2)])),
            bulk("3"),
            number(2),
        ];
        expected.into_iter().for_each(|reply| assert_eq!(redis.reply(), reply));
    }
    server.stop().unwrap();
}

#[test]
fn changed_watched_key_aborts_exec_and_wait_ends_at_its_value() {
    let server = in_memory(2);
    let addresses = addresses(&server);
    let (mut one, mut other) = (Redis::connect(addresses[0]), Redis::connect(addresses[1]));
    for n in 0..8 {
        let key = format!("k{n}");
        assert_eq!(one.send_command(&format!("SET {key} 1")), ok());
        for (change, undone) in [("PING", false), ("EXPIRE K 100", true), ("SET K 2", true)] {
            assert_eq!(one.send_command(&format!("WATCH {key}")), ok());
            other.send_command(&change.replace('K', &key));
            assert_eq!(one.send_command("MULTI"), ok());
            one.send_command(&format!("INCR {key}"));
            assert_eq!(one.send_command("EXEC") == Reply::Array(None), undone, "{change} of {key}");
        }
        one.send(&format!("ZH.WAIT {key} go 15000"));
        other.send_command(&format!("SET {key} stay"));
        assert_eq!(other.send_command(&format!("SET {key} go")), ok());
        assert_eq!(one.reply(), Reply::Number(1));
        assert_eq!(one.send_command(&format!("ZH.WAIT {key} never 30")), Reply::Number(0));
    }
    server.stop().unwrap();
}
