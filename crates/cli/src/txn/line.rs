//! The operations of a transaction, one a line, with the syntax of `zerohop kv`.

use std::ffi::OsString;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use zerohop_client::Timestamp;

use super::tokenizer::split_words;
use super::transform::TxnTransformArguments;
use crate::common::ending::CommandError;
use crate::common::{names, quantity};
use crate::kv::condition::{ConditionArguments, version};

/// Characters of an error about a line with long words.
const ERROR_CHARACTERS_MAX: usize = 400;

/// A longer error, in bytes, has long words.
const ERROR_BYTES_MAX: usize = 800;

/// A line.
#[derive(Debug)]
pub(super) struct Line {
    /// The number of the line, from 1.
    pub(super) number: usize,
    pub(super) operation: LineOperation,
}

#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true, disable_help_subcommand = true, name = "")]
pub(super) enum LineOperation {
    #[command(aliases = ["set", "put"])]
    Insert {
        #[command(flatten)]
        at: LineTarget,
        #[arg(allow_hyphen_values = true)]
        value: OsString,
        #[arg(long, value_parser = quantity::time_to_live, allow_hyphen_values = true)]
        ttl: Option<Duration>,
        #[command(flatten)]
        condition: ConditionArguments,
    },
    #[command(alias = "get")]
    Lookup {
        #[command(flatten)]
        at: LineTarget,
    },
    #[command(aliases = ["del", "rm"])]
    Remove {
        #[command(flatten)]
        at: LineTarget,
        #[command(flatten)]
        condition: ConditionArguments,
    },
    Take {
        #[command(flatten)]
        at: LineTarget,
        #[command(flatten)]
        condition: ConditionArguments,
    },
    Append {
        #[command(flatten)]
        at: LineTarget,
        #[arg(required = true)]
        values: Vec<OsString>,
        #[command(flatten)]
        condition: ConditionArguments,
    },
    Extend {
        #[command(flatten)]
        at: LineTarget,
        #[arg(allow_hyphen_values = true)]
        value: OsString,
        #[command(flatten)]
        condition: ConditionArguments,
    },
    Incr {
        #[command(flatten)]
        at: LineTarget,
        #[arg(default_value_t = 1, allow_negative_numbers = true)]
        delta: i64,
        #[command(flatten)]
        condition: ConditionArguments,
    },
    Cas {
        #[command(flatten)]
        at: LineTarget,
        #[command(flatten)]
        expected: LineExpectation,
        #[command(flatten)]
        new: LineValue,
    },
    Transform {
        #[command(flatten)]
        at: LineTarget,
        #[command(flatten)]
        given: TxnTransformArguments,
        #[command(flatten)]
        condition: ConditionArguments,
    },
    /// An operation on a blob.
    #[command(subcommand)]
    Blob(BlobOperation),
    /// Requires that the record has this version, or does not exist.
    Check {
        #[command(flatten)]
        at: LineTarget,
        #[arg(value_parser = checked)]
        version: Timestamp,
    },
}

/// The words of `zerohop blob`.
#[derive(Debug, Subcommand)]
pub(super) enum BlobOperation {
    Create {
        #[command(flatten)]
        at: LineTarget,
        /// The size of a chunk in bytes.
        #[arg(long, value_parser = chunk_bits)]
        chunk: Option<u8>,
        #[arg(long, default_value = "", allow_hyphen_values = true)]
        attributes: OsString,
    },
    Stat {
        #[command(flatten)]
        at: LineTarget,
    },
    Read {
        #[command(flatten)]
        at: LineTarget,
        #[arg(long = "at", default_value_t = 0, value_parser = quantity::parse_whole)]
        offset: u64,
        #[arg(long, default_value_t = u64::MAX, value_parser = quantity::parse_whole)]
        length: u64,
    },
    Write {
        #[command(flatten)]
        at: LineTarget,
        #[arg(allow_hyphen_values = true)]
        value: OsString,
        #[arg(long = "at", value_parser = quantity::parse_whole)]
        offset: u64,
    },
    Extend {
        #[command(flatten)]
        at: LineTarget,
        #[arg(allow_hyphen_values = true)]
        value: OsString,
    },
    Truncate {
        #[command(flatten)]
        at: LineTarget,
        #[arg(value_parser = quantity::parse_whole, allow_negative_numbers = true)]
        size: u64,
    },
    Transform {
        #[command(flatten)]
        at: LineTarget,
        #[command(flatten)]
        given: TxnTransformArguments,
    },
    Rm {
        #[command(flatten)]
        at: LineTarget,
    },
}

