//! Replies of any length: read page by page, consistent, and as fast as the client reads.

use zerohop_resp::NextStep;
use zerohop_resp::limits::{
    OUTPUT_BYTES_MAX, PAGE_BYTES, PART_KEYS_MAX, REPLY_BYTES_MAX, STEP_REPLY_BYTES_MAX,
};
use zerohop_wire::limits::VALUE_BYTES_MAX;

use crate::connection::ModelClient;

/// The partition of all keys here.
const PARTITION: u32 = 3;

fn array(words: &[&str]) -> String {
    let bulks: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{bulks}", words.len())
}

/// A list of values of this length, all different.
fn with_list(count: usize, bytes: usize) -> (ModelClient, Vec<String>) {
    let mut client = ModelClient::new();
    let values: Vec<String> =
        (0..count).map(|number| format!("{number:08}") + &"v".repeat(bytes - 8)).collect();
    for part in values.chunks(100) {
        let words: Vec<&str> =
            ["RPUSH", "{a}list"].into_iter().chain(part.iter().map(String::as_str)).collect();
        client.bytes(array(&words).as_bytes());
    }
    client.replies();
    (client, values)
}

/// Reads the output and lets the connection continue until it is done. Also returns the largest
/// output of one call.
fn read_on(client: &mut ModelClient) -> (String, usize) {
    let (mut all, mut most) = (client.replies(), 0);
    loop {
        if client.connection.awaits_output_space() {
            client.bytes(b"");
        } else if client.world.promised() > 0 {
            all += &client.deliver(0);
            continue;
        } else if !client.unread.is_empty() {
            client.bytes(b"");
        } else {
            return (all, most);
        }
        let sent = client.replies();
        most = most.max(sent.len());
        all += &sent;
    }
}

#[test]
fn long_list_is_returned_in_pages() {
    let (mut client, values) = with_list(700, 100 << 10);
    let words: Vec<&str> = values.iter().map(String::as_str).collect();
    let expected = array(&words);
    assert!(expected.len() > REPLY_BYTES_MAX);
    for is_away in [false, true] {
        if is_away {
            client.world.remote.insert(PARTITION);
        }
        assert_eq!(client.send("LRANGE {a}list 0 -1"), "");
        let (all, most) = read_on(&mut client);
        assert!(all == expected, "{} of {} bytes", all.len(), expected.len());
        assert!(most <= OUTPUT_BYTES_MAX + PAGE_BYTES + 100, "{most} bytes at once");
        assert!(client.connection.buffered_bytes() == 0 && client.world.snapshots.is_empty());
        client.send("LRANGE {a}list -600 -2");
        assert!(read_on(&mut client).0 == array(&words[100..699]));
    }
}

#[test]
fn no_page_is_read_while_output_is_full() {
    let (mut client, values) = with_list(100, 64 << 10);
    client.world.remote.insert(PARTITION);
    client.send("LRANGE {a}list 0 -1\nPING");
    let mut all = client.deliver(0);
    let mut pages = 0;
    while client.connection.awaits_output_space() {
        client.bytes(b"");
        assert_eq!(client.then, NextStep::PauseInput);
        assert_eq!(
            (client.world.promised(), client.connection.awaits_output_space()),
            (1, false),
            "one is asked for"
        );
        client.world.deliver(0, &mut client.connection, &mut client.out);
        assert_eq!(client.world.promised(), usize::from(!client.connection.is_waiting()));
        assert!(client.connection.buffered_bytes() < 1000, "no page is kept");
        let page = client.replies();
        assert!(page.len() <= PAGE_BYTES + 1000);
        all += &page;
        pages += 1;
    }
    all += &read_on(&mut client).0;
    let words: Vec<&str> = values.iter().map(String::as_str).collect();
    assert!(all == array(&words) + "+PONG\r\n" && pages >= 7, "{pages} pages");
}

#[test]
fn long_reply_is_consistent_despite_later_changes() {
    for change in
        ["RPUSH {a}list more", "LTRIM {a}list 5 10", "DEL {a}list", "SET {a}list x", "RENAME {a}list {a}l"]
    {
        let (mut client, values) = with_list(100, 64 << 10);
        client.world.remote.insert(PARTITION);
        let expected = array(&values.iter().map(String::as_str).collect::<Vec<_>>());
        // Pipelined: the change is under way before anything was read.
        client.send(&format!("LRANGE {{a}}list 0 -1\n{change}"));
        assert_eq!(client.world.promised(), 2);
        let (all, _) = read_on(&mut client);
        assert!(all.starts_with(&expected) && all.len() > expected.len(), "{change}: {}", all.len());
        assert!(client.world.snapshots.is_empty());
    }
}

#[test]
fn long_multi_key_reply_is_consistent() {
    let mut client = ModelClient::new();
    let value = "v".repeat(256 << 10);
    let keys: Vec<String> = (0..400).map(|number| format!("{{a}}{number}")).collect();
    for key in &keys[..399] {
        client.bytes(array(&["SET", key, &value]).as_bytes());
    }
    client.replies();
    client.world.remote.insert(PARTITION);
    let words: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    client.bytes(array(&words).as_bytes());
    client.send(&format!("DEL {}", keys[398]));
    let (all, most) = read_on(&mut client);
    let bulk = format!("${}\r\n{value}\r\n", value.len());
    assert!(all == format!("*400\r\n{}$-1\r\n:1\r\n", bulk.repeat(399)), "{}", all.len());
    assert!(all.len() > REPLY_BYTES_MAX && most < 2 * OUTPUT_BYTES_MAX);
}

