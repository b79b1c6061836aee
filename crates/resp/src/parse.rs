//! The parser of commands: arrays of bulks, and inline commands.

use crate::args::ArgumentSpan;
use crate::limits::{
    ARGUMENTS_MAX, BULK_BYTES_MAX, COMMAND_BYTES_MAX, LINE_BYTES_MAX, SKIPPED_BULK_BYTES_MAX,
};
use crate::number::integer;

/// The result of parsing bytes that start at a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParseResult {
    /// A command; [`Parser::argument_ranges`] has its arguments, counted from its first byte.
    Command {
        /// Bytes that it occupies.
        used: usize,
    },
    /// An inline command; its arguments are in [`Parser::inline`].
    Inline {
        /// Bytes that it occupies.
        used: usize,
    },
    /// Nothing: an empty line or an empty array.
    Nothing {
        /// Bytes that it occupies.
        used: usize,
    },
    /// Bytes of a command that is too long, which are skipped; the command continues after them.
    Skipped {
        /// How many.
        used: usize,
    },
    /// The end of a command that is too long.
    Oversized {
        /// Bytes of it that were not skipped before.
        used: usize,
        /// Which part of it is too long.
        what: OversizedPart,
    },
    /// More bytes are needed. These bytes must be passed again, together with those that follow.
    More,
    /// This is no command; the connection closes after the error is sent.
    Broken(ProtocolError),
}

/// Which part of a command is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OversizedPart {
    /// The first argument that is too long, with its length.
    Argument(u64),
    /// The whole command.
    Command,
}

impl OversizedPart {
    pub(crate) fn text(self) -> String {
        match self {
            OversizedPart::Argument(length) => format!(
                "ERR an argument of {length} bytes, {BULK_BYTES_MAX} are allowed: keep large data in a blob (`zerohop blob put`, or the \
                 clients for Python and Rust); nothing was done"
            ),
            OversizedPart::Command => format!(
                "ERR a command of more than {COMMAND_BYTES_MAX} bytes, which is the limit: send several shorter ones; nothing was done"
            ),
        }
    }
}

/// What is wrong with bytes that are no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolError {
    ArrayLength,
    BulkLength,
    ExpectedBulk(u8),
    ArrayLine,
    BulkLine,
    InlineLine,
    Quotes,
    /// It is too long, and its client is not authenticated.
    Unauthenticated,
}

impl ProtocolError {
    pub(crate) fn text(self) -> String {
        let what = match self {
            ProtocolError::ArrayLength => "invalid multibulk length",
            ProtocolError::BulkLength => "invalid bulk length",
            ProtocolError::ExpectedBulk(found) => {
                let found = if found.is_ascii_graphic() || found == b' ' { found as char } else { '?' };
                return format!("ERR Protocol error: expected '$', got '{found}'");
            }
            ProtocolError::ArrayLine => "too big mbulk count string",
            ProtocolError::BulkLine => "too big bulk count string",
            ProtocolError::InlineLine => "too big inline request",
            ProtocolError::Quotes => "unbalanced quotes in request",
            ProtocolError::Unauthenticated => "unauthenticated bulk length",
        };
        format!("ERR Protocol error: {what}")
    }
}

/// A command that is skipped.
#[derive(Clone, Copy, Debug)]
struct Skip {
    /// Bytes of its current argument that are still to come, with the line end.
    left: u64,
    what: OversizedPart,
}

/// The parser. It continues where it stopped, so that a command in many pieces is scanned once. It
/// allocates nothing for bytes that have not arrived.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    /// Bytes of the command that are parsed.
    at: usize,
    /// Arguments that are still to come; `None` before the length of the array.
    missing: Option<u32>,
    /// The command is too long and is skipped.
    skip: Option<Skip>,
    /// The arguments of the last command, or of the current one so far.
    pub(crate) argument_ranges: Vec<ArgumentSpan>,
    /// The last inline command as an array of bulks, into which `spans` point.
    pub(crate) inline: Vec<u8>,
}

/// Capacity that is kept for the next command.
const RETAINED_RANGES: usize = 4096;

