//! The writer of replies, straight into an output buffer.

use zerohop_wire::Failure;
use zerohop_wire::ids::KeyspaceId;

use crate::number::Digits;

/// The error of a connection whose keyspace was dropped. It names none: the name was dropped too.
pub(crate) const KEYSPACE_DROPPED: &str = "ERR the keyspace of this connection was dropped: choose another one with ZH.KEYSPACE NAME, or create it again and \
                                            choose it again";

/// The error before any keyspace is known: at the first start of a cluster, an instance listens before the first keyspace is created.
pub(crate) const NO_KEYSPACE_YET: &str = "TRYAGAIN the node is starting: it knows of no keyspace yet";

/// The version of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The initial version of every client.
    #[default]
    Resp2,
    /// After `HELLO 3`.
    Resp3,
}

/// Writes replies in the client's protocol version.
#[derive(Debug)]
pub struct ReplyWriter<'a> {
    out: &'a mut Vec<u8>,
    protocol: Protocol,
}

impl<'a> ReplyWriter<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> ReplyWriter<'a> {
        ReplyWriter { out, protocol }
    }

    /// The version that it writes.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Bytes in the buffer.
    #[must_use]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether the buffer is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Truncates the buffer to this length.
    pub fn truncate(&mut self, length: usize) {
        self.out.truncate(length);
    }

    /// `+text`: one line without line ends.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// `-text`; line ends in it become spaces.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', text.as_bytes());
    }

    /// `-` and the error text of a failure.
    pub fn failure(&mut self, failure: &Failure<'_>) {
        let word = match failure {
            Failure::DiskFull | Failure::FileSizeLimit { .. } | Failure::MemoryFull => "OOM",
            Failure::DiskFailed | Failure::DataCorrupt => "MISCONF",
            Failure::Unauthorized | Failure::AuthRequired | Failure::AuthFailed { .. } => "NOAUTH",
            // A client knows the keyspace of its connection by its name, not by the number in the failure.
            Failure::Forbidden { permission, keyspace } if *keyspace != KeyspaceId::NONE => {
                return self.error(&format!(
                    "NOPERM the token does not permit this: it needs `{permission}` in the keyspace of this connection; ask the cluster's \
                     administrator for one that has it"
                ));
            }
            Failure::Forbidden { .. } => "NOPERM",
            Failure::UnknownKeyspace { .. } => return self.error(KEYSPACE_DROPPED),
            Failure::WrongType { .. } => "WRONGTYPE",
            Failure::Busy { .. } | Failure::Unavailable { .. } => "TRYAGAIN",
            Failure::TooFewInSync { .. } => "NOREPLICAS",
            Failure::WrongOwner { .. } => "CLUSTERDOWN",
            // Commands have no sequence numbers, so a repeat is not safe.
            Failure::TimedOut { .. } => {
                return self.error(
                    "ERR outcome unknown: the node has failed or is cut off, or the partition was split or moved. Check before you repeat \
                     the command",
                );
            }
            _ => "ERR",
        };
        self.error(&format!("{word} {failure}"));
    }

    /// A number.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        self.head(b':', number);
    }

    /// A number with its digits.
    #[inline]
    pub(crate) fn digits(&mut self, digits: &Digits) {
        self.out.push(b':');
        self.out.extend_from_slice(digits.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// A count as a number.
    pub fn count(&mut self, number: u64) {
        self.integer(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// Bytes of any kind.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.out.reserve(bytes.len() + 32);
        self.bulk_head(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
        self.bulk_end();
    }

    /// The head of a bulk of this length; its bytes ([`ReplyWriter::body`]) and
    /// [`ReplyWriter::bulk_end`] follow.
    #[inline]
    pub(crate) fn bulk_head(&mut self, length: u64) {
        self.head(b'$', length as i64);
    }

    #[inline]
    pub(crate) fn bulk_end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }

    /// The buffer itself, for bytes of a bulk.
    pub(crate) fn body(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Null: `$-1`, or `_`.
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// A null array: `*-1`, or `_`.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// The head of an array; so many replies follow.
    #[inline]
    pub fn array(&mut self, items: usize) {
        self.head(b'*', items as i64);
    }

    /// The head of a map; so many pairs of key and value follow. In RESP2 an array of twice as
    /// many.
    pub fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(2 * pairs),
            Protocol::Resp3 => self.head(b'%', pairs as i64),
        }
    }

    /// The head of a set; so many replies follow. An array in RESP2.
    pub fn set(&mut self, items: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(items),
            Protocol::Resp3 => self.head(b'~', items as i64),
        }
    }

    /// Text for humans; a bulk in RESP2.
    pub fn verbatim(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.head(b'=', text.len() as i64 + 4);
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text.as_bytes());
                self.bulk_end();
            }
        }
    }

    #[inline]
    fn head(&mut self, mark: u8, number: i64) {
        // Most lengths and many numbers have one digit or two.
        let digit = |number: i64| b'0' + number as u8;
        match number {
            0..=9 => self.out.extend_from_slice(&[mark, digit(number), b'\r', b'\n']),
            10..=99 => {
                let digits = [digit(number / 10), digit(number % 10)];
                self.out.extend_from_slice(&[mark, digits[0], digits[1], b'\r', b'\n']);
            }
            _ => {
                self.out.push(mark);
                self.out.extend_from_slice(Digits::of(number).as_bytes());
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    fn line(&mut self, mark: u8, text: &[u8]) {
        self.out.push(mark);
        self.out.extend(text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::Permission;

    use super::*;

    #[test]
    fn failures_name_no_number_of_a_keyspace() {
        let of = |failure: Failure<'_>| {
            let mut out = Vec::new();
            ReplyWriter::new(&mut out, Protocol::default()).failure(&failure);
            String::from_utf8(out).unwrap()
        };
        let gone = of(Failure::UnknownKeyspace { keyspace: KeyspaceId(65_537) });
        assert!(
            gone.starts_with("-ERR the keyspace of this connection was dropped: ") && !gone.contains("65537"),
            "{gone}"
        );
        let lacks = |keyspace| of(Failure::Forbidden { permission: Permission::Write, keyspace });
        let here = lacks(KeyspaceId(65_537));
        assert!(
            here.starts_with("-NOPERM ") && here.contains("needs `write` in the keyspace of this"),
            "{here}"
        );
        assert!(!here.contains("65537") && lacks(KeyspaceId::NONE).contains("in all keyspaces"), "{here}");
    }
}
