//! Three nodes: each of them serves every key, in order, like a single server.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use zerohop_server::{ClusterOptions, JoinMethod, Server, ServerOptions};

use crate::redis::support::{Redis, Reply, addresses, bulk, command, ok};
use crate::support::ports::ports;
use crate::support::waiting::wait_for;

const NODES: usize = 3;

/// Ports of a node: its manager's, two instances', and an unused one.
const PORTS: u16 = 4;

/// Nodes in memory with two instances each.
pub(super) fn nodes() -> Vec<Server> {
    nodes_of(2)
}

/// Nodes in memory with so many instances each, at most three.
pub(super) fn nodes_of(instances: usize) -> Vec<Server> {
    let first = ports(NODES as u16 * PORTS);
    let hosts: Vec<SocketAddr> =
        (0..NODES as u16).map(|node| SocketAddr::from(([127, 0, 0, 1], first + node * PORTS))).collect();
    let start = |me: usize| {
        let method = JoinMethod::Together { hosts: hosts.clone(), own_index: me, name: "redis".to_owned() };
        let cluster =
            Some(ClusterOptions { method, domain: me as u32 + 1, capacity: 1, balance_after: None });
        let options = ServerOptions {
            instances: Some(instances),
            cluster,
            gateway: Some(zerohop_redis::GATEWAY),
            ..ServerOptions::new(hosts[me])
        };
        Server::start(options).unwrap()
    };
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..NODES).map(|me| scope.spawn(move || start(me))).collect();
        started.into_iter().map(|node| node.join().unwrap()).collect()
    })
}

/// Where all instances of all nodes listen.
pub(super) fn all(nodes: &[Server]) -> Vec<SocketAddr> {
    nodes.iter().flat_map(addresses).collect()
}

pub(super) fn stop(nodes: Vec<Server>) {
    std::thread::scope(|scope| {
        nodes.into_iter().for_each(|node| drop(scope.spawn(move || node.stop().unwrap())));
    });
}

/// Waits until every address serves a key: the groups have settled.
fn wait_until_served(addresses: &[SocketAddr]) {
    for address in addresses {
        let mut redis = Redis::connect(*address);
        let look =
            || (0..32).map(|n| redis.send_command(&format!("SET settled{n} 1"))).find(|reply| *reply != ok());
        wait_for("every key is served", look, Option::is_none);
    }
}

#[test]
fn a_plain_client_of_any_instance_of_any_node_uses_every_key_in_order() {
    let nodes = nodes();
    let addresses = all(&nodes);
    wait_until_served(&addresses);
    // Each address writes what the next one reads.
    for round in 0..addresses.len() {
        let (mut writes, mut reads) =
            (Redis::connect(addresses[round]), Redis::connect(addresses[(round + 3) % addresses.len()]));
        for n in 0..60 {
            writes.send(&format!("SET k{n} {round}"));
            writes.send(&format!("APPEND k{n} x"));
            writes.send(&format!("GET k{n}"));
        }
        for _ in 0..60 {
            assert_eq!(writes.reply(), ok());
            assert_eq!(writes.reply(), Reply::Number(2));
            assert_eq!(writes.reply(), bulk(&format!("{round}x")));
        }
        for n in 0..60 {
            assert_eq!(reads.send_command(&format!("GET k{n}")), bulk(&format!("{round}x")));
        }
    }
    // Several keys are allowed in one partition of any node, and not in several partitions.
    let mut redis = Redis::connect(addresses[5]);
    for tag in 0..20 {
        assert_eq!(redis.send_command(&format!("MSET {{t{tag}}}a 1 {{t{tag}}}b 2")), ok());
        let both = Reply::Array(Some(vec![bulk("1"), bulk("2")]));
        assert_eq!(redis.send_command(&format!("MGET {{t{tag}}}a {{t{tag}}}b")), both);
    }
    assert!(
        matches!(redis.send_command("MGET t1a t2b t3c t4d"), Reply::Error(text) if text.starts_with("CROSSSLOT"))
    );
    stop(nodes);
}