impl Parser {
    /// Parses bytes that start at a command.
    #[inline]
    pub(crate) fn parse(&mut self, bytes: &[u8]) -> ParseResult {
        if self.missing.is_none() {
            self.argument_ranges.clear();
            match bytes.first() {
                None => return ParseResult::More,
                Some(b'*') => {}
                Some(_) => return self.parse_inline(bytes),
            }
            let count = match length_line(bytes, 0) {
                Line::Number(count, end) => {
                    self.at = end;
                    count
                }
                Line::More => return ParseResult::More,
                Line::NoNumber => return self.broken(ProtocolError::ArrayLength),
                Line::TooLong => return self.broken(ProtocolError::ArrayLine),
            };
            match usize::try_from(count) {
                Ok(count) if count > ARGUMENTS_MAX => return self.broken(ProtocolError::ArrayLength),
                Ok(count) if count > 0 => self.missing = Some(count as u32),
                // Negative lengths are an empty command too, as in Redis.
                _ => return self.end(|used| ParseResult::Nothing { used }),
            }
        }
        if self.skip.is_some() {
            return self.skip(bytes);
        }
        while self.missing != Some(0) {
            match bytes.get(self.at) {
                None => return ParseResult::More,
                Some(b'$') => {}
                Some(&other) => return self.broken(ProtocolError::ExpectedBulk(other)),
            }
            let (length, from) = match length_line(bytes, self.at) {
                Line::Number(length, end) => (length, end),
                Line::More => return ParseResult::More,
                Line::NoNumber => return self.broken(ProtocolError::BulkLength),
                Line::TooLong => return self.broken(ProtocolError::BulkLine),
            };
            let length = match usize::try_from(length) {
                Ok(length) if length <= SKIPPED_BULK_BYTES_MAX => length,
                _ => return self.broken(ProtocolError::BulkLength),
            };
            let to = from + length;
            if length > BULK_BYTES_MAX || to + 2 > COMMAND_BYTES_MAX {
                let is_argument = length > BULK_BYTES_MAX;
                let what =
                    if is_argument { OversizedPart::Argument(length as u64) } else { OversizedPart::Command };
                self.skip = Some(Skip { left: length as u64 + 2, what });
                self.missing = self.missing.map(|missing| missing - 1);
                (self.at, self.argument_ranges) = (0, Vec::new());
                return ParseResult::Skipped { used: from };
            }
            if bytes.len() < to + 2 {
                return ParseResult::More;
            }
            // As in Redis, the two bytes after an argument are not checked.
            self.argument_ranges.push((from as u32, to as u32));
            self.at = to + 2;
            self.missing = self.missing.map(|missing| missing - 1);
        }
        self.end(|used| ParseResult::Command { used })
    }

    /// Skips the received bytes of a command that is too long.
    fn skip(&mut self, bytes: &[u8]) -> ParseResult {
        let Some(Skip { mut left, what }) = self.skip else { return ParseResult::More };
        let mut at = 0;
        loop {
            let passed = left.min((bytes.len() - at) as u64);
            (at, left) = (at + passed as usize, left - passed);
            self.skip = Some(Skip { left, what });
            if left > 0 {
                break;
            }
            if self.missing == Some(0) {
                (self.missing, self.skip) = (None, None);
                return ParseResult::Oversized { used: at, what };
            }
            match bytes.get(at) {
                None => break,
                Some(b'$') => {}
                Some(&other) => return self.broken(ProtocolError::ExpectedBulk(other)),
            }
            match length_line(bytes, at) {
                Line::Number(length, end) => match usize::try_from(length) {
                    Ok(length) if length <= SKIPPED_BULK_BYTES_MAX => {
                        (at, left) = (end, length as u64 + 2);
                        self.missing = self.missing.map(|missing| missing - 1);
                    }
                    _ => return self.broken(ProtocolError::BulkLength),
                },
                Line::More => break,
                Line::NoNumber => return self.broken(ProtocolError::BulkLength),
                Line::TooLong => return self.broken(ProtocolError::BulkLine),
            }
        }
        if at == 0 { ParseResult::More } else { ParseResult::Skipped { used: at } }
    }

    /// Resets the parser for other bytes.
    pub(crate) fn restart(&mut self) {
        (self.at, self.missing, self.skip) = (0, None, None);
    }

