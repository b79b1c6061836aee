//! The Redis protocol (RESP 2): commands of any length, and answers with lists in them.

use bench_common::failure::Failure;
use bench_common::protocol::{line, number};

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RedisReply<'b> {
    /// A line, such as `OK`.
    Line(&'b [u8]),
    Number(i64),
    Bytes(&'b [u8]),
    Absent,
    List(Vec<RedisReply<'b>>),
    /// The command was refused.
    Error(&'b [u8]),
}

/// Most elements of an answer: more than any scan has.
const LIST_MAX: usize = 1 << 16;

/// Appends a command.
pub(crate) fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// The first answer and the bytes behind it; `None` if it is not complete.
///
/// # Errors The bytes are no answer.
pub(crate) fn reply(bytes: &[u8]) -> Result<Option<(RedisReply<'_>, &[u8])>, Failure> {
    let broken = || Failure::Protocol("an answer that is none".into());
    let Some((first, rest)) = line(bytes) else { return Ok(None) };
    let (kind, text) = first.split_first().ok_or_else(broken)?;
    let found = match (kind, text) {
        (b'+', _) => RedisReply::Line(text),
        (b'-', _) => RedisReply::Error(text),
        (b'$' | b'*', b"-1") => RedisReply::Absent,
        (b':', _) => {
            let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            RedisReply::Number(parsed.ok_or_else(broken)?)
        }
        (b'$', _) => {
            let length = number(text).ok_or_else(broken)?;
            let end = length.checked_add(2).ok_or_else(broken)?;
            let Some((value, rest)) = rest.split_at_checked(end) else { return Ok(None) };
            let value = value.strip_suffix(b"\r\n").ok_or_else(broken)?;
            return Ok(Some((RedisReply::Bytes(value), rest)));
        }
        (b'*', _) => {
            let count = number(text).filter(|count| *count <= LIST_MAX).ok_or_else(broken)?;
            let (mut list, mut rest) = (Vec::new(), rest);
            for _ in 0..count {
                let Some((element, behind)) = reply(rest)? else { return Ok(None) };
                list.push(element);
                rest = behind;
            }
            return Ok(Some((RedisReply::List(list), rest)));
        }
        _ => return Err(broken()),
    };
    Ok(Some((found, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_lists_of_bytes() {
        let mut out = Vec::new();
        command(&mut out, &[b"SET", b"k", b"a\r\nb"]);
        command(&mut out, &[b"GET", b""]);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n");
    }

    #[test]
    fn answers_are_read_once_they_are_complete() {
        let list =
            RedisReply::List(vec![RedisReply::Bytes(b"a\r\n"), RedisReply::Absent, RedisReply::Number(-3)]);
        let all: [(&[u8], RedisReply<'_>); 7] = [
            (b"+OK\r\n", RedisReply::Line(b"OK")),
            (b"-ERR no\r\n", RedisReply::Error(b"ERR no")),
            (b":1\r\n", RedisReply::Number(1)),
            (b"$3\r\na\nb\r\n", RedisReply::Bytes(b"a\nb")),
            (b"$-1\r\n", RedisReply::Absent),
            (b"*0\r\n", RedisReply::List(Vec::new())),
            (b"*3\r\n$3\r\na\r\n\r\n$-1\r\n:-3\r\n", list),
        ];
        for (bytes, expected) in all {
            let two = [bytes, b"+"].concat();
            assert_eq!(reply(&two).unwrap(), Some((expected, &b"+"[..])));
            for end in 0..bytes.len() {
                assert_eq!(reply(&bytes[..end]).unwrap(), None, "{}", bytes[..end].escape_ascii());
            }
        }
    }

    #[test]
    fn bytes_that_are_no_answer_are_refused() {
        for bytes in
            [&b"\r\n"[..], b"?\r\n", b":x\r\n", b"$2\r\nabcd", b"$x\r\n", b"*-2\r\n", b"*9999999\r\n"]
        {
            assert!(reply(bytes).is_err(), "{}", bytes.escape_ascii());
        }
    }
}