#[test]
fn long_values_of_many_keys_are_sent_in_pieces() {
    const KEYS: usize = PART_KEYS_MAX + 100;
    let mut client = ModelClient::new();
    let value = "v".repeat(64 << 10);
    let keys: Vec<String> = (0..KEYS).map(|number| format!("{{a}}{number}")).collect();
    for key in &keys[1..] {
        client.bytes(array(&["SET", key, &value]).as_bytes());
    }
    client.replies();
    let words: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    for is_away in [false, true] {
        if is_away {
            client.world.remote.insert(PARTITION);
        }
        client.bytes(&[array(&words).as_bytes(), b"PING\r\n"].concat());
        let (all, most) = read_on(&mut client);
        let bulk = format!("${}\r\n{value}\r\n", value.len());
        assert!(
            all == format!("*{KEYS}\r\n$-1\r\n{}+PONG\r\n", bulk.repeat(KEYS - 1)),
            "{} bytes",
            all.len()
        );
        assert!(all.len() > REPLY_BYTES_MAX && most < 3 * OUTPUT_BYTES_MAX, "{most}");
        assert_eq!(client.connection.buffered_bytes(), 0);
    }
}

#[test]
fn short_or_indivisible_reply_takes_one_step_without_snapshot() {
    let (mut client, values) = with_list(20, 100 << 10);
    assert!(values.len() * values[0].len() < STEP_REPLY_BYTES_MAX);
    assert!(client.send("LRANGE {a}list 0 -1").len() > values.len() * values[0].len());
    assert_eq!(client.send("SET {a}1 x"), "+OK\r\n");
    let value = "v".repeat(VALUE_BYTES_MAX);
    client.bytes(array(&["SET", "{a}1", &value]).as_bytes());
    assert_eq!(client.replies(), "+OK\r\n");
    assert!(client.send("MGET {a}1").len() > VALUE_BYTES_MAX, "the last value has no end in between");
    // In a transaction nothing is read in pages.
    let (mut client, _) = with_list(700, 100 << 10);
    let replies = client.send("MULTI\nLRANGE {a}list 0 -1\nEXEC");
    assert!(
        replies.contains("-ERR reply too long: ") && replies.contains("limit 49 MiB"),
        "{}",
        replies.len()
    );
    assert!(client.world.snapshots.is_empty());
}

#[test]
fn client_that_disconnects_during_long_reply_leaves_no_snapshot() {
    let (mut client, _) = with_list(100, 64 << 10);
    client.world.remote.insert(PARTITION);
    client.send("LRANGE {a}list 0 -1");
    client.deliver(0);
    client.bytes(b"");
    assert!(!client.deliver(0).is_empty());
    assert_eq!((client.world.snapshots.len(), client.connection.ends().len()), (1, 1));
    client.world.remote.clear();
    for (place, unit) in client.connection.ends() {
        let (unit, ticket) =
            (zerohop_resp::Unit::decode(&unit).unwrap(), zerohop_resp::Ticket { number: 1, part: 9 });
        zerohop_resp::ConnectionWorld::run(&mut client.world, place, ticket, &unit, &mut Vec::new());
    }
    assert!(client.world.snapshots.is_empty());
}

#[test]
fn lost_snapshot_gives_error_or_closes_started_reply() {
    for pages in [0, 1, 2] {
        let (mut client, _) = with_list(100, 64 << 10);
        client.world.remote.insert(PARTITION);
        client.send("LRANGE {a}list 0 -1\nPING");
        client.deliver(0);
        for _ in 0..pages {
            client.bytes(b"");
            assert!(client.deliver(0).len() > 1000);
        }
        client.world.snapshots.clear();
        let (rest, _) = read_on(&mut client);
        client.bytes(b"");
        if pages == 0 {
            assert!(rest.starts_with("-ERR") && client.then == NextStep::More, "{rest}");
        } else {
            assert_eq!((rest.as_str(), client.then), ("", NextStep::Close));
        }
    }
}

#[test]
fn suppressed_long_reply_is_not_read() {
    let (mut client, _) = with_list(100, 64 << 10);
    client.send("CLIENT REPLY SKIP\nLRANGE {a}list 0 -1");
    let (all, _) = read_on(&mut client);
    assert_eq!((all.as_str(), client.world.snapshots.len()), ("", 0));
    assert_eq!(client.send("PING"), "+PONG\r\n");
}

#[test]
fn pipelined_long_replies_keep_order() {
    let (mut client, values) = with_list(100, 64 << 10);
    client.world.remote.insert(PARTITION);
    client.send("LRANGE {a}list 0 -1\nLRANGE {a}list 1 -1\nGET {a}none\nLRANGE {a}list 2 -1");
    let words: Vec<&str> = values.iter().map(String::as_str).collect();
    let expected = array(&words) + &array(&words[1..]) + "$-1\r\n" + &array(&words[2..]);
    assert!(read_on(&mut client).0 == expected);
    assert!(client.world.snapshots.is_empty());
}
