//! Negative answers about logs: a sentence or JSON, with exit code 1.

use zerohop_layer_log::LogError;
use zerohop_wire::plurals::counted;

use crate::common::display::LayerName;
use crate::common::ending::{CommandEnding, CommandError};
pub(super) use crate::common::refusal::CommandUse;
use crate::common::refusal::NegativeAnswer;

/// A negative answer: a word for programs, and a sentence.
#[derive(Debug)]
pub(super) struct LogRefusal {
    reason: &'static str,
    text: String,
}

impl LogRefusal {
    pub(super) fn new(reason: &'static str, text: impl Into<String>) -> Self {
        Self { reason, text: text.into() }
    }

    pub(super) fn no_log() -> Self {
        Self::new("no_log", "there is no such log: `zerohop log create` creates one")
    }

    pub(super) fn not_a_log() -> Self {
        Self::new(
            "no_log",
            "the keyspace of this name is no log: `zerohop log list` names those that there are",
        )
    }

    pub(super) fn no_partition(count: u32) -> Self {
        let text = format!("the log has {}, numbered from 0 on", counted(count, "partition"));
        Self::new("no_partition", text)
    }

    /// The negative answer in an error; else the error.
    pub(super) fn of(error: LogError) -> Result<Self, LogError> {
        let reason = match &error {
            LogError::OutOfRange { first, next } => {
                let text = format!(
                    "the partition has the offsets from {first} on, and the next record gets offset {next}: read from one of \
                     these"
                );
                return Ok(Self::new("out_of_range", text));
            }
            LogError::NoSuchLog => "no_log",
            LogError::NoSuchPartition => "no_partition",
            LogError::LogExists => "exists",
            LogError::BadPartitionCount => "bad_partitions",
            LogError::BadName => "bad_name",
            LogError::GroupHasMembers => "has_members",
            LogError::ProducerFenced { .. } => "fenced",
            _ => return Err(error),
        };
        Ok(Self::new(reason, error.to_string()))
    }

    /// Prints it.
    pub(super) fn print(&self, is_json: bool, log: &str) -> Result<CommandEnding, CommandError> {
        let about = LayerName { kind: "log", name: log };
        NegativeAnswer::new(about, self.reason, &self.text).print(is_json)
    }
}

/// Prints an error that is a negative answer; returns any other.
pub(super) fn print_refusal(
    is_json: bool,
    log: &str,
    kind: CommandUse,
    error: LogError,
) -> Result<CommandEnding, CommandError> {
    match LogRefusal::of(error) {
        Ok(refusal) => refusal.print(is_json, log),
        Err(error) => Err(failed(kind, &error)),
    }
}

/// The error of a command that only reads.
pub(super) fn failed_to_read(error: &LogError) -> CommandError {
    failed(CommandUse::Read, error)
}

/// The error of a command that was not carried out.
pub(super) fn failed(kind: CommandUse, error: &LogError) -> CommandError {
    match error {
        LogError::Unavailable(why) => kind.unanswered(why),
        LogError::NoRoom => CommandError::RefusedAs {
            word: "no_room",
            reason: "the disk or memory of a node is full: `zerohop doctor` shows which".to_owned(),
        },
        LogError::BadBatch(fault) => CommandError::RefusedAs {
            word: "too_large",
            reason: format!("the batch is refused, and nothing of it is appended: {fault}"),
        },
        LogError::Corrupt(_) => CommandError::RefusedAs { word: "corrupt", reason: error.to_string() },
        LogError::Refused(why) => CommandError::refused_by_store(why.clone()),
        other => CommandError::Refused(other.to_string()),
    }
}
