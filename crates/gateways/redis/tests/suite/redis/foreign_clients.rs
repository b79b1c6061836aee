//! Clients that disconnect, announce too much, or do not read do not disturb others.

use std::io::{ErrorKind, Write};
use std::time::Duration;

use crate::redis::support::{Redis, Reply, addresses, bulk, command, in_memory, ok};

#[test]
fn both_protocols_are_served_on_one_port() {
    let server = in_memory(1);
    let mut redis = Redis::connect(addresses(&server)[0]);
    assert_eq!(redis.send_command("SET seen-by both"), ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let seen = runtime.block_on(async {
        let client = zerohop_client::Client::connect(&server.manager_address().to_string()).await.unwrap();
        let keyspace = client.keyspace("default").await.unwrap();
        keyspace.append("crew", &[&b"Nemo"[..]]).await.unwrap();
        keyspace.lookup("seen-by").await.unwrap()
    });
    assert!(format!("{seen:?}").contains("both"), "{seen:?}");
    assert_eq!(redis.send_command("LRANGE crew 0 -1"), Reply::Array(Some(vec![bulk("Nemo")])));
    redis.stream.write_all(b"PING\r\n").unwrap();
    assert_eq!(redis.reply(), Reply::Simple("PONG".to_owned()));
    server.stop().unwrap();
}

#[test]
fn client_list_has_addresses_and_info_has_process_memory() {
    let server = in_memory(1);
    let mut redis = Redis::connect(addresses(&server)[0]);
    let Reply::Bulk(Some(list)) = redis.send_command("CLIENT LIST") else { panic!("a list is a bulk") };
    let own = format!(" addr={} ", redis.stream.local_addr().unwrap());
    assert!(String::from_utf8_lossy(&list).contains(&own), "{}", String::from_utf8_lossy(&list));
    let Reply::Bulk(Some(text)) = redis.send_command("INFO memory") else { panic!("text is a bulk") };
    let text = String::from_utf8(text).unwrap();
    let used = text.lines().find_map(|line| line.strip_prefix("used_memory:")?.trim().parse::<u64>().ok());
    assert!(used.is_some_and(|bytes| bytes > 1 << 20), "{text}");
    server.stop().unwrap();
}

#[test]
fn byte_by_byte_command_runs_and_partial_ones_block_no_client() {
    let server = in_memory(2);
    let address = addresses(&server)[0];
    let mut halves: Vec<Redis> = (0..20).map(|_| Redis::connect(address)).collect();
    for half in &mut halves {
        half.stream.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\nabc").unwrap();
    }
    let mut slow = Redis::connect(address);
    for byte in command(&[b"SET", b"slow", b"and steady"]) {
        slow.stream.write_all(&[byte]).unwrap();
    }
    assert_eq!(slow.reply(), ok());
    assert_eq!(slow.send_command("GET slow"), bulk("and steady"));
    assert_eq!(slow.send_command("EXISTS k"), Reply::Number(0));
    drop(halves);
    let mut value = vec![b'x'; 5 << 20];
    value[0] = b'>';
    slow.stream.write_all(&command(&[b"SET", b"large", &value])).unwrap();
    assert_eq!(slow.reply(), ok());
    assert_eq!(slow.send_command("GET large"), Reply::Bulk(Some(value)));
    server.stop().unwrap();
}

#[test]
fn claimed_gigabyte_is_refused_at_once() {
    let server = in_memory(1);
    let address = addresses(&server)[0];
    for claim in [
        &b"*2\r\n$3\r\nGET\r\n$1073741824\r\n"[..],
        b"*2147483647\r\n",
        b"*1\r\n$-5\r\n",
        b"*2\r\nGET\r\n",
        b"SET \"unbalanced\r\n",
    ] {
        let mut redis = Redis::connect(address);
        redis.stream.write_all(claim).unwrap();
        let reply = redis.reply();
        assert!(matches!(&reply, Reply::Error(text) if text.starts_with("ERR Protocol error")), "{reply:?}");
        assert_eq!(redis.try_reply(), None);
    }
    assert_eq!(Redis::connect(address).send_command("PING"), Reply::Simple("PONG".to_owned()));
    server.stop().unwrap();
}

#[test]
fn non_reading_client_is_closed_and_blocks_no_others() {
    let server = in_memory(2);
    let address = addresses(&server)[0];
    let mut deaf = Redis::connect(address);
    let value = vec![b'v'; 1 << 20];
    for key in [&b"a"[..], b"b"] {
        deaf.stream.write_all(&command(&[b"SET", key, &value])).unwrap();
        assert_eq!(deaf.reply(), ok());
    }
    // One of the two keys is forwarded.
    deaf.stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let pair = [command(&[b"GET", b"a"]), command(&[b"GET", b"b"])].concat().repeat(1000);
    let mut written = 0;
    let stopped = loop {
        match deaf.stream.write(&pair) {
            Ok(bytes) => written += bytes,
            Err(error) => break error.kind(),
        }
        assert!(written < 64 << 20, "it is read although it takes nothing");
    };
    assert!(matches!(stopped, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{stopped:?}");
    let mut redis = Redis::connect(address);
    for n in 0..100 {
        assert_eq!(redis.send_command(&format!("SET k{n} {n}")), ok());
    }
    server.stop().unwrap();
}
