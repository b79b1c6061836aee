//! The commands of Redis clients and their results: the input of the checker of Redis keyspaces.

use std::fmt;

use zerohop_base::time::Time;
use zerohop_wire::ids::KeyspaceId;

/// One command on a group's keys: a text, a counter and a list. Values have unique tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is a Redis command")]
pub enum RedisStep {
    Set(u64),
    /// A text of [`LONG_BYTES`].
    SetLong(u64),
    Append(u64),
    Get,
    GetDel,
    Incr,
    GetCounter,
    SetCounter(i64),
    Push(u64),
    /// `RPUSH` of [`MANY_VALUES`] values: this token and those after it.
    PushMany(u64),
    Range,
    DelList,
}

/// A key of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "their names say it")]
pub enum RedisKey {
    Text,
    Counter,
    List,
}

impl RedisKey {
    /// All keys of a group.
    pub const ALL: [RedisKey; 3] = [RedisKey::Text, RedisKey::Counter, RedisKey::List];
}

impl RedisStep {
    /// The key that it reads or writes.
    #[must_use]
    pub fn key(self) -> RedisKey {
        match self {
            Self::Set(_) | Self::SetLong(_) | Self::Append(_) | Self::Get | Self::GetDel => RedisKey::Text,
            Self::Incr | Self::GetCounter | Self::SetCounter(_) => RedisKey::Counter,
            Self::Push(_) | Self::PushMany(_) | Self::Range | Self::DelList => RedisKey::List,
        }
    }

    /// Whether it may change its key.
    #[must_use]
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::GetCounter | Self::Range)
    }

    /// The values that it writes, which are unique.
    #[must_use]
    pub fn values(self) -> Vec<Vec<u8>> {
        match self {
            Self::Set(token) | Self::Append(token) | Self::Push(token) => vec![token_bytes(token)],
            Self::PushMany(first) => many_tokens(first).map(token_bytes).collect(),
            Self::SetLong(token) => vec![long_bytes(token)],
            _ => Vec::new(),
        }
    }

    /// Whether its key exists after it, by its reply. `None`: the reply does not say so.
    #[must_use]
    pub fn leaves_key(self, reply: &StepReply) -> Option<bool> {
        match self {
            Self::GetDel | Self::DelList => Some(false),
            Self::Get | Self::GetCounter => Some(*reply != StepReply::Nil),
            Self::Range => match reply {
                StepReply::List(values) => Some(!values.is_empty()),
                _ => None,
            },
            _ => Some(true),
        }
    }

    /// Whether it removes its key.
    #[must_use]
    pub fn is_removal(self) -> bool {
        matches!(self, Self::GetDel | Self::DelList)
    }
}

/// The bytes of a token.
#[must_use]
pub fn token_bytes(token: u64) -> Vec<u8> {
    format!("<{token}>").into_bytes()
}

/// Values of a long `RPUSH`: the reply to `LRANGE` of a list with two of these is read in pages.
pub const MANY_VALUES: u64 = 2_500;

/// The tokens of a long `RPUSH`.
pub fn many_tokens(first: u64) -> std::ops::Range<u64> {
    first..first + MANY_VALUES
}

/// Bytes of a long text: a reply with [`REPEATS`] of them is read in pages.
pub const LONG_BYTES: usize = 2_200;

/// How often a long reply names the text.
pub const REPEATS: usize = 1_000;

