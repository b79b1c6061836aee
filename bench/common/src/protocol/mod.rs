//! The three operations on one connection, and their answers: one type per protocol. A protocol of
//! one benchmark only is in that benchmark.
//!
//! A connection works in turns: it sends its outstanding requests in one write, and the next ones
//! once all are answered. All requests of a turn are of one kind.

mod resp;
pub mod testing;
mod zerohop;

pub use resp::Resp;
pub use zerohop::{Routing, Zerohop, is_ready, map_of};

use std::net::{SocketAddr, TcpStream};

use crate::failure::Failure;
use crate::limits::ANSWER_WAIT;
use crate::workload::{Key, Value};

/// An operation on a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Stores a value under a key.
    Insert,
    /// Reads a value.
    Lookup,
    /// Removes a record.
    Remove,
}

/// One request.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The operation.
    pub op: Op,
    /// The record's number.
    pub index: u32,
    /// The record's key.
    pub key: &'a Key,
    /// The value of an insert.
    pub value: &'a Value,
    /// Its index in the turn, from zero.
    pub slot: usize,
}

/// The result of parsing the front of the received bytes.
#[derive(Debug, PartialEq)]
pub enum Answer<'b> {
    /// The answer is incomplete.
    Unfinished,
    /// An answer to the request with this slot in the turn.
    Whole {
        /// Bytes that it occupies.
        used: usize,
        /// The slot of the request.
        slot: usize,
        /// The content.
        content: AnswerContent<'b>,
    },
}

/// The content of an answer.
#[derive(Debug, PartialEq)]
pub enum AnswerContent<'b> {
    /// An insert was done, or a remove that found a record.
    Done,
    /// There is no record.
    Absent,
    /// The value of a record.
    Value(&'b [u8]),
    /// Anything else.
    Other(String),
}

/// A connection's side of a protocol.
pub trait Protocol {
    /// All requests are answered, and a new turn begins.
    fn begin_turn(&mut self);

    /// Appends a request to `out`.
    ///
    /// # Errors It cannot be encoded.
    fn request(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Failure>;

    /// Parses the front of the bytes received while requests of this kind are outstanding.
    ///
    /// # Errors The bytes violate the protocol.
    fn answer<'b>(&'b mut self, op: Op, bytes: &'b [u8]) -> Result<Answer<'b>, Failure>;
}

/// A connection with blocking calls until the load begins, with a long time-out.
///
/// # Errors Those of the system.
#[expect(clippy::disallowed_methods, reason = "the load generator is what talks to the servers")]
pub fn connect(address: SocketAddr) -> Result<TcpStream, Failure> {
    let connecting = || Failure::while_doing(format!("connecting to {address}"));
    let stream = TcpStream::connect(address).map_err(connecting())?;
    stream.set_nodelay(true).map_err(connecting())?;
    stream.set_read_timeout(Some(ANSWER_WAIT)).map_err(connecting())?;
    Ok(stream)
}

/// The line at the front of `bytes` without its end, and the bytes after it.
pub fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n')?;
    Some((bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]), &bytes[end + 1..]))
}

/// No line of these servers' answers is longer; the limit keeps an endless one from repeated
/// searches.
const LINE_BYTES_MAX: usize = 1024;

/// The number in a text.
pub fn number(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_or_without_a_carriage_return() {
        assert_eq!(line(b"a b\r\nc"), Some((&b"a b"[..], &b"c"[..])));
        assert_eq!(line(b"a\n"), Some((&b"a"[..], &b""[..])));
        assert_eq!(line(b"a\r"), None);
    }
}
