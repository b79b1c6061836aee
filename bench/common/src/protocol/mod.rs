//! How one connection asks for the three operations, and reads the answers: one type for each protocol. Those of one
//! benchmark alone stand with it.
//!
//! A connection works in turns: it sends as many requests as it may have outstanding in one write, and the next ones
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

/// What is done to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Stores a value under a key.
    Insert,
    /// Reads it.
    Lookup,
    /// Removes it.
    Remove,
}

/// One request.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// What is done.
    pub op: Op,
    /// The record's number.
    pub index: u32,
    /// Its name.
    pub key: &'a Key,
    /// What an insert stores.
    pub value: &'a Value,
    /// Its place in the turn, from zero.
    pub slot: usize,
}

/// What stands at the front of the bytes received.
#[derive(Debug, PartialEq)]
pub enum Answer<'b> {
    /// Not yet a whole answer.
    Unfinished,
    /// An answer to the request of that place in the turn.
    Whole {
        /// Bytes that it took.
        used: usize,
        /// Which request.
        slot: usize,
        /// What it says.
        said: AnswerContent<'b>,
    },
}

/// What an answer says.
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
    /// All requests are answered, and others follow.
    fn begin_turn(&mut self);

    /// Adds a request to `out`.
    ///
    /// # Errors
    /// If it cannot be encoded.
    fn request(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Failure>;

    /// Looks at the front of what was received while requests of this kind are outstanding.
    ///
    /// # Errors
    /// If they are no answer of this protocol.
    fn answer<'b>(&'b mut self, op: Op, bytes: &'b [u8]) -> Result<Answer<'b>, Failure>;
}

/// A connection whose calls block, for as long as a server may take, until the load begins.
///
/// # Errors
/// What the system answers.
#[expect(clippy::disallowed_methods, reason = "the load generator is what talks to the servers")]
pub fn connect(address: SocketAddr) -> Result<TcpStream, Failure> {
    let connecting = || Failure::while_doing(format!("connecting to {address}"));
    let stream = TcpStream::connect(address).map_err(connecting())?;
    stream.set_nodelay(true).map_err(connecting())?;
    stream.set_read_timeout(Some(ANSWER_WAIT)).map_err(connecting())?;
    Ok(stream)
}

/// The line at the front of `bytes` without its end, and the bytes behind it.
pub fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n')?;
    Some((bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]), &bytes[end + 1..]))
}

/// No line of these servers' answers is longer; an endless one must not be searched over and over.
const LINE_BYTES_MAX: usize = 1024;

/// The number that a text is.
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
