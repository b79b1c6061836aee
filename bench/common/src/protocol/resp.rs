//! The Redis protocol (RESP 2): `SET`, `GET`, `DEL`, pipelined, answered in their order.

use super::{Answer, AnswerContent, Op, Protocol, Request, line, number};
use crate::failure::Failure;

/// A connection to `redis-server`.
#[derive(Default)]
pub struct Resp {
    /// Answered requests of this turn.
    answered: usize,
}

impl Protocol for Resp {
    fn begin_turn(&mut self) {
        self.answered = 0;
    }

    fn request(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        // The lengths of `workload` are literals here: formatting numbers would cost more than all
        // else.
        const { assert!(crate::workload::KEY_BYTES == 15 && crate::workload::VALUE_BYTES == 132) };
        out.extend_from_slice(match request.op {
            Op::Insert => b"*3\r\n$3\r\nSET\r\n$15\r\n".as_slice(),
            Op::Lookup => b"*2\r\n$3\r\nGET\r\n$15\r\n",
            Op::Remove => b"*2\r\n$3\r\nDEL\r\n$15\r\n",
        });
        out.extend_from_slice(request.key);
        if request.op == Op::Insert {
            out.extend_from_slice(b"\r\n$132\r\n");
            out.extend_from_slice(request.value);
        }
        out.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn answer<'b>(&'b mut self, _op: Op, bytes: &'b [u8]) -> Result<Answer<'b>, Failure> {
        let Some((first, rest)) = line(bytes) else { return Ok(Answer::Unfinished) };
        let (content, rest) = match first {
            b"+OK" | b":1" => (AnswerContent::Done, rest),
            b"$-1" | b":0" => (AnswerContent::Absent, rest),
            [b'$', length @ ..] => {
                let length =
                    number(length).ok_or_else(|| Failure::Protocol("a length that is none".into()))?;
                if rest.len() < length + 2 {
                    return Ok(Answer::Unfinished);
                }
                (AnswerContent::Value(&rest[..length]), &rest[length + 2..])
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
    use super::super::testing::{bytes, reads};
    use super::*;

    #[test]
    fn requests_match_redis_documentation() {
        let (set, key, value) = bytes(&mut Resp::default(), Op::Insert);
        let expected = [b"*3\r\n$3\r\nSET\r\n$15\r\n", &key[..], b"\r\n$132\r\n", &value, b"\r\n"].concat();
        assert_eq!(set, expected);
        let (get, key, _) = bytes(&mut Resp::default(), Op::Lookup);
        assert_eq!(get, [b"*2\r\n$3\r\nGET\r\n$15\r\n", &key[..], b"\r\n"].concat());
        let (delete, key, _) = bytes(&mut Resp::default(), Op::Remove);
        assert_eq!(delete, [b"*2\r\n$3\r\nDEL\r\n$15\r\n", &key[..], b"\r\n"].concat());
    }

    #[test]
    fn answer_kinds_are_distinguished() {
        reads(Resp::default, Op::Insert, b"+OK\r\n", AnswerContent::Done);
        reads(Resp::default, Op::Lookup, b"$5\r\na\r\nb\n\r\n", AnswerContent::Value(b"a\r\nb\n"));
        reads(Resp::default, Op::Lookup, b"$-1\r\n", AnswerContent::Absent);
        reads(Resp::default, Op::Remove, b":1\r\n", AnswerContent::Done);
        reads(Resp::default, Op::Remove, b":0\r\n", AnswerContent::Absent);
        reads(Resp::default, Op::Insert, b"-OOM no room\r\n", AnswerContent::Other("-OOM no room".into()));
    }

    #[test]
    fn answers_match_requests_in_order() {
        let mut resp = Resp::default();
        let slot = |resp: &mut Resp| match resp.answer(Op::Insert, b"+OK\r\n").unwrap() {
            Answer::Whole { slot, .. } => slot,
            Answer::Unfinished => panic!("it is whole"),
        };
        assert_eq!([slot(&mut resp), slot(&mut resp)], [0, 1]);
        resp.begin_turn();
        assert_eq!(slot(&mut resp), 0);
    }
}
