//! The text protocol of memcached: `set`, `get`, `delete`, pipelined, answered in their order.

use super::{Answer, Op, Protocol, Request, Said, line, number};
use crate::failure::Failure;

/// A connection to `memcached`.
#[derive(Default)]
pub(crate) struct Memcached {
    /// Requests of this turn that are answered.
    answered: usize,
}

impl Protocol for Memcached {
    fn begin_turn(&mut self) {
        self.answered = 0;
    }

    fn request(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        const { assert!(crate::workload::VALUE_BYTES == 132) };
        out.extend_from_slice(match request.op {
            Op::Insert => b"set ".as_slice(),
            Op::Lookup => b"get ",
            Op::Remove => b"delete ",
        });
        out.extend_from_slice(request.key);
        if request.op == Op::Insert {
            out.extend_from_slice(b" 0 0 132\r\n");
            out.extend_from_slice(request.value);
        }
        out.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn answer<'b>(&'b mut self, _op: Op, bytes: &'b [u8]) -> Result<Answer<'b>, Failure> {
        let Some((first, rest)) = line(bytes) else { return Ok(Answer::Unfinished) };
        let (said, rest) = match first {
            b"STORED" | b"DELETED" => (Said::Done, rest),
            b"END" | b"NOT_FOUND" => (Said::Absent, rest),
            [b'V', b'A', b'L', b'U', b'E', b' ', fields @ ..] => {
                // Key, flags, length.
                let length = fields.split(|byte| *byte == b' ').nth(2).and_then(number);
                let length = length.ok_or_else(|| Failure::Protocol("a length that is none".into()))?;
                const END: &[u8] = b"\r\nEND\r\n";
                let Some(end) = rest.get(length..length + END.len()) else { return Ok(Answer::Unfinished) };
                if end != END {
                    return Err(Failure::Protocol("a value without its END".into()));
                }
                (Said::Value(&rest[..length]), &rest[length + END.len()..])
            }
            other => (Said::Other(String::from_utf8_lossy(other).into_owned()), rest),
        };
        let slot = self.answered;
        self.answered += 1;
        Ok(Answer::Whole { used: bytes.len() - rest.len(), slot, said })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bytes, reads};
    use super::*;

    #[test]
    fn requests_are_those_that_memcached_documents() {
        let (set, key, value) = bytes(&mut Memcached::default(), Op::Insert);
        assert_eq!(set, [b"set ", &key[..], b" 0 0 132\r\n", &value, b"\r\n"].concat());
        let (get, key, _) = bytes(&mut Memcached::default(), Op::Lookup);
        assert_eq!(get, [b"get ", &key[..], b"\r\n"].concat());
        let (delete, key, _) = bytes(&mut Memcached::default(), Op::Remove);
        assert_eq!(delete, [b"delete ", &key[..], b"\r\n"].concat());
    }

    #[test]
    fn answers_are_told_apart() {
        reads(Memcached::default, Op::Insert, b"STORED\r\n", Said::Done);
        reads(Memcached::default, Op::Lookup, b"VALUE k 0 4\r\na\r\nb\r\nEND\r\n", Said::Value(b"a\r\nb"));
        reads(Memcached::default, Op::Lookup, b"END\r\n", Said::Absent);
        reads(Memcached::default, Op::Remove, b"DELETED\r\n", Said::Done);
        reads(Memcached::default, Op::Remove, b"NOT_FOUND\r\n", Said::Absent);
        reads(Memcached::default, Op::Insert, b"SERVER_ERROR x\r\n", Said::Other("SERVER_ERROR x".into()));
        assert!(Memcached::default().answer(Op::Lookup, b"VALUE k 0 1\r\nabcdefghij").is_err());
    }
}
