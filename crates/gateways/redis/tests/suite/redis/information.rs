//! `INFO`: what monitoring of Redis, such as `redis-cli --stat`, reads of it.

use crate::redis::support::{Redis, Reply, addresses, in_memory, ok};
use crate::support::waiting::wait_for;

/// The value of a field of `INFO` as a number; `None`: there is no such field.
fn field(redis: &mut Redis, name: &str) -> Option<u64> {
    let Reply::Bulk(Some(text)) = redis.send_command("INFO") else { panic!("INFO has no text") };
    let text = String::from_utf8(text).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let number = value.strip_prefix("keys=").unwrap_or(value).split(',').next().unwrap();
    Some(number.parse().unwrap())
}

#[test]
fn blocked_clients_are_those_that_wait_for_a_record_of_any_instance() {
    let server = in_memory(2);
    let addresses = addresses(&server);
    let mut asking = Redis::connect(addresses[0]);
    assert_eq!(field(&mut asking, "blocked_clients"), Some(0));
    // Records of both instances.
    let mut waiting: Vec<Redis> = (0..8).map(|_| Redis::connect(addresses[0])).collect();
    for (number, redis) in waiting.iter_mut().enumerate() {
        redis.send(&format!("ZH.WAIT k{number} go 600000"));
    }
    wait_for("8 blocked clients", || field(&mut asking, "blocked_clients"), |seen| *seen == Some(8));
    let mut other = Redis::connect(addresses[1]);
    assert_eq!(field(&mut other, "blocked_clients"), Some(0));
    for (number, redis) in waiting.iter_mut().enumerate() {
        assert_eq!(other.send_command(&format!("SET k{number} go")), ok());
        assert_eq!(redis.reply(), Reply::Number(1));
    }
    assert_eq!(field(&mut asking, "blocked_clients"), Some(0));
    server.stop().unwrap();
}

#[test]
fn each_instance_counts_the_keys_of_its_partitions() {
    let server = in_memory(2);
    let addresses = addresses(&server);
    let mut redis: Vec<Redis> = addresses.iter().map(|address| Redis::connect(*address)).collect();
    assert_eq!(field(&mut redis[0], "db0"), None);
    for number in 0..40 {
        assert_eq!(redis[0].send_command(&format!("SET k{number} v")), ok());
    }
    let counts: Vec<u64> = redis.iter_mut().map(|redis| field(redis, "db0").unwrap()).collect();
    assert_eq!(counts.iter().sum::<u64>(), 40, "{counts:?}");
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    assert_eq!(redis[1].send_command("FLUSHALL"), ok());
    assert_eq!(field(&mut redis[0], "db0"), None);
    server.stop().unwrap();
}