#[test]
fn watches_waits_and_commands_on_all_keys_work_across_nodes() {
    let nodes = nodes();
    let addresses = all(&nodes);
    wait_until_served(&addresses);
    let (mut one, mut other) = (Redis::connect(addresses[0]), Redis::connect(addresses[4]));
    assert_eq!(one.send_command("FLUSHALL"), ok());
    for n in 0..12 {
        let key = format!("k{n}");
        assert_eq!(one.send_command(&format!("SET {key} 1")), ok());
        for (change, undone) in [("PING", false), ("SET K 2", true)] {
            assert_eq!(one.send_command(&format!("WATCH {key}")), ok());
            other.send_command(&change.replace('K', &key));
            assert_eq!(one.send_command("MULTI"), ok());
            one.send_command(&format!("INCR {key}"));
            assert_eq!(one.send_command("EXEC") == Reply::Array(None), undone, "{change} of {key}");
        }
        one.send(&format!("ZH.WAIT {key} go 300000"));
        other.send_command(&format!("SET {key} stay"));
        assert_eq!(other.send_command(&format!("SET {key} go")), ok());
        assert_eq!(one.reply(), Reply::Number(1));
        assert_eq!(one.send_command(&format!("ZH.WAIT {key} never 30")), Reply::Number(0));
    }
    for address in &addresses {
        let mut redis = Redis::connect(*address);
        assert_eq!(redis.send_command("DBSIZE"), Reply::Number(12));
        let Reply::Array(Some(keys)) = redis.send_command("KEYS k*") else { panic!("no keys") };
        assert_eq!(keys.len(), 12);
        let (mut cursor, mut found) = ("0".to_owned(), BTreeSet::new());
        loop {
            let Reply::Array(Some(page)) = redis.send_command(&format!("SCAN {cursor}")) else {
                panic!("no page")
            };
            let (Reply::Bulk(Some(next)), Reply::Array(Some(keys))) = (&page[0], &page[1]) else { panic!() };
            found.extend(keys.iter().map(|key| format!("{key:?}")));
            cursor = String::from_utf8_lossy(next).into_owned();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(found.len(), 12);
    }
    assert_eq!(other.send_command("FLUSHDB"), ok());
    assert_eq!(one.send_command("DBSIZE"), Reply::Number(0));
    stop(nodes);
}

#[test]
fn values_longer_than_a_frame_reach_another_node_and_return() {
    use std::io::Write;
    let nodes = nodes();
    let addresses = all(&nodes);
    wait_until_served(&addresses);
    let mut redis = Redis::connect(addresses[1]);
    let value = |byte: u8| vec![byte; 9 << 20];
    // One partition for each of several tags, on at least two nodes, so that one of them is remote.
    for tag in 0..4 {
        let (a, b) = (format!("{{{tag}}}a"), format!("{{{tag}}}b"));
        let words: [&[u8]; 5] = [b"MSET", a.as_bytes(), &value(b'a'), b.as_bytes(), &value(b'b')];
        // On a very busy machine a group may change meanwhile. Then the outcome is in doubt, and
        // the command may be repeated.
        let stored = (0..5).any(|_| {
            redis.stream.write_all(&command(&words)).unwrap();
            let reply = redis.reply();
            let in_doubt = matches!(&reply, Reply::Error(text) if text.contains("outcome unknown"));
            assert!(in_doubt || reply == ok(), "{reply:?}");
            !in_doubt
        });
        assert!(stored);
        let both = [value(b'a'), value(b'b')].map(|bytes| Reply::Bulk(Some(bytes)));
        assert!(redis.send_command(&format!("MGET {a} {b}")) == Reply::Array(Some(both.to_vec())));
        assert_eq!(redis.send_command(&format!("DEL {a} {b}")), Reply::Number(2));
    }
    stop(nodes);
}

/// The items of an array reply.
fn items(reply: Reply) -> Vec<Reply> {
    let Reply::Array(Some(items)) = reply else { panic!("no array: {reply:?}") };
    items
}

fn text(reply: Reply) -> String {
    let Reply::Bulk(Some(bytes)) = reply else { panic!("no text: {reply:?}") };
    String::from_utf8(bytes).unwrap()
}

#[test]
fn cluster_client_learns_all_replicas_and_is_redirected_to_primary() {
    let nodes = nodes();
    let addresses = all(&nodes);
    wait_until_served(&addresses);
    let mut aware = Redis::connect(addresses[2]);
    let (mut slots, mut primaries) = (0, BTreeSet::new());
    for range in items(aware.send_command("CLUSTER SLOTS")) {
        let range = items(range);
        let (Reply::Number(first), Reply::Number(last)) = (&range[0], &range[1]) else { panic!("no ends") };
        assert_eq!(*first, slots);
        slots = last + 1;
        let holders: Vec<String> =
            range[2..].iter().map(|one| format!("{:?}", items(one.clone())[1])).collect();
        assert_eq!(BTreeSet::from_iter(&holders).len(), NODES, "a primary and two copies");
        primaries.insert(holders[0].clone());
    }
    assert_eq!((slots, primaries.len()), (16_384, 2 * NODES));
    let mut moved = 0;
    for n in 0..40 {
        let key = format!("key{n}");
        let Reply::Error(reply) = aware.send_command(&format!("SET {key} {n}")) else { continue };
        let mut words = reply.split(' ');
        assert_eq!(words.next(), Some("MOVED"), "{reply}");
        let mut owner = Redis::connect(words.nth(1).unwrap().parse().unwrap());
        owner.send_command("CLUSTER SLOTS");
        assert_eq!(owner.send_command(&format!("SET {key} {n}")), ok());
        let slot = owner.send_command(&format!("CLUSTER KEYSLOT {key}"));
        let Reply::Number(slot) = slot else { panic!("{slot:?}") };
        assert_eq!(aware.send_command(&format!("CLUSTER COUNTKEYSINSLOT {slot}")), Reply::Number(1));
        moved += 1;
    }
    assert!(moved > 20, "{moved}");
    let reply = text(aware.send_command("CLUSTER NODES"));
    let mine = text(aware.send_command("CLUSTER MYID"));
    assert_eq!(reply.lines().filter(|line| line.contains(" connected ")).count(), 2 * NODES, "{reply}");
    let own = reply.lines().find(|line| line.starts_with(&mine)).unwrap();
    assert!(own.contains(&format!("{}@0 myself,master", addresses[2])), "{own}");
    let reply = text(aware.send_command("CLUSTER INFO"));
    assert!(reply.contains("cluster_state:ok") && reply.contains("cluster_known_nodes:6"), "{reply}");
    assert!(items(aware.send_command("CLUSTER SHARDS")).len() >= 2 * NODES);
    stop(nodes);
}