    /// Releases memory after a command of many arguments.
    pub(crate) fn shrink(&mut self) {
        if self.argument_ranges.capacity() > RETAINED_RANGES {
            self.argument_ranges = Vec::new();
        }
        if self.inline.capacity() > LINE_BYTES_MAX {
            self.inline = Vec::new();
        }
    }

    fn end(&mut self, parsed: impl FnOnce(usize) -> ParseResult) -> ParseResult {
        (self.missing, self.skip) = (None, None);
        parsed(std::mem::take(&mut self.at))
    }

    fn broken(&mut self, what: ProtocolError) -> ParseResult {
        self.end(|_| ParseResult::Broken(what))
    }

    fn parse_inline(&mut self, bytes: &[u8]) -> ParseResult {
        let Some(end) = find(bytes, b'\n', &mut self.at) else {
            return if bytes.len() > LINE_BYTES_MAX {
                self.broken(ProtocolError::InlineLine)
            } else {
                ParseResult::More
            };
        };
        self.at = end + 1;
        if end > LINE_BYTES_MAX {
            return self.broken(ProtocolError::InlineLine);
        }
        let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
        let Some(words) = crate::inline::split(line) else { return self.broken(ProtocolError::Quotes) };
        if words.is_empty() {
            return self.end(|used| ParseResult::Nothing { used });
        }
        self.inline.clear();
        push_command(&mut self.inline, &mut self.argument_ranges, words.iter().map(Vec::as_slice));
        self.end(|used| ParseResult::Inline { used })
    }
}

/// Appends a command as an array of bulks, and its argument spans.
pub(crate) fn push_command<'a>(
    into: &mut Vec<u8>,
    spans: &mut Vec<ArgumentSpan>,
    args: impl ExactSizeIterator<Item = &'a [u8]>,
) {
    use crate::{Protocol, ReplyWriter};
    let begin = into.len();
    ReplyWriter::new(into, Protocol::Resp2).array(args.len());
    for arg in args {
        ReplyWriter::new(into, Protocol::Resp2).bulk(arg);
        let to = into.len() - 2 - begin;
        spans.push(((to - arg.len()) as u32, to as u32));
    }
}

/// Searches a byte, from where the last search ended.
fn find(bytes: &[u8], what: u8, looked: &mut usize) -> Option<usize> {
    let from = (*looked).min(bytes.len());
    let found = bytes[from..].iter().position(|&byte| byte == what).map(|at| from + at);
    *looked = bytes.len();
    found
}

enum Line {
    /// A number, and the start of the next line.
    Number(i64, usize),
    More,
    NoNumber,
    TooLong,
}

