//! Redis clients whose commands have keys on all nodes, of which one is killed meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::cluster::nodes::NodeCluster;
use crate::cluster::redis::Redis;
use crate::support::serving::ServingProgram;
use crate::support::wait_for;

const ACCOUNTS: u64 = 16;

fn accounts() -> Vec<String> {
    (0..ACCOUNTS).map(|number| format!("account-{number}")).collect()
}

/// StopGuard the workers even if the test fails, as the test waits for them.
struct StopGuard<'s>(&'s AtomicBool);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The sum of all accounts at one moment; `None`: the command was not done.
fn sum(redis: &mut Redis, command: &str) -> Option<i64> {
    let reply = redis.send_command(command);
    if reply.starts_with('-') {
        assert!(reply.starts_with("-TRYAGAIN"), "{reply}");
        return None;
    }
    let balances: Vec<i64> = reply.split(' ').map(|one| one.parse().unwrap()).collect();
    assert_eq!(balances.len() as u64, ACCOUNTS, "{reply}");
    Some(balances.iter().sum())
}

/// The sum from an `EXEC` of reads, key by key.
fn sum_by_exec(redis: &mut Redis) -> Option<i64> {
    assert_eq!(redis.send_command("MULTI"), "OK");
    for key in accounts() {
        assert_eq!(redis.send_command(&format!("GET {key}")), "QUEUED");
    }
    sum(redis, "EXEC")
}

/// Transfers until the stop signal. Returns the numbers of the transfers that succeeded, and of
/// those with an unknown outcome.
fn transfer(address: &str, worker: u64, stop: &AtomicBool, done: &AtomicU64) -> (Vec<String>, Vec<String>) {
    let mut redis = Redis::connect(address);
    let (mut written, mut unknown) = (Vec::new(), Vec::new());
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (from, to) = ((worker + number) % ACCOUNTS, (worker * 5 + number * 7 + 1) % ACCOUNTS);
        let commands = [
            "MULTI".to_owned(),
            format!("INCRBY account-{from} -3"),
            format!("INCRBY account-{to} 3"),
            format!("RPUSH one-{worker} {number}"),
            format!("RPUSH other-{worker} {number}"),
        ];
        for command in commands {
            redis.send_command(&command);
        }
        let reply = redis.send_command("EXEC");
        if !reply.starts_with('-') {
            written.push(number.to_string());
            done.fetch_add(1, Ordering::Relaxed);
        } else if reply.contains("outcome unknown") {
            unknown.push(number.to_string());
        } else {
            assert!(reply.starts_with("-TRYAGAIN"), "{reply}");
        }
    }
    (written, unknown)
}

fn list(redis: &mut Redis, key: &str) -> Vec<String> {
    let reply = redis.send_command(&format!("LRANGE {key} 0 -1"));
    reply.split(' ').filter(|one| !one.is_empty()).map(str::to_owned).collect()
}

