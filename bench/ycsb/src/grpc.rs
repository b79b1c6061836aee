//! Calls of gRPC over HTTP/2, one at a time on each connection: the cheapest possible client, so that a server and not its client is measured.
//!
//! ```text
//!   request   HEADERS, DATA with the message     names of headers once per connection, then by number (RFC 7541, without Huffman codes)
//!   answer    HEADERS, DATA …, HEADERS           only DATA is read: a call that failed has none
//! ```

use bench_common::failure::Failure;

use crate::limits;

/// The begin of a connection: the preface, settings (4: the window of a stream) with 2 GiB, and as much for the connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \0\0\x06\x04\0\0\0\0\0\0\x04\x7f\xff\xff\xff\
    \0\0\x04\x08\0\0\0\0\0\x7f\xff\0\0";

/// Types of frames, and their flags.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const FRAME_HEAD: usize = 9;

/// The first index of the connection's dynamic header table.
const DYNAMIC: usize = 62;

/// Bytes before a message: whether it is compressed, and its length.
const MESSAGE_HEAD: usize = 5;

/// The state of a connection.
pub(crate) struct GrpcCalls {
    authority: String,
    /// Frames to send before the next request: the preface, acknowledgements.
    due: Vec<u8>,
    /// The stream of the current call; odd numbers that rise.
    stream: u32,
    /// The entries of the dynamic table, in the order in which they were added.
    header_table: Vec<&'static str>,
    /// The message of the current answer, as far as it has arrived.
    message: Vec<u8>,
    /// Bytes of messages for which the window was not opened again.
    received: u32,
}

/// The head of a frame.
struct FrameHead {
    kind: u8,
    flags: u8,
    stream: u32,
}

impl GrpcCalls {
    /// Those to this host and port.
    pub(crate) fn new(authority: String) -> GrpcCalls {
        let (header_table, message) = (Vec::new(), Vec::new());
        GrpcCalls { authority, due: PREFACE.to_vec(), stream: 0, header_table, message, received: 0 }
    }

    /// Appends a call of this method.
    pub(crate) fn request(&mut self, path: &'static str, message: &[u8], out: &mut Vec<u8>) {
        out.append(&mut self.due);
        self.stream = if self.stream == 0 { 1 } else { self.stream + 2 };
        self.message.clear();
        // `:method POST` and `:scheme http` of the static table.
        let mut block = vec![0x83, 0x86];
        self.header(&mut block, path, (4, ":path"), path);
        let authority = std::mem::take(&mut self.authority);
        self.header(&mut block, "authority", (1, ":authority"), &authority);
        self.authority = authority;
        self.header(&mut block, "content-type", (31, "content-type"), "application/grpc");
        self.header(&mut block, "te", (0, "te"), "trailers");
        frame(out, HEADERS, END_HEADERS, self.stream, &[&block]);
        let length = (message.len() as u32).to_be_bytes();
        frame(out, DATA, END_STREAM, self.stream, &[&[0], &length, message]);
    }

    /// A header. `name` is its index in the static table, or 0 and the literal name.
    fn header(&mut self, block: &mut Vec<u8>, what: &'static str, name: (u8, &str), value: &str) {
        if let Some(at) = self.header_table.iter().position(|known| *known == what) {
            block.push(0x80 | (DYNAMIC + self.header_table.len() - 1 - at) as u8);
            return;
        }
        self.header_table.push(what);
        block.push(0x40 | name.0);
        let literals = [Some(name.1).filter(|_| name.0 == 0), Some(value)];
        for text in literals.into_iter().flatten() {
            // Shorter than 127 bytes: a length of one byte.
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }

    /// Reads the frames at the front of `bytes`, up to the end of the current call. Returns the bytes that they have, and whether the call has ended.
    ///
    /// # Errors The server ends the connection or the call.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<(usize, bool), Failure> {
        let mut rest = bytes;
        while let Some((head, body, behind)) = next_frame(rest) {
            rest = behind;
            let is_own = head.stream == self.stream;
            match head.kind {
                SETTINGS if head.flags & ACK == 0 => frame(&mut self.due, SETTINGS, ACK, 0, &[]),
                PING if head.flags & ACK == 0 => frame(&mut self.due, PING, ACK, 0, &[body]),
                GOAWAY => return Err(Failure::Protocol("that it is going away".into())),
                RESET if is_own => return Err(Failure::Protocol("that it gives a call up".into())),
                DATA if head.flags & PADDED != 0 => return Err(Failure::Protocol("padded data".into())),
                DATA => {
                    self.open_window(body.len() as u32);
                    if is_own {
                        self.message.extend_from_slice(body);
                    }
                }
                _ => {}
            }
            if is_own && head.flags & END_STREAM != 0 && matches!(head.kind, DATA | HEADERS) {
                return Ok((bytes.len() - rest.len(), true));
            }
        }
        Ok((bytes.len() - rest.len(), false))
    }

    /// The message of a call that has ended.
    ///
    /// # Errors The call failed.
    pub(crate) fn message(&self) -> Result<&[u8], Failure> {
        let failed = || Failure::Protocol("that a call failed".into());
        let (head, message) = self.message.split_first_chunk::<MESSAGE_HEAD>().ok_or_else(failed)?;
        let [0, length @ ..] = head else { return Err(Failure::Protocol("a compressed message".into())) };
        if u32::from_be_bytes(*length) as usize != message.len() {
            return Err(Failure::Protocol("not one message".into()));
        }
        Ok(message)
    }

