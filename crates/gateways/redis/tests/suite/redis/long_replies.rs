//! Replies of any length: complete, consistent, at the pace of the reader, from any instance.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};

use crate::redis::nodes::{all, nodes, stop};
use crate::redis::support::{Redis, Reply, addresses, bulk, command, in_memory, ok};
use crate::support::waiting::wait_for;

const VALUE_BYTES: usize = 64 << 10;

/// Bytes that may wait for a client here: the output limit, and a page.
const OUTPUT_BYTES_MAX: u64 = 3 << 20;

fn value(number: usize) -> Vec<u8> {
    let head = format!("{number:08}").into_bytes();
    let tail = (0..VALUE_BYTES - head.len()).map(|place| (number.wrapping_mul(31) + place * 7) as u8);
    head.into_iter().chain(tail).collect()
}

/// Fills a list, and returns the reply that contains all of it.
fn fill_list(address: SocketAddr, key: &str, count: usize) -> Vec<u8> {
    let values: Vec<Vec<u8>> = (0..count).map(value).collect();
    // A server closes a connection that sends nothing for seconds, and a slow machine computes the values for longer.
    let mut redis = Redis::connect(address);
    for part in values.chunks(100) {
        let words: Vec<&[u8]> =
            [&b"RPUSH"[..], key.as_bytes()].into_iter().chain(part.iter().map(Vec::as_slice)).collect();
        redis.stream.write_all(&command(&words)).unwrap();
        assert!(matches!(redis.reply(), Reply::Number(_)));
    }
    command(&values.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// Reads so many bytes and compares them.
fn expect(redis: &mut Redis, expected: &[u8]) {
    let mut bytes = vec![0; 256 << 10];
    redis.stream.read_exact(&mut bytes[..1]).unwrap();
    assert_eq!(bytes[0], expected[0], "an error?");
    let expected = &expected[1..];
    for part in expected.chunks(bytes.len()) {
        redis.stream.read_exact(&mut bytes[..part.len()]).unwrap();
        assert!(bytes[..part.len()] == *part, "other bytes than were written");
    }
}

/// Bytes that wait at this instance for its clients, in all.
fn waiting(address: SocketAddr) -> u64 {
    let Reply::Bulk(Some(text)) = Redis::connect(address).send_command("CLIENT LIST") else {
        panic!("a text")
    };
    let text = String::from_utf8(text).unwrap();
    text.split_whitespace().filter_map(|word| word.strip_prefix("omem=")?.parse::<u64>().ok()).sum()
}

#[test]
fn hundred_megabyte_list_is_streamed_to_slow_reader() {
    let server = in_memory(2);
    let addresses = addresses(&server);
    // One of the two instances reads the list from the other.
    for address in &addresses {
        let expected = fill_list(addresses[0], "list", 1_600);
        assert!(expected.len() >= 100 << 20);
        let mut reader = Redis::connect(*address);
        reader.send("LRANGE list 0 -1");
        expect(&mut reader, &expected[..1 << 20]);
        // The client reads no more, so no page is read for it, and others are served.
        let mut writer = Redis::connect(addresses[0]);
        for number in 0..200 {
            assert_eq!(writer.send_command(&format!("SET {{list}}{number} {number}")), ok());
            assert_eq!(writer.send_command(&format!("GET {{list}}{number}")), bulk(&number.to_string()));
        }
        assert_eq!(writer.send_command("RPUSH list more"), Reply::Number(1_601));
        assert_eq!(writer.send_command("LTRIM list 1000 1600"), ok());
        assert_eq!(writer.send_command("RPUSH list more"), Reply::Number(602));
        assert_eq!(writer.send_command("DEL list"), Reply::Number(1));
        assert_eq!(writer.send_command("RPUSH list other"), Reply::Number(1));
        wait_for(
            "something waits for the reader, and not much",
            || addresses.iter().map(|address| waiting(*address)).sum::<u64>(),
            |bytes| (1..=OUTPUT_BYTES_MAX).contains(bytes),
        );
        for part in expected[1 << 20..].chunks(20 << 20) {
            expect(&mut reader, part);
            let bytes: u64 = addresses.iter().map(|address| waiting(*address)).sum();
            assert!(bytes <= OUTPUT_BYTES_MAX, "{bytes} bytes wait for the reader");
        }
        assert_eq!(reader.send_command("LRANGE list 0 -1"), Reply::Array(Some(vec![bulk("other")])));
        assert_eq!(writer.send_command("DEL list"), Reply::Number(1));
    }
    server.stop().unwrap();
}

#[test]
fn remote_list_is_read_completely() {
    let nodes = nodes();
    let addresses = all(&nodes);
    let look = || Redis::connect(addresses[0]).send_command("RPUSH list x");
    wait_for("the key is served", look, |reply| matches!(reply, Reply::Number(_)));
    assert_eq!(Redis::connect(addresses[0]).send_command("DEL list"), Reply::Number(1));
    let expected = fill_list(addresses[0], "list", 300);
    for address in &addresses {
        let mut reader = Redis::connect(*address);
        reader.send("LRANGE list 0 -1");
        reader.send("LLEN list");
        expect(&mut reader, &expected);
        assert_eq!(reader.reply(), Reply::Number(300));
    }
    stop(nodes);
}

#[test]
fn many_values_are_read_completely() {
    let server = in_memory(2);
    let addresses = addresses(&server);
    let mut redis = Redis::connect(addresses[0]);
    let keys: Vec<Vec<u8>> = (0..1_200).map(|number| format!("{{a}}{number}").into_bytes()).collect();
    for (key, number) in keys.iter().zip(0..) {
        redis.stream.write_all(&command(&[b"SET", key, &value(number)])).unwrap();
        assert_eq!(redis.reply(), ok());
    }
    for address in &addresses {
        for count in [100, 1_024, 1_200] {
            let words: Vec<&[u8]> =
                [&b"MGET"[..]].into_iter().chain(keys[..count].iter().map(Vec::as_slice)).collect();
            let values: Vec<Vec<u8>> = (0..count).map(value).collect();
            let expected = command(&values.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let mut reader = Redis::connect(*address);
            reader.stream.write_all(&command(&words)).unwrap();
            expect(&mut reader, &expected);
            assert_eq!(reader.send_command("PING"), Reply::Simple("PONG".to_owned()));
        }
    }
    server.stop().unwrap();
}

#[test]
fn aborted_clients_free_their_memory() {
    let server = in_memory(2);
    let addresses = addresses(&server);
    let expected = fill_list(addresses[0], "list", 160);
    // Many more than a partition keeps snapshots for, each in the middle of its reply.
    for number in 0..100 {
        let mut reader = Redis::connect(addresses[number % 2]);
        reader.send("LRANGE list 0 -1");
        expect(&mut reader, &expected[..100_000]);
        reader.stream.shutdown(Shutdown::Both).unwrap();
    }
    let mut reader = Redis::connect(addresses[0]);
    reader.send("LRANGE list 0 -1");
    expect(&mut reader, &expected);
    server.stop().unwrap();
}

/// A list may be longer than the longest value, and so may what one command appends, copies or renames.
#[test]
fn lists_beyond_the_longest_value_are_appended_copied_and_renamed() {
    let server = in_memory(2);
    let mut redis = Redis::connect(addresses(&server)[0]);
    let long = vec![b'v'; 9 << 20];
    let number = |reply: Reply, expected: i64| assert_eq!(reply, Reply::Number(expected));
    for count in [2, 4] {
        redis.stream.write_all(&command(&[b"RPUSH", b"{a}list", &long, &long])).unwrap();
        number(redis.reply(), count);
    }
    number(redis.send_command("COPY {a}list {a}copy"), 1);
    number(redis.send_command("LLEN {a}copy"), 4);
    assert_eq!(redis.send_command("RENAME {a}list {a}renamed"), ok());
    assert_eq!(redis.send_command("LINDEX {a}renamed 3"), Reply::Bulk(Some(long.clone())));
    // One more is beyond the limit of a copy, which the error names.
    redis.stream.write_all(&command(&[b"RPUSH", b"{a}renamed", &long, &long])).unwrap();
    number(redis.reply(), 6);
    let Reply::Error(text) = redis.send_command("RENAME {a}renamed {a}refused") else { panic!("is refused") };
    assert!(text.contains("51380224") && text.ends_with("; nothing was done"), "{text}");
    number(redis.send_command("LLEN {a}renamed"), 6);
    number(redis.send_command("EXISTS {a}refused"), 0);
}
