//! The meta protocol of memcached: `ms`, `mg`, `md`, pipelined, answered in order.
//!
//! Not `set`, `get`, `delete`, because memcached sends each answer to a `get` separately, but
//! batches the answers to `mg`.

use bench_common::failure::Failure;
use bench_common::protocol::{Answer, AnswerContent, Op, Protocol, Request, line, number};

/// A connection to `memcached`.
#[derive(Default)]
pub(crate) struct Memcached {
    /// Answered requests of this turn.
    answered: usize,
}

impl Protocol for Memcached {
    fn begin_turn(&mut self) {
        self.answered = 0;
    }

    fn request(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        const { assert!(bench_common::workload::VALUE_BYTES == 132) };
        out.extend_from_slice(match request.op {
            Op::Insert => b"ms ",
            Op::Lookup => b"mg ",
            Op::Remove => b"md ",
        });
        out.extend_from_slice(request.key);
        match request.op {
            Op::Insert => {
                out.extend_from_slice(b" 132\r\n");
                out.extend_from_slice(request.value);
                out.extend_from_slice(b"\r\n");
            }
            Op::Lookup => out.extend_from_slice(b" v\r\n"),
            Op::Remove => out.extend_from_slice(b"\r\n"),
        }
        Ok(())
    }

    fn answer<'b>(&'b mut self, _op: Op, bytes: &'b [u8]) -> Result<Answer<'b>, Failure> {
        let Some((first, rest)) = line(bytes) else { return Ok(Answer::Unfinished) };
        let (content, rest) = match first {
            b"HD" => (AnswerContent::Done, rest),
            b"EN" | b"NF" => (AnswerContent::Absent, rest),
            [b'V', b'A', b' ', length @ ..] => {
                let length =
                    number(length).ok_or_else(|| Failure::Protocol("a length that is none".into()))?;
                match rest.get(length..length + 2) {
                    None => return Ok(Answer::Unfinished),
                    Some(b"\r\n") => (AnswerContent::Value(&rest[..length]), &rest[length + 2..]),
                    Some(_) => return Err(Failure::Protocol("a value without its end".into())),
                }
            }
            other => (AnswerContent::Other(String::from_utf8_lossy(other).into_owned()), rest),
        };
        let slot = self.answered;
        self.answered += 1;
        Ok(Answer::Whole { used: bytes.len() - rest.len(), slot, content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_common::protocol::testing::{bytes, reads};

    #[test]
    fn requests_match_memcached_documentation() {
        let (set, key, value) = bytes(&mut Memcached::default(), Op::Insert);
        assert_eq!(set, [b"ms ", &key[..], b" 132\r\n", &value, b"\r\n"].concat());
        let (get, key, _) = bytes(&mut Memcached::default(), Op::Lookup);
        assert_eq!(get, [b"mg ", &key[..], b" v\r\n"].concat());
        let (delete, key, _) = bytes(&mut Memcached::default(), Op::Remove);
        assert_eq!(delete, [b"md ", &key[..], b"\r\n"].concat());
    }

    #[test]
    fn answer_kinds_are_distinguished() {
        reads(Memcached::default, Op::Insert, b"HD\r\n", AnswerContent::Done);
        reads(Memcached::default, Op::Lookup, b"VA 4\r\na\r\nb\r\n", AnswerContent::Value(b"a\r\nb"));
        reads(Memcached::default, Op::Lookup, b"EN\r\n", AnswerContent::Absent);
        reads(Memcached::default, Op::Remove, b"HD\r\n", AnswerContent::Done);
        reads(Memcached::default, Op::Remove, b"NF\r\n", AnswerContent::Absent);
        reads(
            Memcached::default,
            Op::Insert,
            b"SERVER_ERROR x\r\n",
            AnswerContent::Other("SERVER_ERROR x".into()),
        );
        assert!(Memcached::default().answer(Op::Lookup, b"VA 1\r\nabcdefghij").is_err());
    }
}
