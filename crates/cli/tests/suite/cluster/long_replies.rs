//! A long reply of Redis is read page by page from a snapshot at the primary, which fails in the middle of it. Another node can go
//! on, as the new primary has the snapshot too.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::cluster::nodes::NodeCluster;
use crate::cluster::redis::Redis;
use crate::support::{GIVE_UP_AFTER, wait_for};

/// More bytes than the sockets and the output buffers of a connection together have room for.
const VALUES: usize = 400;
const VALUE_BYTES: usize = 64 << 10;

/// What a client reads before the failure: the reply has begun, and most of it is still at the primary.
const READ_BEFORE: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PrimaryFailure {
    Killed,
    /// It hands its partitions over, and ends.
    Stopped,
    /// It goes on after another node has taken over.
    Paused,
}

fn value(round: usize, number: usize) -> Vec<u8> {
    let head = format!("{round:08}{number:08}").into_bytes();
    let tail = (0..VALUE_BYTES - head.len()).map(|place| (number * 31 + round * 13 + place * 7) as u8);
    head.into_iter().chain(tail).collect()
}

fn array(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// All keys are in one partition.
fn key(number: usize) -> String {
    format!("{{a}}{number}")
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(GIVE_UP_AFTER)).unwrap();
    stream
}

/// Makes one command that is replied to in one line, again until that is no error.
fn until_done(address: &str, words: &[&[u8]]) {
    let query = || {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(GIVE_UP_AFTER)).ok()?;
        stream.write_all(&array(words)).ok()?;
        let mut first = [0];
        stream.read_exact(&mut first).ok()?;
        Some(first[0])
    };
    wait_for("the command is done", query, |first| first.is_some_and(|first| first != b'-'));
}

/// Fills the list and the keys. Returns what a reply with all the values is.
fn fill(address: &str, round: usize) -> Vec<u8> {
    let values: Vec<Vec<u8>> = (0..VALUES).map(|number| value(round, number)).collect();
    until_done(address, &[b"DEL", b"{a}list"]);
    let mut redis = connect(address);
    for (number, value) in values.iter().enumerate() {
        for words in [[&b"RPUSH"[..], b"{a}list", value], [b"SET", key(number).as_bytes(), value]] {
            redis.write_all(&array(&words)).unwrap();
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                let mut byte = [0];
                redis.read_exact(&mut byte).unwrap();
                line.extend_from_slice(&byte);
            }
            let expected =
                if words[0] == b"SET" { "+OK\r\n".to_owned() } else { format!(":{}\r\n", number + 1) };
            assert_eq!(String::from_utf8_lossy(&line), expected);
        }
    }
    array(&values.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// A client in the middle of a reply.
struct SlowReader<'e> {
    what: String,
    stream: TcpStream,
    expected: &'e [u8],
    at: usize,
}

impl<'e> SlowReader<'e> {
    fn begin(address: &str, words: &[&[u8]], expected: &'e [u8]) -> Self {
        let what = format!("{} at {address}", String::from_utf8_lossy(words[0]));
        let mut stream = connect(address);
        stream.write_all(&array(words)).unwrap();
        let mut reader = Self { what, stream, expected, at: 0 };
        assert!(reader.read_to(READ_BEFORE), "{}", reader.what);
        reader
    }

    /// Reads up to this place, and compares. Returns whether it came to there; `false`: the connection was closed.
    fn read_to(&mut self, end: usize) -> bool {
        let mut bytes = vec![0; 64 << 10];
        while self.at < end {
            let most = bytes.len().min(end - self.at);
            let length = match self.stream.read(&mut bytes[..most]) {
                Ok(0) => return false,
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return false,
                Err(error) => panic!("{}: after {} bytes: {error}", self.what, self.at),
            };
            let is_right = bytes[..length] == self.expected[self.at..self.at + length];
            assert!(is_right, "{}: after {} bytes comes what is not of this reply", self.what, self.at);
            self.at += length;
        }
        true
    }

