//! A minimal client of etcd's protocol (gRPC over HTTP/2): one request at a time on each
//! connection. It is the cheapest possible client, so that etcd and not its client is measured.
//!
//! A request is a HEADERS and a DATA frame. Header names are sent once per connection and then by
//! number (RFC 7541, without Huffman codes). Of an answer only the message is read; a failed one
//! has none.

use std::net::{SocketAddr, TcpStream};

use bench_common::failure::Failure;
use bench_common::protocol::{Answer, AnswerContent, Op, Protocol, Request, connect};

/// The start of a connection: the preface, empty settings, and flow control for 2 GiB of answers,
/// more than any run has.
const PREFACE: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x04\x08\0\0\0\0\0\x7f\xff\0\0";

/// Types of frames, and their flags.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const FRAME_HEAD: usize = 9;

/// The first index of the connection's dynamic header table.
const DYNAMIC: usize = 62;

/// A connection to one member.
pub(crate) struct Etcd {
    authority: String,
    /// Frames to send before the next request: the preface, acknowledgements.
    due: Vec<u8>,
    /// The stream of the current request; odd numbers that rise.
    stream: u32,
    /// The entries of the dynamic table, by key.
    header_table: Vec<&'static str>,
    block: Vec<u8>,
    /// Each insert is a transaction that also writes another key.
    is_pair: bool,
}

impl Etcd {
    /// Connects to a member. Each insert is one transaction with the record of the reversed key.
    pub(crate) fn open_pairs(member: SocketAddr) -> Result<(TcpStream, Etcd), Failure> {
        let (stream, etcd) = Etcd::open(member)?;
        Ok((stream, Etcd { is_pair: true, ..etcd }))
    }

    /// Connects to a member.
    pub(crate) fn open(member: SocketAddr) -> Result<(TcpStream, Etcd), Failure> {
        let (header_table, block) = (Vec::new(), Vec::new());
        let authority = member.to_string();
        let etcd = Etcd { authority, due: PREFACE.to_vec(), stream: 0, header_table, block, is_pair: false };
        Ok((connect(member)?, etcd))
    }

    /// A header of this connection. `name` is its index in the static table, or 0 and the literal
    /// name.
    fn header(&mut self, what: &'static str, name: (u8, &str), value: &str) {
        if let Some(at) = self.header_table.iter().position(|known| *known == what) {
            self.block.push(0x80 | (DYNAMIC + self.header_table.len() - 1 - at) as u8);
            return;
        }
        self.header_table.push(what);
        self.block.push(0x40 | name.0);
        let literals = [Some(name.1).filter(|_| name.0 == 0), Some(value)];
        for text in literals.into_iter().flatten() {
            // Shorter than 127 bytes: a length of one byte.
            self.block.push(text.len() as u8);
            self.block.extend_from_slice(text.as_bytes());
        }
    }
}

impl Protocol for Etcd {
    fn begin_turn(&mut self) {}

    fn request(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        let path = match request.op {
            Op::Insert if self.is_pair => "/etcdserverpb.KV/Txn",
            Op::Insert => "/etcdserverpb.KV/Put",
            Op::Lookup => "/etcdserverpb.KV/Range",
            Op::Remove => return Err(Failure::Usage("nothing is removed from etcd here".into())),
        };
        out.append(&mut self.due);
        self.stream = if self.stream == 0 { 1 } else { self.stream + 2 };
        self.block.clear();
        // `:method POST` and `:scheme http` of the static table.
        self.block.extend_from_slice(&[0x83, 0x86]);
        self.header(path, (4, ":path"), path);
        let authority = std::mem::take(&mut self.authority);
        self.header("authority", (1, ":authority"), &authority);
        self.authority = authority;
        self.header("content-type", (31, "content-type"), "application/grpc");
        self.header("te", (0, "te"), "trailers");
        frame(out, HEADERS, END_HEADERS, self.stream, self.block.len());
        out.extend_from_slice(&self.block);

        if self.is_pair && request.op == Op::Insert {
            pair(out, self.stream, request);
            return Ok(());
        }
        // PutRequest { key = 1, value = 2 }, RangeRequest { key = 1 }.
        let value = Some(request.value.as_slice()).filter(|_| request.op == Op::Insert);
        let length = 2 + request.key.len() + value.map_or(0, |value| 3 + value.len());
        frame(out, DATA, END_STREAM, self.stream, 5 + length);
        out.push(0);
        out.extend_from_slice(&(length as u32).to_be_bytes());
        out.extend_from_slice(&[0x0a, request.key.len() as u8]);
        out.extend_from_slice(request.key);
        if let Some(value) = value {
            const { assert!(bench_common::workload::VALUE_BYTES >> 7 == 1) };
            out.extend_from_slice(&[0x12, 0x80 | value.len() as u8, 1]);
            out.extend_from_slice(value);
        }
        Ok(())
    }