#[test]
fn cross_node_commands_are_atomic_through_a_node_kill() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    cluster.wait_until_complete();
    let mut redis = Redis::connect(&cluster.instance(1));
    let pairs: Vec<String> = accounts().iter().map(|key| format!("{key} 100")).collect();
    assert_eq!(redis.send_command(&format!("MSET {}", pairs.join(" "))), "OK");
    // Commands over several keys, which are on several nodes.
    assert_eq!(redis.send_command("MSETNX fresh 1 account-0 2"), "0");
    assert_eq!(redis.send_command("MSETNX fresh 1 other 2"), "1");
    assert_eq!(redis.send_command("EXISTS fresh other account-1 none"), "3");
    assert_eq!(redis.send_command("RENAME fresh moved"), "OK");
    assert_eq!(redis.send_command("RENAMENX moved account-2"), "0");
    assert_eq!(redis.send_command("RENAME fresh moved"), "-ERR no such key");
    assert_eq!(redis.send_command("RPUSH words a b"), "2");
    assert_eq!(redis.send_command("COPY words copied"), "1");
    assert_eq!(redis.send_command("LRANGE copied 0 -1"), "a b");
    assert_eq!(redis.send_command("DEL moved other copied words none"), "4");
    // Pipelined commands see the effects of those before them.
    redis.send("SET p1 1");
    redis.send("MSET p1 2 p2 2");
    redis.send("GET p1");
    redis.send("UNLINK p1 p2");
    redis.send("MGET p1 p2");
    assert_eq!([(); 5].map(|()| redis.reply()), ["OK", "OK", "2", "2", "nil nil"]);
    // A change of a watched key on any node fails `EXEC`, and errors discard the transaction.
    let mut other = Redis::connect(&cluster.instance(2));
    assert_eq!(redis.send_command("WATCH account-1 account-2 account-3"), "OK");
    assert_eq!(redis.send_command("MULTI"), "OK");
    assert_eq!(redis.send_command("MULTI"), "-ERR MULTI calls can not be nested");
    assert_eq!(redis.send_command("WATCH account-4"), "-ERR WATCH inside MULTI is not allowed");
    assert_eq!(redis.send_command("INCR account-5"), "QUEUED");
    assert_eq!(other.send_command("SET account-2 100"), "OK");
    assert_eq!(redis.send_command("EXEC"), "nil");
    assert_eq!(redis.send_command("GET account-5"), "100");
    assert_eq!(
        (redis.send_command("WATCH account-1 account-2"), redis.send_command("MULTI")),
        ("OK".into(), "OK".into())
    );
    assert_eq!(redis.send_command("MGET account-1 account-2"), "QUEUED");
    assert_eq!(redis.send_command("EXEC"), "100 100");
    assert_eq!(
        (redis.send_command("MULTI"), redis.send_command("INCR account-5")),
        ("OK".into(), "QUEUED".into())
    );
    assert!(redis.send_command("INCR").starts_with("-ERR wrong number"));
    assert!(redis.send_command("EXEC").starts_with("-EXECABORT"));
    // Beyond its limit nothing of it is done, and the error says so.
    assert_eq!(redis.send_command("MULTI"), "OK");
    for half in ["x", "y"] {
        let pairs: Vec<String> = (0..9_000).map(|n| format!("{half}{n} v")).collect();
        assert_eq!(redis.send_command(&format!("MSET {}", pairs.join(" "))), "QUEUED");
    }
    let refused = redis.send_command("EXEC");
    assert!(refused.starts_with("-ERR ") && refused.contains("16384 are allowed"), "{refused}");
    assert!(!refused.contains("key "), "the limit is that of all keys: {refused}");
    assert!(refused.ends_with("; nothing was done"), "{refused}");
    assert_eq!(redis.send_command("EXISTS x0 y8999"), "0");

    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let mget = format!("MGET {}", accounts().join(" "));
    thread::scope(|scope| {
        let (stop, done) = (&stop, &done);
        let stops = StopGuard(stop);
        let workers: Vec<_> = (0..3)
            .map(|worker| {
                // Clients of the killed node would have no connection.
                let address = cluster.instance(1 + worker as usize % 2);
                scope.spawn(move || transfer(&address, worker, stop, done))
            })
            .collect();
        for round in 0..24 {
            let found = if round % 2 == 0 { sum(&mut redis, &mget) } else { sum_by_exec(&mut redis) };
            if let Some(sum) = found {
                assert_eq!(sum, 100 * ACCOUNTS as i64, "round {round}");
            }
            if round == 8 {
                cluster.kill(0);
            }
            thread::sleep(Duration::from_millis(100));
        }
        let before = done.load(Ordering::Relaxed);
        wait_for("they go on without the node", || done.load(Ordering::Relaxed), |now| *now > before);
        drop(stops);
        for (worker, ended) in workers.into_iter().enumerate() {
            let (written, unknown) = ended.join().unwrap();
            let (one, other) =
                (list(&mut redis, &format!("one-{worker}")), list(&mut redis, &format!("other-{worker}")));
            assert_eq!(one, other, "whole or not at all");
            assert!(written.iter().all(|number| one.iter().filter(|found| *found == number).count() == 1));
            assert!(one.iter().all(|found| written.contains(found) || unknown.contains(found)));
        }
    });
    assert_eq!(sum(&mut redis, &mget), Some(100 * ACCOUNTS as i64));
}