    /// Reads on to the end of the reply, or of the connection. A complete reply is followed by that to the next command.
    fn end(mut self) -> bool {
        let is_whole = self.read_to(self.expected.len());
        if is_whole && self.stream.write_all(&array(&[b"PING"])).is_ok() {
            let mut reply = Vec::new();
            while !reply.ends_with(b"\r\n") {
                let mut byte = [0];
                match self.stream.read(&mut byte) {
                    Ok(0) => break,
                    Ok(_) => reply.push(byte[0]),
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                    Err(error) => panic!("{}: {error}", self.what),
                }
            }
            assert!(b"+PONG\r\n".starts_with(&reply), "{}: {}", self.what, String::from_utf8_lossy(&reply));
        }
        eprintln!("{}: {} of {} bytes", self.what, self.at, self.expected.len());
        is_whole
    }
}

/// The place among the nodes of the primary of all keys.
fn primary(cluster: &NodeCluster) -> usize {
    let slot: usize =
        Redis::connect(&cluster.instance(0)).send_command("CLUSTER KEYSLOT {a}list").parse().unwrap();
    let partitions = cluster.list(&["partition", "list"]);
    let partitions = partitions.as_array().unwrap();
    let instance = &partitions[slot * partitions.len() / 16_384]["primary"];
    let status = cluster.status();
    let is_its = |node: &serde_json::Value| {
        node["instances"].as_array().unwrap().iter().any(|one| one["id"] == *instance)
    };
    status["nodes"].as_array().unwrap().iter().position(is_its).unwrap()
}

#[test]
fn long_reply_is_complete_and_consistent_or_closes_on_failover() {
    let folder = crate::support::folder();
    let mut cluster = NodeCluster::start(folder.path(), 3);
    let failures = [PrimaryFailure::Killed, PrimaryFailure::Stopped, PrimaryFailure::Paused];
    for (round, failure) in failures.into_iter().enumerate() {
        cluster.wait_until_complete();
        let expected = fill(&cluster.instance(0), round);
        let failing = primary(&cluster);
        let other = cluster.instance((failing + 1) % 3);
        let keys: Vec<String> = (0..VALUES).map(key).collect();
        let many: Vec<&[u8]> =
            [&b"MGET"[..]].into_iter().chain(keys.iter().map(|key| key.as_bytes())).collect();
        // At the primary, and at a node that asks the primary for each page.
        let mut readers = Vec::new();
        for address in [&cluster.instance(failing), &other] {
            for words in [&[&b"LRANGE"[..], b"{a}list", b"0", b"-1"][..], &many] {
                readers.push(SlowReader::begin(address, words, &expected));
            }
        }
        match failure {
            PrimaryFailure::Killed => cluster.kill(failing),
            PrimaryFailure::Paused => cluster.pause(failing, true),
            PrimaryFailure::Stopped => {
                // It waits for the clients of accepted commands, so that these read meanwhile.
                let ended = std::thread::scope(|scope| {
                    let stopping = scope.spawn(|| cluster.stop(failing));
                    let reading: Vec<_> =
                        readers.drain(..).map(|reader| scope.spawn(move || reader.end())).collect();
                    stopping.join().unwrap();
                    reading.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
                });
                eprintln!("{failure:?}: {ended:?}");
            }
        }
        // What is read of another moment from here on is seen.
        until_done(&other, &[b"DEL", b"{a}list"]);
        until_done(&other, &[b"RPUSH", b"{a}list", b"other"]);
        for number in [1, VALUES / 2, VALUES - 1] {
            until_done(&other, &[b"SET", key(number).as_bytes(), b"other"]);
        }
        if failure == PrimaryFailure::Paused {
            cluster.pause(failing, false);
        }
        let ended: Vec<bool> = readers.into_iter().map(SlowReader::end).collect();
        if failure == PrimaryFailure::Killed {
            // So each reply was in its middle.
            assert_eq!(ended[..2], [false; 2], "the rest was only at the primary");
        }
        if failure != PrimaryFailure::Paused {
            cluster.start_again(failing);
        }
    }
    cluster.wait_until_complete();
    cluster.stop_in_order();
}
