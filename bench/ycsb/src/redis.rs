//! Redis: `redis-server` with its log of commands, and a connection for each operation under way.
//!
//! Redis has no ordered keys. For scans the keys are also members of a sorted set, as in the Redis binding of YCSB: an insert adds a member, and a scan
//! reads members by their order and then their values. Only the store of workload E has that set.

use std::net::SocketAddr;

use bench_common::failure::Failure;
use bench_common::process::{self, Server};
use bench_common::servers::Place;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use zerohop_ycsb::{ScannedRecords, YcsbStore};

use crate::limits;
use crate::modes::Mode;
use crate::resp::{RedisReply, command, reply};

/// The sorted set of all keys.
const INDEX: &[u8] = b"ycsb-index";

/// A connection.
pub(crate) struct RedisStore {
    stream: TcpStream,
    /// Commands to send.
    out: Vec<u8>,
    received: Vec<u8>,
    has_index: bool,
}

/// Starts a server. It may not listen yet.
pub(crate) fn start(place: &Place, mode: Mode) -> Result<(Server, SocketAddr), Failure> {
    let program = process::installed("redis-server", crate::INSTALL).map_err(Failure::Usage)?;
    let port = process::free_ports(1)?;
    let flush = match mode {
        Mode::Interval => "everysec",
        Mode::Sync => "always",
    };
    let line = format!("--bind 127.0.0.1 --port {port} --appendonly yes --appendfsync {flush} --dir");
    let mut arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
    arguments.extend([place.dir.display().to_string(), "--save".to_owned(), String::new()]);
    Ok((place.start(&program, &arguments)?, SocketAddr::from(([127, 0, 0, 1], port))))
}

impl RedisStore {
    /// Connects. With an index, inserts maintain the sorted set of keys.
    pub(crate) async fn connect(address: SocketAddr, has_index: bool) -> Result<RedisStore, Failure> {
        let connecting = || Failure::while_doing(format!("connecting to {address}"));
        let stream = TcpStream::connect(address).await.map_err(connecting())?;
        stream.set_nodelay(true).map_err(connecting())?;
        Ok(RedisStore { stream, out: Vec::new(), received: Vec::new(), has_index })
    }

