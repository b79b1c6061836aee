//! Commands of many keys in one partition: executed in parts, with others served in between.

use zerohop_placement::hash::key_slot;
use zerohop_resp::limits::{
    OUTPUT_BYTES_MAX, PAGE_BYTES, PART_KEYS_MAX, SET_KEYS_MAX, SPANNING_PART_KEYS_MAX, SPANNING_PARTS_WINDOW,
};
use zerohop_resp::model::TIME_OUT_MS;
use zerohop_resp::{ConnectionWorld, NextStep};
use zerohop_wire::ids::KeyspaceId;

use crate::connection::ModelClient;

/// The partition of all keys here.
const PARTITION: u32 = 3;

fn command(name: &str, keys: usize, value: Option<&str>) -> Vec<u8> {
    let mut words = vec![name.to_owned()];
    for number in 0..keys {
        words.push(format!("{{a}}{number}"));
        words.extend(value.map(str::to_owned));
    }
    let bulks: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{bulks}", words.len()).into_bytes()
}

fn send_command(client: &mut ModelClient, name: &str, keys: usize) -> String {
    client.bytes(&command(name, keys, None));
    client.replies()
}

/// A client with this many keys, written by several commands.
fn client_with_keys(keys: usize) -> ModelClient {
    let mut client = ModelClient::new();
    assert_eq!(client.world.partition_of(KeyspaceId(1), b"{a}1").0, PARTITION);
    assert_eq!(key_slot(b"{a}1"), key_slot(b"{a}2"));
    for number in 0..keys {
        assert_eq!(client.send(&format!("SET {{a}}{number} v")), "+OK\r\n");
    }
    client
}

#[test]
fn command_of_many_keys_on_local_partition_gets_one_reply() {
    const KEYS: usize = 2 * PART_KEYS_MAX + 9;
    let mut client = client_with_keys(KEYS);
    let all = format!("*{KEYS}\r\n{}", "$1\r\nv\r\n".repeat(KEYS));
    assert!(send_command(&mut client, "MGET", KEYS) == all);
    for (name, keys, count) in [
        ("EXISTS", KEYS + 5, KEYS),
        ("TOUCH", PART_KEYS_MAX + 1, PART_KEYS_MAX + 1),
        ("DEL", PART_KEYS_MAX + 1, PART_KEYS_MAX + 1),
        ("UNLINK", KEYS, KEYS - PART_KEYS_MAX - 1),
        ("EXISTS", KEYS, 0),
    ] {
        assert_eq!(send_command(&mut client, name, keys), format!(":{count}\r\n"), "{name}");
    }
    assert_eq!(client.connection.buffered_bytes(), 0);
}

#[test]
fn later_commands_wait_for_all_steps_of_multi_key_command() {
    const KEYS: usize = 3 * PART_KEYS_MAX;
    let mut client = client_with_keys(KEYS);
    client.world.remote.insert(PARTITION);
    for (name, keys, steps) in
        [("MGET", PART_KEYS_MAX, 1), ("MGET", PART_KEYS_MAX + 1, 2), ("EXISTS", KEYS, 3), ("DEL", KEYS, 3)]
    {
        assert_eq!(send_command(&mut client, name, keys), "");
        assert_eq!(client.send("PING"), "");
        for step in 1..steps {
            assert_eq!(client.world.promised(), 1, "{name}: one step at a time");
            assert_eq!(
                (client.deliver(0).as_str(), client.then),
                ("", NextStep::PauseInput),
                "{name}: {step} of {steps}"
            );
            assert!(client.connection.buffered_bytes() > 0);
        }
        let reply = client.deliver_all();
        assert!(reply.ends_with("+PONG\r\n"), "{name}: {}", reply.len());
        assert!(reply.starts_with(if name == "MGET" { "*" } else { ":3072\r\n" }), "{name}");
        assert_eq!((client.world.promised(), client.connection.buffered_bytes()), (0, 0));
    }
}

#[test]
fn failed_step_reports_completed_keys() {
    const KEYS: usize = 2 * PART_KEYS_MAX + 1;
    let mut client = client_with_keys(KEYS);
    client.world.remote.insert(PARTITION);
    assert_eq!(send_command(&mut client, "DEL", KEYS), "");
    assert_eq!(client.deliver(0), "");
    client.world.is_busy = true;
    let reply = client.deliver_all();
    assert!(
        reply.starts_with(&format!("-ERR DEL is done for the first 1024 of its {KEYS} keys, and not")),
        "{reply}"
    );
    client.world.is_busy = false;
    assert_eq!(send_command(&mut client, "EXISTS", KEYS), "");
    assert_eq!(client.deliver_all(), format!(":{}\r\n", KEYS - PART_KEYS_MAX));
}