    /// Opens the window of the connection again, when half of it is used. Each stream has its own.
    fn open_window(&mut self, bytes: u32) {
        self.received += bytes;
        if self.received >= limits::WINDOW_BYTES {
            frame(&mut self.due, WINDOW, 0, 0, &[&self.received.to_be_bytes()]);
            self.received = 0;
        }
    }
}

/// The first frame: its head, its body, and what is behind it.
fn next_frame(bytes: &[u8]) -> Option<(FrameHead, &[u8], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<FRAME_HEAD>()?;
    let [high, middle, low, kind, flags, stream @ ..] = head;
    let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
    let (body, rest) = rest.split_at_checked(length)?;
    let stream = u32::from_be_bytes(*stream) & (u32::MAX >> 1);
    Some((FrameHead { kind: *kind, flags: *flags, stream }, body, rest))
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, body: &[&[u8]]) {
    let length: usize = body.iter().map(|part| part.len()).sum();
    let [_, length @ ..] = (length as u32).to_be_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    body.iter().for_each(|part| out.extend_from_slice(part));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> GrpcCalls {
        let mut calls = GrpcCalls::new("127.0.0.1:2379".into());
        calls.due.clear();
        calls
    }

    /// Frames of type, flags, stream and body, as bytes.
    fn frames(of: &[(u8, u8, u32, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        of.iter().for_each(|(kind, flags, stream, body)| frame(&mut out, *kind, *flags, *stream, &[body]));
        out
    }

    #[test]
    fn connection_begins_with_preface_and_windows() {
        let mut out = Vec::new();
        GrpcCalls::new("h:1".into()).request("/a/B", b"", &mut out);
        let (settings, body, rest) = next_frame(&out[24..]).unwrap();
        assert_eq!(body, b"\0\x04\x7f\xff\xff\xff");
        let (window, body, rest) = next_frame(rest).unwrap();
        assert_eq!(body, b"\x7f\xff\0\0");
        assert_eq!((settings.kind, window.kind, settings.stream, window.stream), (SETTINGS, WINDOW, 0, 0));
        assert_eq!(rest[..FRAME_HEAD], [0, 0, rest[2], HEADERS, END_HEADERS, 0, 0, 0, 1]);
    }

    #[test]
    fn headers_are_sent_once_and_then_by_number() {
        let mut calls = fresh();
        let mut request = |path| {
            let mut out = Vec::new();
            calls.request(path, b"xy", &mut out);
            out
        };
        let first = request("/kv/Put");
        assert_eq!(first[9..14], [0x83, 0x86, 0x44, 7, b'/']);
        assert!(first.windows(16).any(|window| window == b"application/grpc"));
        let block = [0x83, 0x86, 65, 64, 63, 62].map(|at: u8| at | 0x80);
        let data = b"\0\0\0\0\x02xy";
        let expected = frames(&[(HEADERS, END_HEADERS, 3, &block), (DATA, END_STREAM, 3, data)]);
        assert_eq!(request("/kv/Put"), expected);
        // Another path gets its own entry, which shifts the others.
        assert_eq!(request("/kv/Range")[9..13], [0x83, 0x86, 0x44, 9]);
        assert_eq!(request("/kv/Put")[9..12], [0x83, 0x86, 0x80 | 66]);
    }

    #[test]
    fn message_of_an_answer_may_be_in_several_frames() {
        let mut calls = fresh();
        calls.request("/a/B", b"", &mut Vec::new());
        let bytes = frames(&[
            (SETTINGS, 0, 0, b""),
            (HEADERS, END_HEADERS, 1, b"x"),
            (DATA, 0, 1, b"\0\0\0\0\x03a"),
            (PING, 0, 0, b"12345678"),
            (DATA, 0, 1, b"bc"),
            (HEADERS, END_HEADERS | END_STREAM, 1, b"y"),
        ]);
        // Byte by byte, as they may arrive.
        let (mut begin, mut ended) = (0, false);
        for end in 0..=bytes.len() {
            let (used, is_end) = calls.read(&bytes[begin..end]).unwrap();
            begin += used;
            ended |= is_end;
        }
        assert_eq!((begin, ended, calls.message().unwrap()), (bytes.len(), true, &b"abc"[..]));
        assert_eq!(calls.due, frames(&[(SETTINGS, ACK, 0, b""), (PING, ACK, 0, b"12345678")]));
    }

    #[test]
    fn failed_calls_and_ended_connections_are_reported() {
        let mut calls = fresh();
        calls.request("/a/B", b"", &mut Vec::new());
        let ended = frames(&[(HEADERS, END_HEADERS | END_STREAM, 1, b"y")]);
        assert_eq!(calls.read(&ended).unwrap(), (ended.len(), true));
        assert!(calls.message().is_err());
        for refused in [(GOAWAY, 0, 0, &b""[..]), (RESET, 0, 1, b"\0\0\0\x08"), (DATA, PADDED, 1, b"\0")] {
            assert!(calls.read(&frames(&[refused])).is_err());
        }
        calls.message = b"\x01\0\0\0\0".to_vec();
        assert!(calls.message().is_err(), "compressed");
        calls.message = b"\0\0\0\0\x02a".to_vec();
        assert!(calls.message().is_err(), "cut off");
    }

    #[test]
    fn window_is_opened_again_when_half_of_it_is_used() {
        let mut calls = fresh();
        calls.open_window(limits::WINDOW_BYTES - 1);
        assert!(calls.due.is_empty());
        calls.open_window(2);
        assert_eq!(calls.due, frames(&[(WINDOW, 0, 0, &(limits::WINDOW_BYTES + 1).to_be_bytes())]));
    }
}
