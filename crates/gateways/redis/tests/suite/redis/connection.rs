//! A client that sends the protocol's bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::support::give_up::GIVE_UP_AFTER;
use zerohop_server::Server;

/// The addresses of its instances.
pub(crate) fn addresses(server: &Server) -> Vec<SocketAddr> {
    server.instances().iter().map(|(_, address)| *address).collect()
}

/// One connection.
pub(crate) struct Redis {
    pub(crate) stream: TcpStream,
    received: Vec<u8>,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Simple(String),
    Error(String),
    Number(i64),
    Bulk(Option<Vec<u8>>),
    Array(Option<Vec<Reply>>),
}

pub(crate) fn ok() -> Reply {
    Reply::Simple("OK".to_owned())
}

/// A command as an array of bulks.
pub(crate) fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

impl Redis {
    pub(crate) fn connect(address: SocketAddr) -> Redis {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(GIVE_UP_AFTER)).unwrap();
        stream.set_write_timeout(Some(GIVE_UP_AFTER)).unwrap();
        Redis { stream, received: Vec::new() }
    }

    pub(crate) fn send(&mut self, words: &str) {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        self.stream.write_all(&command(&words)).unwrap();
    }

    pub(crate) fn send_command(&mut self, words: &str) -> Reply {
        self.send(words);
        self.reply()
    }

    pub(crate) fn reply(&mut self) -> Reply {
        self.try_reply().expect("the connection has ended")
    }

    /// `None`: the connection has ended.
    pub(crate) fn try_reply(&mut self) -> Option<Reply> {
        loop {
            if let Some((reply, used)) = parse(&self.received) {
                self.received.drain(..used);
                return Some(reply);
            }
            let mut chunk = [0; 64 << 10];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(bytes) => self.received.extend_from_slice(&chunk[..bytes]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no reply: {error}"),
            }
        }
    }
}

fn parse(bytes: &[u8]) -> Option<(Reply, usize)> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let text = String::from_utf8_lossy(&bytes[1..end]).into_owned();
    let mut used = end + 2;
    let length = |text: &str| text.parse::<i64>().unwrap();
    let reply = match bytes[0] {
        b'+' => Reply::Simple(text),
        b'-' => Reply::Error(text),
        b':' => Reply::Number(length(&text)),
        b'$' if length(&text) < 0 => Reply::Bulk(None),
        b'$' => {
            let to = used + length(&text) as usize;
            let bulk = bytes.get(used..to + 2)?[..to - used].to_vec();
            used = to + 2;
            Reply::Bulk(Some(bulk))
        }
        b'*' if length(&text) < 0 => Reply::Array(None),
        b'*' => {
            let mut items = Vec::new();
            for _ in 0..length(&text) {
                let (item, more) = parse(&bytes[used..])?;
                items.push(item);
                used += more;
            }
            Reply::Array(Some(items))
        }
        other => panic!("no reply begins with {other}"),
    };
    Some((reply, used))
}