#[test]
fn multi_key_commands_are_atomic() {
    let folder = crate::support::folder();
    let data = folder.path().join("data").to_str().unwrap().to_owned();
    // Commands over thousands of keys take seconds on a busy machine.
    let node = ServingProgram::up(&["--data", &data, "--instances", "1", "--redis-timeout", "5m"]);
    let mut redis = Redis::connect(node.ready["nodes"][0]["instances"][0]["addr"].as_str().unwrap());
    wait_for(
        "commands over several partitions",
        || redis.send_command("MSET a 1 b 2"),
        |reply| reply == "OK",
    );
    let keys: Vec<String> = (0..20_000).map(|number| format!("k{number}")).collect();
    let pairs = |keys: &[String]| keys.iter().map(|key| format!("{key} v")).collect::<Vec<_>>().join(" ");
    let all = keys.join(" ");
    // One step, and more keys than one step may have.
    let refused = redis.send_command(&format!("MSET {}", pairs(&keys)));
    assert!(
        refused.starts_with("-ERR MSET of 20000 keys in several partitions, 16384 are allowed"),
        "{refused}"
    );
    let refused = redis.send_command(&format!("MSETNX {}", pairs(&keys[..9_000])));
    assert!(
        refused.starts_with("-ERR MSETNX of 9000 keys in several partitions, 8192 are allowed"),
        "{refused}"
    );
    assert_eq!(redis.send_command(&format!("EXISTS {all}")), "0");
    assert_eq!(redis.send_command(&format!("MSET {}", pairs(&keys[..16_384]))), "OK");
    // These commands run in parts.
    assert_eq!(redis.send_command(&format!("EXISTS {all}")), "16384");
    assert_eq!(redis.send_command(&format!("TOUCH {all}")), "16384");
    let reply = redis.send_command(&format!("MGET {all}"));
    let values: Vec<&str> = reply.split(' ').collect();
    assert_eq!(values.len(), keys.len(), "{}", &reply[..reply.len().min(300)]);
    assert!(
        values.iter().enumerate().all(|(place, value)| *value == if place < 16_384 { "v" } else { "nil" })
    );
    assert_eq!(redis.send_command(&format!("DEL {all}")), "16384");
    assert_eq!(redis.send_command(&format!("UNLINK {all}")), "0");
    // The transaction has more operations than one may have.
    assert_eq!(redis.send_command("MULTI"), "OK");
    for number in 0..10_000 {
        redis.send(&format!("MSET a{number} 1 b{number} 2"));
    }
    assert!((0..10_000).all(|_| redis.reply() == "QUEUED"));
    let refused = redis.send_command("EXEC");
    assert!(refused.starts_with("-ERR ") && refused.contains("16384 are allowed"), "{refused}");
    assert!(!refused.contains("key "), "the limit is that of all keys: {refused}");
    assert_eq!(redis.send_command("EXISTS a0 b9999"), "0");
}

#[test]
fn transaction_over_partitions_names_an_empty_key() {
    let node = ServingProgram::in_memory();
    let mut redis = Redis::connect(node.ready["nodes"][0]["instances"][0]["addr"].as_str().unwrap());
    let several = "MSET a 1 b 2 c 3 d 4 e 5 f 6 g 7 h 8";
    wait_for("commands over several partitions", || redis.send_command(several), |reply| reply == "OK");
    let wrong = "-ERR the key is empty: a key has 1 to 65536 bytes";
    for commands in
        [&["SET  x"][..], &["SET a 2", "SET b 2", "SET  x", "SET c 2"], &["SET a 2", "RPUSH  x", "SET b 2"]]
    {
        assert_eq!(redis.send_command("MULTI"), "OK");
        for command in commands {
            assert_eq!(redis.send_command(command), "QUEUED");
        }
        let reply = redis.send_command("EXEC");
        assert!(reply.contains(wrong), "{commands:?}: {reply}");
    }
    assert_eq!(redis.send_command(several), "OK");
}

#[test]
fn transaction_over_partitions_takes_as_many_reads_as_documented() {
    const READS: usize = 16_384;
    let node = ServingProgram::in_memory();
    let mut redis = Redis::connect(node.ready["nodes"][0]["instances"][0]["addr"].as_str().unwrap());
    let several = "MSET a 1 b 2 c 3 d 4 e 5 f 6 g 7 h 8";
    wait_for("commands over several partitions", || redis.send_command(several), |reply| reply == "OK");
    let pairs: Vec<String> = (0..READS).map(|number| format!("key-{number} v")).collect();
    assert_eq!(redis.send_command(&format!("MSET {}", pairs.join(" "))), "OK");
    assert_eq!(redis.send_command("MULTI"), "OK");
    for number in 0..READS {
        assert_eq!(redis.send_command(&format!("GET key-{number}")), "QUEUED");
    }
    let reply = redis.send_command("EXEC");
    assert_eq!(
        reply.split(' ').filter(|one| *one == "v").count(),
        READS,
        "{}",
        &reply[..reply.len().min(200)]
    );
}

#[test]
fn redis_client_at_the_managers_port_is_sent_to_the_instances() {
    let node = ServingProgram::in_memory();
    let mut redis = Redis::connect(node.endpoint());
    let instances = node.ready["nodes"][0]["instances"].as_array().unwrap();
    for command in ["PING", "GET k"] {
        let reply = redis.send_command(command);
        assert!(reply.starts_with("-ERR this is the port of the node's manager"), "{reply}");
        for instance in instances {
            let port = instance["addr"].as_str().unwrap().rsplit_once(':').unwrap().1;
            assert!(reply.contains(port), "{port}: {reply}");
        }
    }
}