    fn answer<'b>(&'b mut self, op: Op, bytes: &'b [u8]) -> Result<Answer<'b>, Failure> {
        let (mut at, mut message) = (0, None);
        let mut due = Vec::new();
        loop {
            let Some(head) = bytes.get(at..at + FRAME_HEAD) else { return Ok(Answer::Unfinished) };
            let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let begin = at + FRAME_HEAD;
            let Some(body) = bytes.get(begin..begin + length) else { return Ok(Answer::Unfinished) };
            at = begin + length;
            match kind {
                SETTINGS if flags & ACK == 0 => frame(&mut due, SETTINGS, ACK, 0, 0),
                PING if flags & ACK == 0 => {
                    frame(&mut due, PING, ACK, 0, length);
                    due.extend_from_slice(body);
                }
                GOAWAY => return Err(Failure::Protocol("that it is going away".into())),
                DATA if stream == self.stream => message = Some(body),
                _ => {}
            }
            if stream == self.stream && flags & END_STREAM != 0 && matches!(kind, DATA | HEADERS) {
                break;
            }
        }
        self.due.append(&mut due);
        let content = match message {
            // One byte for uncompressed, four for the length.
            Some([0, _, _, _, _, message @ ..]) if op == Op::Lookup => value_of(message)?,
            Some([0, ..]) => AnswerContent::Done,
            _ => AnswerContent::Other("a call that failed".into()),
        };
        Ok(Answer::Whole { used: at, slot: 0, content })
    }
}

/// TxnRequest { success = 2: RequestOp { request_put = 2: PutRequest { key = 1, value = 2 } }, twice }, in a frame.
fn pair(out: &mut Vec<u8>, stream: u32, request: &Request<'_>) {
    let mut message = Vec::new();
    let backwards: Vec<u8> = request.key.iter().rev().copied().collect();
    for key in [request.key.as_slice(), &backwards] {
        let mut put = vec![0x0a, key.len() as u8];
        put.extend_from_slice(key);
        put.extend_from_slice(&[0x12, 0x80 | request.value.len() as u8, 1]);
        put.extend_from_slice(request.value.as_slice());
        // Lengths from 128 to 16,383: two bytes each.
        let wrapped = [&[0x12, 0x80 | put.len() as u8, (put.len() >> 7) as u8][..], &put].concat();
        message.extend_from_slice(&[0x12, 0x80 | wrapped.len() as u8, (wrapped.len() >> 7) as u8]);
        message.extend_from_slice(&wrapped);
    }
    frame(out, DATA, END_STREAM, stream, 5 + message.len());
    out.push(0);
    out.extend_from_slice(&(message.len() as u32).to_be_bytes());
    out.extend_from_slice(&message);
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, length: usize) {
    out.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// RangeResponse { kvs = 2: KeyValue { value = 5 } }.
fn value_of(response: &[u8]) -> Result<AnswerContent<'_>, Failure> {
    let Some(found) = field(response, 2)? else { return Ok(AnswerContent::Absent) };
    Ok(field(found, 5)?.map_or(AnswerContent::Absent, AnswerContent::Value))
}