    /// Sends the commands, and reads so many answers.
    async fn answers<T>(
        &mut self,
        count: usize,
        read: impl FnOnce(&[RedisReply<'_>]) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.stream.write_all(&self.out).await.map_err(Failure::while_doing("sending commands"))?;
        self.out.clear();
        loop {
            if let Some((replies, used)) = replies(&self.received, count)? {
                let result = read(&replies);
                drop(replies);
                self.received.drain(..used);
                return result;
            }
            self.received.reserve(limits::RECEIVE_BYTES);
            let reading = Failure::while_doing("receiving answers");
            if self.stream.read_buf(&mut self.received).await.map_err(reading)? == 0 {
                return Err(Failure::Protocol("nothing: it closed the connection".into()));
            }
        }
    }

    async fn set(&mut self, key: &str, value: &[u8], is_new: bool) -> Result<(), Failure> {
        command(&mut self.out, &[b"SET", key.as_bytes(), value]);
        if !is_new || !self.has_index {
            return self.answers(1, |replies| expect(replies, &[RedisReply::Line(b"OK")])).await;
        }
        // Behind the value, so that a member of the set always has one.
        command(&mut self.out, &[b"ZADD", INDEX, b"0", key.as_bytes()]);
        self.answers(2, |replies| expect(replies, &[RedisReply::Line(b"OK"), RedisReply::Number(1)])).await
    }
}

impl YcsbStore for RedisStore {
    type Value = Vec<u8>;
    type Error = Failure;

    async fn insert(&mut self, key: &str, value: &[u8]) -> Result<(), Failure> {
        self.set(key, value, true).await
    }

    async fn read(&mut self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        command(&mut self.out, &[b"GET", key.as_bytes()]);
        self.answers(1, |replies| match replies {
            [one] => bytes(one),
            _ => Err(unexpected(replies)),
        })
        .await
    }

    async fn update(&mut self, key: &str, value: &[u8]) -> Result<(), Failure> {
        self.set(key, value, false).await
    }

    async fn scan(&mut self, from: &str, end: &str, count: u64) -> Result<ScannedRecords<Vec<u8>>, Failure> {
        let (from, end) = (format!("[{from}"), format!("({end}"));
        let limit = count.to_string();
        let words: [&[u8]; 7] =
            [b"ZRANGEBYLEX", INDEX, from.as_bytes(), end.as_bytes(), b"LIMIT", b"0", limit.as_bytes()];
        command(&mut self.out, &words);
        let keys = self.answers(1, values).await?;
        let keys: Vec<Vec<u8>> = keys.into_iter().flatten().collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let words: Vec<&[u8]> = std::iter::once(&b"MGET"[..]).chain(keys.iter().map(Vec::as_slice)).collect();
        command(&mut self.out, &words);
        let values = self.answers(1, values).await?;
        if values.len() != keys.len() {
            return Err(Failure::Protocol(format!("{} values of {} keys", values.len(), keys.len())));
        }
        Ok(keys.into_iter().zip(values).collect())
    }

    async fn remove(&mut self, key: &str) -> Result<(), Failure> {
        command(&mut self.out, &[b"ZREM", INDEX, key.as_bytes()]);
        command(&mut self.out, &[b"DEL", key.as_bytes()]);
        self.answers(2, |replies| match replies {
            [RedisReply::Number(_), RedisReply::Number(_)] => Ok(()),
            _ => Err(unexpected(replies)),
        })
        .await
    }
}

/// So many answers, and the bytes that they have; `None` if they are not complete.
fn replies(received: &[u8], count: usize) -> Result<Option<(Vec<RedisReply<'_>>, usize)>, Failure> {
    let (mut replies, mut rest) = (Vec::with_capacity(count), received);
    while replies.len() < count {
        let Some((one, behind)) = reply(rest)? else { return Ok(None) };
        replies.push(one);
        rest = behind;
    }
    Ok(Some((replies, received.len() - rest.len())))
}

fn expect(replies: &[RedisReply<'_>], expected: &[RedisReply<'_>]) -> Result<(), Failure> {
    if replies == expected { Ok(()) } else { Err(unexpected(replies)) }
}

fn bytes(reply: &RedisReply<'_>) -> Result<Option<Vec<u8>>, Failure> {
    match reply {
        RedisReply::Bytes(bytes) => Ok(Some(bytes.to_vec())),
        RedisReply::Absent => Ok(None),
        other => Err(unexpected(std::slice::from_ref(other))),
    }
}

/// The elements of a list.
fn values(replies: &[RedisReply<'_>]) -> Result<Vec<Option<Vec<u8>>>, Failure> {
    match replies {
        [RedisReply::List(list)] => list.iter().map(bytes).collect(),
        _ => Err(unexpected(replies)),
    }
}

fn unexpected(replies: &[RedisReply<'_>]) -> Failure {
    let text = |reply: &RedisReply<'_>| match reply {
        RedisReply::Line(text) | RedisReply::Error(text) => text.escape_ascii().to_string(),
        other => format!("{other:?}"),
    };
    Failure::Protocol(replies.iter().map(text).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_and_their_bytes_too() {
        let (found, used) = replies(b"+OK\r\n:1\r\n+", 2).unwrap().unwrap();
        assert_eq!(
            (expect(&found, &[RedisReply::Line(b"OK"), RedisReply::Number(1)]).is_ok(), used),
            (true, 9)
        );
        assert!(replies(b"+OK\r\n:1\r", 2).unwrap().is_none());
    }

    #[test]
    fn values_may_be_absent_and_refusals_are_shown() {
        let list = RedisReply::List(vec![RedisReply::Bytes(b"a"), RedisReply::Absent]);
        assert_eq!(values(&[list]).unwrap(), [Some(b"a".to_vec()), None]);
        let refused = [RedisReply::Error(b"OOM no room")];
        assert!(values(&refused).unwrap_err().to_string().contains("OOM no room"));
        assert!(expect(&refused, &[RedisReply::Line(b"OK")]).is_err());
    }
}
