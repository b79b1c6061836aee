//! Commands that read much: all keys after many removals, or more than a value, reply or step may
//! have.

use std::io::Write;

use crate::redis::support::{
    Redis, Reply, addresses, bulk, command, in_memory, make_keyspace, make_ordered_keyspace, ok,
};

const KEYS: usize = 100_000;
const AT_ONCE: usize = 500;

fn scan(redis: &mut Redis, more: &str) -> Vec<Reply> {
    let (mut found, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let reply = redis.send_command(&format!("SCAN {cursor}{more}"));
        let Reply::Array(Some(parts)) = &reply else { panic!("{reply:?}") };
        let [Reply::Bulk(Some(next)), Reply::Array(Some(keys))] = &parts[..] else { panic!("{reply:?}") };
        found.extend(keys.iter().cloned());
        cursor = String::from_utf8(next.clone()).unwrap();
        if cursor == "0" {
            return found;
        }
    }
}

#[test]
fn scans_continue_after_most_keys_were_removed() {
    let server = in_memory(2);
    make_keyspace(server.manager_address(), "emptied", "memory");
    let mut redis = Redis::connect(addresses(&server)[1]);
    for keyspace in ["default", "emptied"] {
        assert_eq!(redis.send_command(&format!("ZH.KEYSPACE {keyspace}")), ok());
        for word in ["SET", "DEL"] {
            for first in (0..KEYS).step_by(AT_ONCE) {
                let mut bytes = Vec::new();
                for n in first..first + AT_ONCE {
                    let key = format!("key:{n}");
                    let stays = word == "DEL" && n % 10_000 == 7;
                    match word {
                        "SET" => bytes.extend(command(&[b"SET", key.as_bytes(), b"v"])),
                        _ if stays => bytes.extend(command(&[b"PING"])),
                        _ => bytes.extend(command(&[b"DEL", key.as_bytes()])),
                    }
                }
                redis.stream.write_all(&bytes).unwrap();
                for _ in 0..AT_ONCE {
                    assert!(!matches!(redis.reply(), Reply::Error(_)));
                }
            }
        }
        for (more, count) in [
            ("", 10),
            (" COUNT 1", 10),
            (" COUNT 100000", 10),
            (" MATCH *7", 10),
            (" TYPE string", 10),
            (" MATCH nothing*", 0),
        ] {
            assert_eq!(scan(&mut redis, more).len(), count, "{keyspace} {more}");
        }
        let Reply::Array(Some(all)) = redis.send_command("KEYS *") else { panic!("no keys") };
        assert_eq!(all.len(), KEYS / 10_000);
    }
    server.stop().unwrap();
}

#[test]
fn scan_visits_every_region_of_an_ordered_keyspace() {
    let server = in_memory(2);
    make_ordered_keyspace(server.manager_address(), "events", &["key:2", "key:50", "key:51", "z"]);
    let mut redis = Redis::connect(addresses(&server)[1]);
    assert_eq!(redis.send_command("ZH.KEYSPACE events"), ok());
    let mut keys: Vec<Reply> = Vec::new();
    for n in 0..100 {
        assert_eq!(redis.send_command(&format!("SET key:{n} {n}")), ok());
        keys.push(bulk(&format!("key:{n}")));
    }
    assert_eq!(redis.send_command("GET key:50"), bulk("50"), "a separator is the lowest key of its region");
    assert_eq!(redis.send_command("DBSIZE"), Reply::Number(100));
    keys.sort_by_key(|key| format!("{key:?}"));
    for more in ["", " COUNT 3", " MATCH key:*"] {
        let mut found = scan(&mut redis, more);
        found.sort_by_key(|key| format!("{key:?}"));
        assert_eq!(found, keys, "{more}");
    }
    server.stop().unwrap();
}

#[test]
fn patterns_over_long_keys_are_looked_for_a_few_keys_at_a_time() {
    let server = in_memory(1);
    let mut redis = Redis::connect(addresses(&server)[0]);
    for n in 0..100 {
        let key = [format!("{n:02}").as_bytes(), &[b'a'; 65_000][..]].concat();
        redis.stream.write_all(&command(&[b"SET", &key, b"v"])).unwrap();
        assert_eq!(redis.reply(), ok());
    }
    let slow = format!("*{}b*", "?".repeat(1000));
    assert_eq!(redis.send_command(&format!("KEYS *{}b", "a".repeat(1000))), Reply::Array(Some(Vec::new())));
    assert_eq!(redis.send_command(&format!("KEYS {slow}")), Reply::Array(Some(Vec::new())));
    assert_eq!(scan(&mut redis, &format!(" COUNT 4096 MATCH {slow}")).len(), 0);
    assert_eq!(scan(&mut redis, " COUNT 4096 MATCH 7*a").len(), 10);
    server.stop().unwrap();
}

#[test]
fn too_long_value_is_refused_and_connection_stays() {
    let server = in_memory(2);
    let mut redis = Redis::connect(addresses(&server)[0]);
    let long = vec![b'x'; (16 << 20) + 1];
    let mut bytes = command(&[b"SET", b"before", b"1"]);
    bytes.extend(command(&[b"SET", b"long", &long]));
    bytes.extend(command(&[b"GET", b"before"]));
    bytes.extend(command(&[b"MULTI"]));
    bytes.extend(command(&[b"SET", b"long", &long]));
    bytes.extend(command(&[b"EXEC"]));
    bytes.extend(command(&[b"EXISTS", b"long"]));
    redis.stream.write_all(&bytes).unwrap();
    let refused = |reply: &Reply| matches!(reply, Reply::Error(text) if text.contains("16777217 bytes, 16777216 are allowed"));
    let replies: Vec<Reply> = (0..7).map(|_| redis.reply()).collect();
    assert!(refused(&replies[1]) && refused(&replies[4]), "{replies:?}");
    assert_eq!((&replies[0], &replies[3]), (&ok(), &ok()));
    assert!(matches!(&replies[5], Reply::Error(text) if text.starts_with("EXECABORT")), "{replies:?}");
    assert_eq!(replies[6], Reply::Number(0));
    server.stop().unwrap();
}

#[test]
fn list_too_long_for_transaction_is_refused_and_readable_in_ranges() {
    let server = in_memory(1);
    let mut redis = Redis::connect(addresses(&server)[0]);
    let value = vec![b'v'; 1 << 20];
    for _ in 0..52 {
        redis.stream.write_all(&command(&[b"RPUSH", b"list", &value])).unwrap();
        assert!(matches!(redis.reply(), Reply::Number(_)));
    }
    redis.send_command("MULTI");
    redis.send_command("SET {list}done 1");
    redis.send_command("LRANGE list 0 -1");
    let Reply::Error(text) = redis.send_command("EXEC") else { panic!("it is too long") };
    assert!(
        text.starts_with("ERR reply too long: ") && text.contains("(limit 49 MiB, 51380224 bytes,"),
        "{text}"
    );
    assert!(text.contains("smaller range"), "{text}");
    assert_eq!(redis.send_command("EXISTS {list}done"), Reply::Number(0));
    assert!(
        matches!(redis.send_command("LRANGE list 0 9"), Reply::Array(Some(values)) if values.len() == 10)
    );
    server.stop().unwrap();
}
