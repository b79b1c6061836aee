//! Limits of commands, replies and transactions: the error names them, nothing is executed, and the
//! connection continues.

use zerohop_resp::NextStep;
use zerohop_resp::limits::*;

use crate::connection::ModelClient;

fn set(length: usize) -> Vec<u8> {
    [format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${length}\r\n").as_bytes(), &vec![b'x'; length], b"\r\n"].concat()
}

#[test]
fn too_long_argument_is_refused_and_connection_stays() {
    let mut client = ModelClient::new();
    let text = "-ERR an argument of 16777217 bytes, 16777216 are allowed: keep large data in a blob";
    client.bytes(&[&b"PING\r\n"[..], &set(BULK_BYTES_MAX + 1), b"PING\r\nEXISTS k\r\n"].concat());
    let replies = client.replies();
    assert!(replies.starts_with(&format!("+PONG\r\n{text}")), "{replies}");
    assert!(replies.ends_with("nothing was done\r\n+PONG\r\n:0\r\n"), "{replies}");
    // Nothing of it is kept while it arrives in pieces.
    for piece in set(BULK_BYTES_MAX + 1).chunks(100_001) {
        client.bytes(piece);
        assert!(client.unread.len() < 100, "{}", client.unread.len());
    }
    assert!(client.replies().starts_with(text));
    // A transaction with it is refused.
    client.bytes(
        &[&b"MULTI\r\nSET a 1\r\n"[..], &set(BULK_BYTES_MAX + 1), b"SET b 1\r\nEXEC\r\nEXISTS a b\r\n"]
            .concat(),
    );
    let replies = client.replies();
    assert!(replies.contains(text) && replies.contains("-EXECABORT"), "{replies}");
    let exec = "previous errors. Nothing was done: an argument of 16777217 bytes, 16777216 are allowed";
    assert!(replies.contains(exec), "{replies}");
    assert_eq!(client.send("EXISTS a\nEXISTS b"), ":0\r\n:0\r\n");
    // Whose reply is not wanted.
    client.send("CLIENT REPLY SKIP");
    client.bytes(&[&set(BULK_BYTES_MAX + 1)[..], b"PING\r\n"].concat());
    assert_eq!(client.replies(), "+PONG\r\n");
    assert_eq!(client.then, NextStep::More);
}

#[test]
fn too_long_command_is_refused_and_connection_stays() {
    let mut client = ModelClient::new();
    let value = [format!("${BULK_BYTES_MAX}\r\n").as_bytes(), &vec![b'x'; BULK_BYTES_MAX], b"\r\n"].concat();
    let mut bytes = b"*7\r\n$4\r\nMSET\r\n".to_vec();
    for _ in 0..3 {
        bytes.extend_from_slice(b"$1\r\nk\r\n");
        bytes.extend_from_slice(&value);
    }
    bytes.extend_from_slice(b"PING\r\n");
    for piece in bytes.chunks(1 << 20) {
        client.bytes(piece);
    }
    let replies = client.replies();
    assert!(replies.starts_with("-ERR a command of more than 34603008 bytes"), "{replies}");
    assert!(replies.ends_with("\r\n+PONG\r\n"), "{replies}");
}

#[test]
fn unauthenticated_clients_may_not_send_long_arguments() {
    let mut client = ModelClient::new();
    client.world.password = Some(b"secret".to_vec());
    client.bytes(format!("*3\r\n$4\r\nAUTH\r\n$1\r\nk\r\n${}\r\n", BULK_BYTES_MAX + 1).as_bytes());
    let replies = client.replies();
    assert_eq!(
        (client.then, replies.as_str()),
        (NextStep::Close, "-ERR Protocol error: unauthenticated bulk length\r\n")
    );
}

#[test]
fn transaction_is_bounded_by_record_bytes_that_it_processes() {
    let mut client = ModelClient::new();
    client.bytes(&set(BULK_BYTES_MAX));
    client.send("MULTI");
    client.bytes("BITCOUNT k\r\n".repeat(20).as_bytes());
    client.send("SET {k}o 1");
    client.replies();
    let replies = client.send("EXEC\nEXISTS {k}o");
    assert!(
        replies.starts_with("-ERR the transaction goes through more than 268435456 bytes of records"),
        "{replies}"
    );
    assert!(replies.ends_with("\r\n:0\r\n"), "{replies}");
    client.send("MULTI");
    client.bytes("BITCOUNT k\r\n".repeat(4).as_bytes());
    client.replies();
    assert!(client.send("EXEC").starts_with("*4\r\n:"));
}

#[test]
fn a_queue_of_commands_is_bounded() {
    let mut client = ModelClient::new();
    client.send("MULTI");
    client.bytes("PING\r\n".repeat(QUEUED_COMMANDS_MAX).as_bytes());
    assert_eq!(client.replies(), "+QUEUED\r\n".repeat(QUEUED_COMMANDS_MAX));
    let refused = client.send("PING");
    let limit = "the transaction has 16384 commands of 229376 bytes, and another one of 14 bytes is beyond its limit of 16384 \
                commands and 34603008 bytes: use several transactions, or a pipeline without MULTI\r\n";
    assert_eq!(refused, format!("-ERR {limit}"));
    // A command that is refused later changes nothing of that.
    assert_eq!(client.send("PING"), "+QUEUED\r\n");
    assert!(client.send("NONE").starts_with("-ERR unknown command"));
    let aborted = "-EXECABORT Transaction discarded because of previous errors. Nothing was done: ";
    assert_eq!(client.send("EXEC"), format!("{aborted}{limit}"));
    // The bytes are a limit of their own.
    client.send("MULTI");
    for _ in 0..2 {
        client.bytes(&set(BULK_BYTES_MAX));
    }
    client.bytes(&set(2 << 20));
    client.replies();
    let replies = client.send("EXEC\nEXISTS k");
    let limit = "the transaction has 2 commands of 33554498 bytes, and another one of 2097184 bytes is beyond its limit of 16384 ";
    assert!(
        replies.starts_with(&format!("{aborted}{limit}")) && replies.ends_with("\r\n:0\r\n"),
        "{replies}"
    );
    client.bytes(["WATCH", &" k".repeat(WATCHED_KEYS_MAX), "\r\nWATCH k\r\n"].concat().as_bytes());
    assert_eq!(client.replies(), "+OK\r\n-ERR 1025 keys would be watched, 1024 are allowed: watch fewer\r\n");
}

#[test]
fn oversized_reply_is_an_error() {
    let mut client = ModelClient::new();
    let value = vec![b'x'; BULK_BYTES_MAX];
    let head = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len());
    client.bytes(&[head.as_bytes(), &value, b"\r\n"].concat());
    assert_eq!(client.replies(), "+OK\r\n");
    let reply = client.send("MULTI\nMGET k k k k k\nEXEC");
    assert!(reply.len() < 300 && reply.starts_with("+OK\r\n+QUEUED\r\n-ERR "), "{reply}");
    assert!(client.send("MULTI\nMGET k k\nEXEC").len() > 2 * BULK_BYTES_MAX);
}