#[test]
fn set_of_too_many_keys_is_refused_with_name_and_limit() {
    let mut client = ModelClient::new();
    for name in ["MSET", "MSETNX"] {
        client.bytes(&command(name, SET_KEYS_MAX + 1, Some("v")));
        let reply = client.replies();
        let text =
            format!("-ERR {name} of 16385 keys in one partition, 16384 are allowed, as it is one step");
        assert!(reply.starts_with(&text), "{reply}");
        assert_eq!(send_command(&mut client, "EXISTS", SET_KEYS_MAX + 1), ":0\r\n");
    }
    client.bytes(&command("MSET", SET_KEYS_MAX, Some("v")));
    assert_eq!(client.replies(), "+OK\r\n");
}

#[test]
fn command_beyond_buffer_limit_has_no_effect() {
    let mut client = client_with_keys(2 * PART_KEYS_MAX);
    client.world.waiting_bytes_max = 1000;
    assert!(send_command(&mut client, "DEL", 2 * PART_KEYS_MAX).starts_with("-OOM"));
    client.world.waiting_bytes_max = usize::MAX;
    assert_eq!(send_command(&mut client, "EXISTS", 2 * PART_KEYS_MAX), ":2048\r\n");
}

/// A command over keys in all partitions.
fn cross_partition(name: &str, keys: usize) -> Vec<u8> {
    let words: Vec<String> =
        std::iter::once(name.to_owned()).chain((0..keys).map(|number| format!("k{number}"))).collect();
    let bulks: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{bulks}", words.len()).into_bytes()
}

#[test]
fn array_over_several_partitions_is_sent_in_pieces_as_client_reads() {
    const KEYS: usize = 3 * PART_KEYS_MAX + 5;
    let value = "v".repeat(8 << 10);
    let mut client = ModelClient::new();
    client.world.serves_cross_partition = true;
    for number in 0..KEYS {
        assert_eq!(client.send(&format!("SET k{number} {value}")), "+OK\r\n");
    }
    let expected = format!("*{KEYS}\r\n{}+PONG\r\n", format!("$8192\r\n{value}\r\n").repeat(KEYS));
    client.world.remote.insert(0);
    client.bytes(&cross_partition("MGET", KEYS));
    assert_eq!(client.send("PING"), "");
    let part_bytes = SPANNING_PART_KEYS_MAX * ((8 << 10) + 10);
    let (mut all, mut parts) = (String::new(), 0);
    while client.connection.is_waiting() || client.world.promised() > 0 {
        assert!(client.connection.buffered_bytes() <= PAGE_BYTES + part_bytes + (200 << 10));
        if client.world.promised() > 0 {
            assert_eq!(client.world.promised(), 1, "one part at a time");
            client.world.deliver(0, &mut client.connection, &mut client.out);
            parts += 1;
        } else {
            // The client reads what was sent; only then the next part is requested.
            let sent = client.replies();
            assert!(sent.len() <= OUTPUT_BYTES_MAX + PAGE_BYTES + part_bytes, "{} bytes at once", sent.len());
            all += &sent;
            client.bytes(b"");
        }
    }
    client.bytes(b"");
    all += &client.replies();
    assert!(all == expected, "{} of {} bytes", all.len(), expected.len());
    assert_eq!(parts, KEYS.div_ceil(SPANNING_PART_KEYS_MAX));
    assert_eq!(client.connection.buffered_bytes(), 0);
}

#[test]
fn command_over_several_partitions_gets_one_reply_or_names_its_limit() {
    const KEYS: usize = 2 * PART_KEYS_MAX + 9;
    let mut client = ModelClient::new();
    client.world.serves_cross_partition = true;
    for number in 0..KEYS {
        assert_eq!(client.send(&format!("SET k{number} v")), "+OK\r\n");
    }
    let all = format!("*{KEYS}\r\n{}", "$1\r\nv\r\n".repeat(KEYS));
    for is_remote in [false, true] {
        if is_remote {
            client.world.remote.insert(0);
        }
        client.bytes(&cross_partition("MGET", KEYS));
        assert!(client.replies() + &client.deliver_all() == all);
        client.bytes(&cross_partition("EXISTS", KEYS + 5));
        assert_eq!(client.replies() + &client.deliver_all(), format!(":{KEYS}\r\n"));
    }
    client.bytes(&cross_partition("MSET", 2 * (SET_KEYS_MAX + 1)));
    let refused = client.replies();
    assert!(
        refused.starts_with("-ERR MSET of 16385 keys in several partitions, 16384 are allowed"),
        "{refused}"
    );
    client.bytes(&cross_partition("DEL", KEYS));
    assert_eq!(client.deliver_all(), format!(":{KEYS}\r\n"));
}