/// The number in the line whose first byte, the type marker, is at `at`.
#[inline]
fn length_line(bytes: &[u8], at: usize) -> Line {
    let line = &bytes[at + 1..];
    // Fast path: nearly all lengths have one to five digits.
    if let Some((head, _)) = line.split_first_chunk::<7>() {
        let (mut number, mut digits) = (0, 0);
        while digits < 5 && head[digits].is_ascii_digit() {
            number = number * 10 + i64::from(head[digits] - b'0');
            digits += 1;
        }
        if digits > 0 && head[digits] == b'\r' && (head[0] != b'0' || digits == 1) {
            return Line::Number(number, at + 1 + digits + 2);
        }
    }
    // No number is longer than this, so the search ends here.
    let head = &line[..line.len().min(32)];
    let Some(end) = head.iter().position(|&byte| byte == b'\r') else {
        return match line.len() {
            length if length > LINE_BYTES_MAX => Line::TooLong,
            length if length > 32 && !line.contains(&b'\r') => Line::More,
            length if length > 32 => Line::NoNumber,
            _ => Line::More,
        };
    };
    if line.len() < end + 2 {
        return Line::More;
    }
    integer(&line[..end]).map_or(Line::NoNumber, |number| Line::Number(number, at + 1 + end + 2))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The simple parser of well-formed bytes: it splits at line ends.
    fn reference(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
        let line = |from: usize| -> Option<(i64, usize)> {
            let end = from + bytes.get(from..)?.windows(2).position(|two| two == b"\r\n")?;
            Some((std::str::from_utf8(&bytes[from + 1..end]).ok()?.parse().ok()?, end + 2))
        };
        let (count, mut at) = line(0)?;
        let mut args = Vec::new();
        for _ in 0..count {
            let (length, from) = line(at)?;
            args.push(bytes.get(from..from + length as usize)?.to_vec());
            at = from + length as usize + 2;
            if at > bytes.len() {
                return None;
            }
        }
        Some((args, at))
    }

    /// The commands in bytes that arrive in pieces, as a connection parses them.
    fn parse_pieces<'b>(
        pieces: impl Iterator<Item = &'b [u8]>,
    ) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
        let mut parser = Parser::default();
        let (mut rest, mut commands) = (Vec::new(), Vec::new());
        for piece in pieces {
            rest.extend_from_slice(piece);
            loop {
                let parsed = parser.parse(&rest);
                let slices = |bytes: &[u8]| -> Vec<Vec<u8>> {
                    parser
                        .argument_ranges
                        .iter()
                        .map(|&(from, to)| bytes[from as usize..to as usize].to_vec())
                        .collect()
                };
                match parsed {
                    ParseResult::Command { used } => {
                        commands.push(slices(&rest));
                        rest.drain(..used);
                    }
                    ParseResult::Inline { used } => {
                        commands.push(slices(&parser.inline));
                        rest.drain(..used);
                    }
                    ParseResult::Nothing { used } | ParseResult::Skipped { used } => drop(rest.drain(..used)),
                    ParseResult::Oversized { used, what } => {
                        commands.push(vec![what.text().into_bytes()]);
                        rest.drain(..used);
                    }
                    ParseResult::More => break,
                    ParseResult::Broken(what) => return (commands, Some(what)),
                }
            }
        }
        (commands, None)
    }

    fn argument() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..20),
            prop::sample::select(vec![0usize, 9, 10, 99, 100, 999, 1000])
                .prop_map(|length| vec![b'x'; length]),
            Just(b"\r\n$1\r\n*2\r\n".to_vec()),
        ]
    }

    fn encode(commands: &[Vec<Vec<u8>>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for command in commands {
            push_command(&mut bytes, &mut Vec::new(), command.iter().map(Vec::as_slice));
        }
        bytes
    }

    proptest! {
        #[test]
        fn commands_are_parsed_as_the_reference_does(
            commands in prop::collection::vec(prop::collection::vec(argument(), 1..6), 1..5),
        ) {
            let bytes = encode(&commands);
            let mut expected = Vec::new();
            let mut at = 0;
            while let Some((command, used)) = reference(&bytes[at..]) {
                expected.push(command);
                at += used;
            }
            prop_assert_eq!(&expected, &commands);
            let (parsed, broken) = parse_pieces([&bytes[..]].into_iter());
            prop_assert_eq!((&parsed, broken), (&commands, None));
            // Cut once, at every byte; and everywhere.
            for cut in 0..bytes.len() {
                let (parsed, broken) = parse_pieces([&bytes[..cut], &bytes[cut..]].into_iter());
                prop_assert_eq!((&parsed, broken), (&commands, None), "cut at {}", cut);
            }
            prop_assert_eq!(parse_pieces(bytes.chunks(1)), (commands, None));
        }

        #[test]
        fn bytes_of_any_kind_are_judged_alike_however_they_are_cut(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), prop::sample::select(b"*$\r\n 0123-\"'".to_vec())],
                0..60,
            ),
        ) {
            prop_assert_eq!(parse_pieces([&bytes[..]].into_iter()), parse_pieces(bytes.chunks(1)));
        }
    }

    #[test]
    fn oversized_length_is_refused_before_its_data_arrives() {
        let first = |bytes: &[u8]| Parser::default().parse(bytes);
        let longest = format!("*1\r\n${BULK_BYTES_MAX}\r\n");
        assert_eq!(first(longest.as_bytes()), ParseResult::More);
        let too_long = format!("*1\r\n${}\r\n", BULK_BYTES_MAX + 1);
        assert_eq!(first(too_long.as_bytes()), ParseResult::Skipped { used: too_long.len() });
        let far_too_long = format!("*1\r\n${}\r\n", SKIPPED_BULK_BYTES_MAX + 1);
        assert_eq!(first(far_too_long.as_bytes()), ParseResult::Broken(ProtocolError::BulkLength));
        assert_eq!(first(format!("*{ARGUMENTS_MAX}\r\n").as_bytes()), ParseResult::More);
        assert_eq!(
            first(format!("*{}\r\n", ARGUMENTS_MAX + 1).as_bytes()),
            ParseResult::Broken(ProtocolError::ArrayLength)
        );
        assert_eq!(first(&[b'x'; LINE_BYTES_MAX]), ParseResult::More);
        assert_eq!(first(&[b'x'; LINE_BYTES_MAX + 1]), ParseResult::Broken(ProtocolError::InlineLine));
        assert_eq!(first(&[b'*'; 1]), ParseResult::More);
        let digits = [&b"*1\r\n$"[..], &[b'1'; LINE_BYTES_MAX + 1]].concat();
        assert_eq!(first(&digits), ParseResult::Broken(ProtocolError::BulkLine));
    }

    #[test]
    fn parser_skips_command_from_its_size_limit_on() {
        let argument =
            [format!("${BULK_BYTES_MAX}\r\n").as_bytes(), &vec![0; BULK_BYTES_MAX], b"\r\n"].concat();
        let bytes =
            [&b"*4\r\n"[..], &argument, &argument, format!("${BULK_BYTES_MAX}\r\n").as_bytes()].concat();
        let mut parser = Parser::default();
        assert_eq!(parser.parse(&bytes[..bytes.len() - 4]), ParseResult::More);
        assert_eq!(parser.parse(&bytes), ParseResult::Skipped { used: bytes.len() });
        assert_eq!(parser.argument_ranges.capacity(), 0);
        assert_eq!(
            parser.parse(&argument[argument.len() - BULK_BYTES_MAX..]),
            ParseResult::Skipped { used: BULK_BYTES_MAX }
        );
        assert_eq!(parser.parse(b"\r\n$1\r\nx"), ParseResult::Skipped { used: 7 });
        assert_eq!(
            parser.parse(b"\r\nPING\r\n"),
            ParseResult::Oversized { used: 2, what: OversizedPart::Command }
        );
        assert!(matches!(parser.parse(b"PING\r\n"), ParseResult::Inline { used: 6 }));
    }

    #[test]
    fn parser_skips_oversized_argument_and_reads_next_command() {
        let long = BULK_BYTES_MAX + 1;
        let argument =
            |length: usize| [format!("${length}\r\n").as_bytes(), &vec![b'$'; length], b"\r\n"].concat();
        for (before, behind) in [(0, 0), (2, 1)] {
            let count = before + 1 + behind;
            let mut bytes = format!("*{count}\r\n").into_bytes();
            (0..before).for_each(|n| bytes.extend(argument(n)));
            bytes.extend(argument(long));
            (0..behind).for_each(|n| bytes.extend(argument(long + n)));
            let from = bytes.len();
            bytes.extend_from_slice(b"*1\r\n$4\r\nPING\r\n");
            let refusal = vec![OversizedPart::Argument(long as u64).text().into_bytes()];
            let expected = (vec![refusal, vec![b"PING".to_vec()]], None);
            assert_eq!(parse_pieces([&bytes[..]].into_iter()), expected);
            // Cut around each position where a part begins or ends.
            for cut in (0..20).step_by(3).chain(from - 3..from + 3) {
                assert_eq!(
                    parse_pieces([&bytes[..cut], &bytes[cut..]].into_iter()),
                    expected,
                    "cut at {cut}"
                );
            }
            assert_eq!(parse_pieces(bytes.chunks(65_537)), expected);
        }
    }

    #[test]
    fn trickling_arguments_are_parsed_once() {
        // Quadratic work would be 10^10 steps here.
        let bytes = encode(&[vec![b"a".to_vec(); 100_000]]);
        let mut parser = Parser::default();
        let mut end = 0;
        while end < bytes.len() {
            end = (end + 7).min(bytes.len());
            parser.parse(&bytes[..end]);
        }
        assert_eq!(parser.argument_ranges.len(), 100_000);
    }
}