/// Which record, or blob.
#[derive(Args, Clone, Debug)]
pub(super) struct LineTarget {
    pub(super) key: OsString,
    /// The keyspace of this line, if it differs from that of the command.
    #[arg(short, long)]
    pub(super) keyspace: Option<String>,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(super) struct LineExpectation {
    #[arg(long, allow_hyphen_values = true)]
    pub(super) expect: Option<OsString>,
    #[arg(long)]
    pub(super) expect_absent: bool,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(super) struct LineValue {
    #[arg(allow_hyphen_values = true)]
    pub(super) value: Option<OsString>,
    #[arg(long)]
    pub(super) remove: bool,
}

impl LineOperation {
    pub(super) fn at(&self) -> &LineTarget {
        match self {
            Self::Insert { at, .. }
            | Self::Lookup { at }
            | Self::Remove { at, .. }
            | Self::Take { at, .. }
            | Self::Append { at, .. }
            | Self::Extend { at, .. }
            | Self::Incr { at, .. }
            | Self::Cas { at, .. }
            | Self::Transform { at, .. }
            | Self::Check { at, .. } => at,
            Self::Blob(operation) => operation.at(),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Insert { .. } => "insert",
            Self::Lookup { .. } => "lookup",
            Self::Remove { .. } => "remove",
            Self::Take { .. } => "take",
            Self::Append { .. } => "append",
            Self::Extend { .. } => "extend",
            Self::Incr { .. } => "incr",
            Self::Cas { .. } => "cas",
            Self::Transform { .. } => "transform",
            Self::Check { .. } => "check",
            Self::Blob(operation) => operation.name(),
        }
    }

    /// Whether a record may refuse it, because of its type or contents.
    pub(super) fn is_checked(&self) -> bool {
        matches!(
            self,
            Self::Append { .. }
                | Self::Extend { .. }
                | Self::Incr { .. }
                | Self::Cas { .. }
                | Self::Transform { .. }
        )
    }

    /// Whether it writes to a record, which cannot refuse it.
    pub(super) fn is_overwrite(&self) -> bool {
        matches!(self, Self::Insert { .. } | Self::Remove { .. })
    }

    /// The number argument, if it is a transform.
    fn given(&self) -> Option<&TxnTransformArguments> {
        match self {
            Self::Transform { given, .. } | Self::Blob(BlobOperation::Transform { given, .. }) => Some(given),
            _ => None,
        }
    }
}

impl BlobOperation {
    fn at(&self) -> &LineTarget {
        match self {
            Self::Create { at, .. }
            | Self::Stat { at }
            | Self::Read { at, .. }
            | Self::Write { at, .. }
            | Self::Extend { at, .. }
            | Self::Truncate { at, .. }
            | Self::Transform { at, .. }
            | Self::Rm { at } => at,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Create { .. } => "blob create",
            Self::Stat { .. } => "blob stat",
            Self::Read { .. } => "blob read",
            Self::Write { .. } => "blob write",
            Self::Extend { .. } => "blob extend",
            Self::Truncate { .. } => "blob truncate",
            Self::Transform { .. } => "blob transform",
            Self::Rm { .. } => "blob rm",
        }
    }
}

/// Parses all lines. Errors: a line cannot be parsed; then nothing was done.
pub(super) fn read(text: &[u8]) -> Result<Vec<Line>, CommandError> {
    let (mut lines, command) = (Vec::new(), quantity::with_negative_numbers(LineOperation::command()));
    for (line, number) in text.split(|byte| *byte == b'\n').zip(1..) {
        let wrong = |why: String| CommandError::Usage(format!("line {number} of the transaction: {why}"));
        let words = split_words(line).map_err(wrong)?;
        if words.is_empty() {
            continue;
        }
        let refused = |error| wrong(first_error_line(error));
        let matches = command.clone().try_get_matches_from(words).map_err(refused)?;
        let operation = LineOperation::from_arg_matches(&matches).map_err(refused)?;
        if let Some(given) = operation.given() {
            given.check().map_err(wrong)?;
        }
        lines.push(Line { number, operation });
    }
    Ok(lines)
}

/// The first line of clap's error, which is about a command line and continues with its usage. It
/// repeats the text that it does not understand; of a long text only the ends are kept.
fn first_error_line(mut error: clap::Error) -> String {
    names::escape_arguments(&mut error);
    let text = error.to_string();
    let message: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    let message = message.join(" ").trim_start_matches("error: ").to_owned();
    let message = match error.kind() {
        // The reader has written an operation, and no command.
        ErrorKind::InvalidSubcommand => {
            let message = message.replacen("unrecognized subcommand", "unknown operation", 1);
            format!("{message}; `zerohop txn --help` lists the operations")
        }
        _ => message,
    };
    let mut ends = message.char_indices().map(|(at, _)| at);
    match (ends.nth(ERROR_CHARACTERS_MAX / 2), ends.rev().nth(ERROR_CHARACTERS_MAX / 2 - 1)) {
        (Some(first), Some(last)) if message.len() > ERROR_BYTES_MAX => {
            format!("{} ... {}", &message[..first], &message[last..])
        }
        _ => message,
    }
}

/// Parses a version, or `absent`. For clap.
fn checked(text: &str) -> Result<Timestamp, String> {
    if text == "absent" { Ok(Timestamp::ZERO) } else { version(text) }
}

/// Parses the bytes of a chunk into a power of two. For clap.
fn chunk_bits(text: &str) -> Result<u8, String> {
    let bytes = quantity::bytes(text)?;
    match bytes.is_power_of_two() && (1 << 12..=1 << 24).contains(&bytes) {
        true => Ok(bytes.trailing_zeros() as u8),
        false => Err("a chunk has a power of two of bytes from 4KiB to 16MiB".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_kv_writes_them() {
        let text = b"insert a 'b c' --if-absent -k other\n\n# no\nincr n -5\ncas a --expect x --remove\ncheck a absent\n\
            append l v w\nlookup -- -a\ntake q --if-version 5.0\ntransform a add -2.5 --type f64 --at 8 --old\n\
            blob write b xyz --at 7 -k other\nblob read b\n\
            blob create b --chunk 64KiB --attributes 'kind=a b'";
        let lines = read(text).unwrap();
        let names: Vec<(usize, &str)> =
            lines.iter().map(|line| (line.number, line.operation.name())).collect();
        let expected = [
            (1, "insert"),
            (4, "incr"),
            (5, "cas"),
            (6, "check"),
            (7, "append"),
            (8, "lookup"),
            (9, "take"),
            (10, "transform"),
            (11, "blob write"),
            (12, "blob read"),
            (13, "blob create"),
        ];
        assert_eq!(names, expected);
        assert_eq!(lines[0].operation.at().keyspace.as_deref(), Some("other"));
        assert!(matches!(lines[1].operation, LineOperation::Incr { delta: -5, .. }));
        assert_eq!(lines[5].operation.at().key, "-a");
        for bad in [
            "insert a",
            "scan",
            "cas a b",
            "incr a x",
            "check a 5",
            "insert 'a",
            "lookup --help",
            "transform a add x",
            "blob write b x",
            "blob write b x --at -1",
            "blob truncate b 99999999999999999999",
            "blob transform b add 300 --type u8",
            "blob put b",
            "blob create b --chunk 5000",
            "blob create b --chunk 32MiB",
        ] {
            let error = read(format!("lookup a\n{bad}").as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("line 2 of the transaction: "), "{error}");
            assert!(!error.contains("error:") && !error.contains('\n'), "{error}");
        }
        let error = read(b"increment a").unwrap_err().to_string();
        assert!(error.contains("unknown operation 'increment'; `zerohop txn --help` lists"), "{error}");
        // An error about long text has both ends of it.
        for bad in ["x".repeat(5_000_000), format!("check a {}", "ü".repeat(100_000))] {
            let error = read(bad.as_bytes()).unwrap_err().to_string();
            assert!(error.len() < 1_000 && error.contains(" ... "), "{} bytes: {:.1000}", error.len(), error);
        }
        let error = read(format!("check a {}", "9".repeat(100_000)).as_bytes()).unwrap_err().to_string();
        assert!(error.contains("999 ... 999") && error.ends_with("as in 1763770000123.0"), "{error:.1000}");
    }
}