/// Answers all steps of a command, and counts them.
fn steps(client: &mut ModelClient) -> (usize, String) {
    let mut steps = 0;
    let mut replies = client.replies();
    while client.world.promised() > 0 {
        replies.push_str(&client.deliver(0));
        steps += 1;
    }
    (steps, replies)
}

#[test]
fn step_over_long_keys_ends_early_and_command_continues() {
    let mut client = ModelClient::new();
    for n in 0..40 {
        let key = [format!("{{a}}{n:02}").as_bytes(), &b"a".repeat(65_000)].concat();
        client.bytes(
            &[format!("*3\r\n$3\r\nSET\r\n${}\r\n", key.len()).as_bytes(), &key, b"\r\n$1\r\nv\r\n"].concat(),
        );
    }
    client.replies();
    client.world.remote.extend(0..4);
    let slow = format!("*{}b*", "?".repeat(1000));
    for (pattern, found) in [(slow.as_str(), 0), ("{a}1*", 10), (&format!("*{}*", "a".repeat(1000)), 40)] {
        client.bytes(format!("KEYS {pattern}\r\n").as_bytes());
        let (steps, replies) = steps(&mut client);
        assert!(replies.starts_with(&format!("*{found}\r\n")), "{}", &replies[..20]);
        // Two or three keys: the page size of the model decides.
        assert!(pattern != slow || steps >= 8, "{steps}");
        let (mut cursor, mut seen) = ("0".to_owned(), 0);
        loop {
            client.bytes(format!("SCAN {cursor} COUNT 4096 MATCH {pattern}\r\n").as_bytes());
            let (_, replies) = self::steps(&mut client);
            let mut lines = replies.split("\r\n").skip(2);
            cursor = lines.next().unwrap().to_owned();
            seen += lines.next().unwrap()[1..].parse::<usize>().unwrap();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(seen, found);
    }
    assert!(client.send(&format!("KEYS {}", "a".repeat(1025))).contains("1025 bytes, 1024 are allowed"));
    let many = client.send(&format!("CONFIG GET{}", " *".repeat(65)));
    assert!(many.starts_with("-ERR 65 patterns in one CONFIG GET, 64 are allowed"), "{many}");
}

#[test]
fn scan_continues_after_partition_was_busy() {
    let mut client = ModelClient::new();
    client.send("SET {b}1 v\nSET {a}1 v");
    client.world.remote.extend(0..4);
    client.world.is_busy = true;
    let (mut cursor, mut seen) = ("0".to_owned(), Vec::new());
    for call in 0.. {
        assert!(call < 20);
        client.bytes(format!("SCAN {cursor}\r\n").as_bytes());
        let (_, replies) = steps(&mut client);
        assert!(replies.starts_with("*2\r\n"), "{replies}");
        let lines: Vec<&str> = replies.split("\r\n").collect();
        cursor = lines[2].to_owned();
        seen.extend(lines[4..].iter().filter(|line| line.starts_with('{')).map(|key| (*key).to_owned()));
        client.world.is_busy = call < 1;
        if cursor == "0" {
            break;
        }
    }
    seen.sort();
    assert_eq!(seen, ["{a}1", "{b}1"]);
    // A partition that is unavailable for long is reported.
    client.world.is_busy = true;
    let mut reply = String::new();
    for _ in 0..4 {
        client.bytes(format!("SCAN {cursor}\r\n").as_bytes());
        reply = steps(&mut client).1;
        cursor = reply.split("\r\n").nth(2).unwrap_or_default().to_owned();
        if !reply.starts_with('*') {
            break;
        }
        assert_ne!(cursor, "0");
    }
    assert!(reply.starts_with("-TRYAGAIN"), "{reply}");
}