/// A long text with a token.
#[must_use]
pub fn long_bytes(token: u64) -> Vec<u8> {
    let mut bytes = format!("<{token}").into_bytes();
    bytes.resize(LONG_BYTES - 1, b'.');
    bytes.push(b'>');
    bytes
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisCommand {
    /// A command that the connection answers itself, with this token.
    Ping(u64),
    /// A command on one key.
    One(RedisStep),
    /// `MULTI`, these commands and `EXEC`.
    Transaction(Vec<RedisStep>),
    /// `WATCH` of the text, and then the same.
    Watched(Vec<RedisStep>),
    /// `MGET` or `MSET` of the text and the counter, with the steps that it is equal to.
    Many([RedisStep; 2]),
    /// `MGET` of the text, [`REPEATS`] times: all replies show one moment.
    Repeated,
    /// `DEL` of all keys.
    DelAll,
    /// Waits at most so long until the text is this token.
    Wait {
        /// The token.
        token: u64,
        /// Milliseconds.
        ms: u64,
    },
    /// A command over all keys of the keyspace.
    Listing(KeyspaceListing),
}

/// A command over all keys of a keyspace. Its pattern matches the keys of one kind, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyspaceListing {
    /// `KEYS`.
    Keys(Option<RedisKey>),
    /// `DBSIZE`.
    Count,
    /// One page of a traversal with `SCAN`.
    Page {
        /// The number of the traversal among those of its client.
        traversal: u64,
        /// Where the page begins; 0: with the first key.
        cursor: u64,
        /// So many keys are looked at, about.
        count: u64,
        /// The keys that match.
        of: Option<RedisKey>,
    },
}

impl RedisCommand {
    /// Its commands on keys.
    #[must_use]
    pub fn steps(&self) -> &[RedisStep] {
        match self {
            Self::One(step) => std::slice::from_ref(step),
            Self::Repeated => &[RedisStep::Get],
            Self::Transaction(steps) | Self::Watched(steps) => steps,
            Self::Many(steps) => steps,
            Self::Ping(_) | Self::DelAll | Self::Wait { .. } | Self::Listing(_) => &[],
        }
    }

    /// Whether it may change a key.
    #[must_use]
    pub fn is_write(&self) -> bool {
        *self == Self::DelAll || self.steps().iter().any(|step| step.is_write())
    }
}

/// The reply to a command on a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StepReply {
    /// `+OK`.
    Ok,
    /// No such key.
    Nil,
    /// A number, or the cursor of the next page.
    Number(i64),
    /// A text.
    Bytes(Vec<u8>),
    /// The values of a list, or keys.
    List(Vec<Vec<u8>>),
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisEnd {
    /// It is in progress.
    Open,
    /// Replies, one for each of its commands on keys; of a wait: one number.
    Done(Vec<StepReply>),
    /// `EXEC` did nothing, because the watched text had changed.
    Aborted,
    /// `WATCH` was refused, and `EXEC` has run without it, with these replies.
    Unwatched(Vec<StepReply>),
    /// An error that says that nothing was done.
    NotDone(String),
    /// An error that says that it may have been done, or its connection was lost.
    Unknown,
}

/// A command of a Redis client, from the time it was sent to its reply.
#[derive(Clone, Debug)]
pub struct RedisCall {
    /// The client.
    pub client: usize,
    /// The number of its connection among all.
    pub connection: u64,
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The group of its keys.
    pub group: usize,
    /// The command.
    pub command: RedisCommand,
    /// When it was sent.
    pub invoked: Time,
    /// When the reply to its `WATCH` arrived.
    pub watched: Option<Time>,
    /// When its last reply, or the end of its connection, arrived.
    pub returned: Option<Time>,
    /// The end.
    pub end: RedisEnd,
}

impl fmt::Display for RedisCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = self.returned.map_or(u64::MAX, |at| at.0);
        write!(f, "r{}/{} [{} .. {until}] ", self.client, self.connection, self.invoked.0)?;
        let text = format!("{:?}: {:?}", self.command, RedisEndText(&self.end));
        write!(f, "{text:.400}")
    }
}

/// An end with its bytes as text.
struct RedisEndText<'e>(&'e RedisEnd);

impl fmt::Debug for RedisEndText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (RedisEnd::Done(replies) | RedisEnd::Unwatched(replies)) = self.0 else {
            return write!(f, "{:?}", self.0);
        };
        for reply in replies {
            match reply {
                StepReply::Bytes(bytes) => write!(f, " {:?}", String::from_utf8_lossy(bytes))?,
                StepReply::List(values) => {
                    let tail = &values[values.len().saturating_sub(6)..];
                    write!(f, " {} values ..{}", values.len(), String::from_utf8_lossy(&tail.concat()))?;
                }
                other => write!(f, " {other:?}")?,
            }
        }
        Ok(())
    }
}