/// The bytes of the first field with this number in a Protocol Buffers message.
fn field(mut message: &[u8], requested: u64) -> Result<Option<&[u8]>, Failure> {
    let broken = || Failure::Protocol("a message that is none".into());
    while !message.is_empty() {
        let tag = varint(&mut message).ok_or_else(broken)?;
        let number = varint(&mut message).ok_or_else(broken)?;
        match tag & 7 {
            0 => {}
            2 => {
                let bytes = message.get(..number as usize).ok_or_else(broken)?;
                if tag >> 3 == requested {
                    return Ok(Some(bytes));
                }
                message = &message[bytes.len()..];
            }
            _ => return Err(broken()),
        }
    }
    Ok(None)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_common::protocol::testing;

    fn fresh() -> Etcd {
        let (header_table, block) = (Vec::new(), Vec::new());
        let authority = "127.0.0.1:2379".into();
        Etcd { authority, due: Vec::new(), stream: 1, header_table, block, is_pair: false }
    }

    /// Frames of type, flags, stream and body, as bytes.
    fn frames(of: &[(u8, u8, u32, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (kind, flags, stream, body) in of {
            frame(&mut out, *kind, *flags, *stream, body.len());
            out.extend_from_slice(body);
        }
        out
    }

    #[test]
    fn headers_are_sent_once_and_then_by_number() {
        let mut etcd = Etcd { stream: 0, ..fresh() };
        let (first, ..) = testing::bytes(&mut etcd, Op::Insert);
        assert_eq!(&first[..FRAME_HEAD], [0, 0, first[2], HEADERS, END_HEADERS, 0, 0, 0, 1]);
        assert_eq!(&first[9..13], [0x83, 0x86, 0x44, 20]);
        assert!(first.windows(16).any(|window| window == b"application/grpc"));
        let (second, key, value) = testing::bytes(&mut etcd, Op::Insert);
        let block = [0x83, 0x86, 65, 64, 63, 62].map(|at: u8| at | 0x80);
        let message = [&[0x0a, 15][..], &key, &[0x12, 0x84, 1], &value].concat();
        let data = [&[0, 0, 0, 0, message.len() as u8][..], &message].concat();
        assert_eq!(second, frames(&[(HEADERS, END_HEADERS, 3, &block), (DATA, END_STREAM, 3, &data)]));
        // Another path gets its own entry, which shifts the others.
        let (third, ..) = testing::bytes(&mut etcd, Op::Lookup);
        assert_eq!(&third[9..13], [0x83, 0x86, 0x44, 22]);
        let (fourth, ..) = testing::bytes(&mut etcd, Op::Insert);
        assert_eq!(&fourth[9..12], [0x83, 0x86, 0x80 | 66]);
    }

    #[test]
    fn pair_insert_is_one_transaction_of_two_puts() {
        let mut etcd = Etcd { is_pair: true, ..fresh() };
        let (bytes, key, value) = testing::bytes(&mut etcd, Op::Insert);
        let backwards: Vec<u8> = key.iter().rev().copied().collect();
        let put = |key: &[u8]| {
            let put = [&[0x0a, 15][..], key, &[0x12, 0x84, 1], &value].concat();
            // 152 bytes, and 155 with their field header.
            [&[0x12, 0x9b, 1, 0x12, 0x98, 1][..], &put].concat()
        };
        let message = [put(&key), put(&backwards)].concat();
        let data = [&[0, 0, 0, 1, (message.len() - 256) as u8][..], &message].concat();
        assert!(bytes.ends_with(&frames(&[(DATA, END_STREAM, 3, &data)])), "{bytes:?}");
        let path = b"/etcdserverpb.KV/Txn";
        assert!(bytes.windows(path.len()).any(|window| window == path));
    }

    #[test]
    fn answer_kinds_are_distinguished() {
        let (head, tail) =
            ((HEADERS, END_HEADERS, 1, &b"x"[..]), (HEADERS, END_HEADERS | END_STREAM, 1, &b"y"[..]));
        let put = frames(&[head, (DATA, 0, 1, b"\0\0\0\0\x02\x0a\0"), tail]);
        testing::reads(fresh, Op::Insert, &put, AnswerContent::Done);
        let found = b"\0\0\0\0\x0e\x0a\x02\x08\x01\x12\x06\x0a\x01k\x2a\x01v\x20\x01";
        testing::reads(
            fresh,
            Op::Lookup,
            &frames(&[head, (DATA, 0, 1, found), tail]),
            AnswerContent::Value(b"v"),
        );
        testing::reads(
            fresh,
            Op::Lookup,
            &frames(&[head, (DATA, 0, 1, b"\0\0\0\0\0"), tail]),
            AnswerContent::Absent,
        );
        testing::reads(
            fresh,
            Op::Insert,
            &frames(&[tail]),
            AnswerContent::Other("a call that failed".into()),
        );
    }

    #[test]
    fn settings_and_pings_are_acknowledged_with_the_next_request() {
        let mut etcd = fresh();
        let tail = (DATA, END_STREAM, 1, &b"\0\0\0\0\0"[..]);
        let bytes = frames(&[(SETTINGS, 0, 0, b"abcdef"), (PING, 0, 0, b"12345678"), tail]);
        etcd.answer(Op::Insert, &bytes[..bytes.len() - 1]).unwrap();
        etcd.answer(Op::Insert, &bytes).unwrap();
        let (next, ..) = testing::bytes(&mut etcd, Op::Insert);
        let acknowledged = frames(&[(SETTINGS, ACK, 0, b""), (PING, ACK, 0, b"12345678")]);
        assert!(next.starts_with(&acknowledged), "{next:?}");
    }
}
