//! Keys of several owners: commands are forwarded, redirected, or refused together.

use std::collections::BTreeSet;

use zerohop_placement::hash::key_slot;

use crate::redis::support::{Redis, Reply, addresses, bulk, in_memory, ok};

#[test]
fn only_cluster_aware_clients_get_moved_redirects() {
    let server = in_memory(2);
    let addresses = addresses(&server);
    let (mut plain, mut aware) = (Redis::connect(addresses[0]), Redis::connect(addresses[0]));
    let Reply::Array(Some(ranges)) = aware.send_command("CLUSTER SLOTS") else { panic!("no ranges") };
    let mut slots = 0;
    let mut ports = BTreeSet::new();
    for range in ranges {
        let Reply::Array(Some(range)) = range else { panic!("no range") };
        let (Reply::Number(first), Reply::Number(last)) = (&range[0], &range[1]) else { panic!("no ends") };
        slots += last - first + 1;
        let Reply::Array(Some(owner)) = &range[2] else { panic!("no owner") };
        ports.insert(format!("{:?}", owner[1]));
    }
    assert_eq!((slots, ports.len()), (16_384, 2));
    let mut moved = 0;
    for n in 0..50 {
        let key = format!("key{n}");
        assert_eq!(plain.send_command(&format!("SET {key} v")), ok());
        match aware.send_command(&format!("GET {key}")) {
            Reply::Error(text) => {
                let to = format!("MOVED {} {}", key_slot(key.as_bytes()), addresses[1]);
                assert_eq!(text, to);
                let mut owner = Redis::connect(addresses[1]);
                owner.send_command("CLUSTER SLOTS");
                assert_eq!(owner.send_command(&format!("GET {key}")), bulk("v"));
                moved += 1;
            }
            reply => assert_eq!(reply, bulk("v")),
        }
    }
    assert!((5..45).contains(&moved), "{moved}");
    server.stop().unwrap();
}

#[test]
fn keys_of_several_partitions_are_refused_unless_in_one_slot() {
    let server = in_memory(2);
    let mut redis = Redis::connect(addresses(&server)[1]);
    let crossed = Reply::Error("CROSSSLOT Keys in request don't hash to the same slot".to_owned());
    assert_eq!(redis.send_command("MSET a 1 b 2 c 3"), crossed);
    assert_eq!(redis.send_command("MSET {t}a 1 {t}b 2 {t}c 3"), ok());
    assert_eq!(redis.send_command("DEL {t}a {t}b {t}none"), Reply::Number(2));
    assert_eq!(redis.send_command("MULTI"), ok());
    redis.send_command("SET {t}a 1");
    assert_eq!(redis.send_command("SET elsewhere 1"), crossed);
    assert!(matches!(redis.send_command("EXEC"), Reply::Error(text) if text.starts_with("EXECABORT")));
    assert_eq!(redis.send_command("EXISTS {t}a"), Reply::Number(0));
    server.stop().unwrap();
}

#[test]
fn cross_partition_commands_get_tryagain_until_node_is_ready() {
    let listen = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    for (spans, word) in [(true, "TRYAGAIN"), (false, "CROSSSLOT")] {
        let options = zerohop_server::ServerOptions::new(listen);
        let options = zerohop_server::ServerOptions {
            instances: Some(2),
            serves_cross_partition: spans,
            gateway: Some(zerohop_redis::GATEWAY),
            ..options
        };
        let server = zerohop_server::Server::start(options).unwrap();
        let mut redis = Redis::connect(addresses(&server)[0]);
        for command in ["MGET a b c d", "WATCH a b c d", "DEL a b c d"] {
            let Reply::Error(text) = redis.send_command(command) else { panic!("{command} is done") };
            assert!(text.starts_with(word), "{text}");
        }
        assert_eq!(redis.send_command("MULTI"), ok());
        let queued = ["SET a 1", "SET b 2", "SET c 3"].map(|command| redis.send_command(command));
        let refused = queued.iter().find_map(|reply| match reply {
            Reply::Error(text) => Some(text),
            _ => None,
        });
        assert!(refused.is_some_and(|text| text.starts_with(word)), "{queued:?}");
        assert!(matches!(redis.send_command("EXEC"), Reply::Error(text) if text.starts_with("EXECABORT")));
        server.stop().unwrap();
    }
}