/// A client of a world in which other threads execute what is over several partitions. Every 100th of its keys exists.
fn cross_partition_client(keys: usize) -> ModelClient {
    let mut client = ModelClient::new();
    client.world.serves_cross_partition = true;
    for number in (0..keys).step_by(100) {
        assert_eq!(client.send(&format!("SET k{number} v")), "+OK\r\n");
    }
    client.world.remote.insert(0);
    client
}

/// Delivers the replies to all units that are under way, the last one first.
fn deliver_round(client: &mut ModelClient) {
    for at in (0..client.world.promised()).rev() {
        client.world.deliver(at, &mut client.connection, &mut client.out);
    }
}

#[test]
fn parts_over_several_partitions_are_under_way_together() {
    const KEYS: usize = 40_000;
    let mut client = cross_partition_client(KEYS);
    let values = |number: usize| if number.is_multiple_of(100) { "$1\r\nv\r\n" } else { "$-1\r\n" };
    let all = format!("*{KEYS}\r\n{}", (0..KEYS).map(values).collect::<String>());
    for (name, part_keys, expected) in [
        ("MGET", SPANNING_PART_KEYS_MAX, all.as_str()),
        ("EXISTS", PART_KEYS_MAX, ":400\r\n"),
        ("TOUCH", PART_KEYS_MAX, ":400\r\n"),
        ("DEL", PART_KEYS_MAX, ":400\r\n"),
        ("UNLINK", PART_KEYS_MAX, ":0\r\n"),
    ] {
        client.bytes(&cross_partition(name, KEYS));
        let mut rounds = 0;
        while client.world.promised() > 0 {
            assert!(client.world.promised() <= SPANNING_PARTS_WINDOW, "{name}");
            deliver_round(&mut client);
            rounds += 1;
        }
        assert!(client.replies() == expected, "{name}");
        // The first part of an array shows how long the replies are.
        let rounds_max = KEYS.div_ceil(part_keys).div_ceil(SPANNING_PARTS_WINDOW) + 1;
        assert!(rounds <= rounds_max, "{name}: {rounds} rounds, {rounds_max} are enough");
        assert_eq!(client.connection.buffered_bytes(), 0);
    }
}

#[test]
fn failed_part_among_others_reports_completed_keys_once_all_have_ended() {
    const KEYS: usize = 3 * PART_KEYS_MAX;
    let mut client = cross_partition_client(KEYS);
    client.bytes(&cross_partition("DEL", KEYS));
    assert_eq!(client.world.promised(), 3);
    client.world.deliver(2, &mut client.connection, &mut client.out);
    client.world.absent.dropped.insert(KeyspaceId(1));
    client.world.deliver(0, &mut client.connection, &mut client.out);
    assert_eq!(client.send("PING"), "", "a part is under way");
    client.world.deliver(0, &mut client.connection, &mut client.out);
    client.world.absent.dropped.clear();
    let reply = client.replies();
    // Part 3 has the keys from 2048 on.
    let text = "-ERR DEL is done for 1024 of its 3072 keys, and not for all others, of which 10 were removed: repeat it";
    assert!(reply.starts_with(text), "{reply}");
    client.bytes(b"");
    client.replies();
    client.bytes(&cross_partition("EXISTS", KEYS));
    assert_eq!(client.deliver_all(), ":21\r\n");
}

#[test]
fn time_out_is_for_all_parts_together_and_its_error_says_what_was_done() {
    const DONE: usize = SPANNING_PARTS_WINDOW * PART_KEYS_MAX;
    let mut client = cross_partition_client(DONE + 1);
    for (name, begin) in [
        ("EXISTS", "-ERR EXISTS has read 8192 of its 8193 keys, and its time is over: "),
        (
            "DEL",
            "-ERR DEL is done for the first 8192 of its 8193 keys, and not for all others, of which 82 were removed: repeat it",
        ),
    ] {
        client.bytes(&cross_partition(name, DONE + 1));
        client.world.now_ms += TIME_OUT_MS;
        deliver_round(&mut client);
        assert_eq!(client.world.promised(), 0, "{name}: no part begins after the time-out");
        let reply = client.replies();
        assert!(reply.starts_with(begin) && reply.contains("--redis-timeout"), "{reply}");
        assert_eq!(client.connection.buffered_bytes(), 0);
    }
    // Also in one partition.
    let mut client = client_with_keys(1);
    client.world.remote.insert(PARTITION);
    assert_eq!(send_command(&mut client, "EXISTS", 2 * PART_KEYS_MAX), "");
    client.world.now_ms += TIME_OUT_MS;
    assert!(client.deliver(0).starts_with("-ERR EXISTS has read 1024 of its 2048 keys"));
}
