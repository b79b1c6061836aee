//! Negative answers about queues: a sentence or JSON, with exit code 1.

use zerohop_layer_queue::QueueError;

use crate::common::display::LayerName;
use crate::common::ending::{CommandEnding, CommandError};
pub(super) use crate::common::refusal::CommandUse;
use crate::common::refusal::NegativeAnswer;

/// A negative answer: a word for programs, and a sentence.
#[derive(Debug)]
pub(super) struct QueueRefusal {
    reason: &'static str,
    text: String,
}

impl QueueRefusal {
    pub(super) fn new(reason: &'static str, text: impl Into<String>) -> Self {
        Self { reason, text: text.into() }
    }

    pub(super) fn no_queue() -> Self {
        Self::new("no_queue", "there is no such queue: `zerohop queue create` creates one")
    }

    pub(super) fn not_a_queue() -> Self {
        Self::new(
            "no_queue",
            "the keyspace of this name is no queue: `zerohop queue list` names those that there are",
        )
    }

    /// The negative answer in an error; else the error.
    fn of(error: QueueError) -> Result<Self, QueueError> {
        let reason = match &error {
            QueueError::NoSuchQueue => "no_queue",
            QueueError::QueueExists => "exists",
            QueueError::BadName => "bad_name",
            QueueError::MessageTooLong { .. } => "too_long",
            QueueError::LeaseLapsed => "lapsed",
            QueueError::OtherQueue => "other_queue",
            _ => return Err(error),
        };
        Ok(Self::new(reason, error.to_string()))
    }

    /// Prints it.
    pub(super) fn print(&self, is_json: bool, queue: &str) -> Result<CommandEnding, CommandError> {
        let about = LayerName { kind: "queue", name: queue };
        NegativeAnswer::new(about, self.reason, &self.text).print(is_json)
    }
}

/// Prints an error that is a negative answer; returns any other.
pub(super) fn print_refusal(
    is_json: bool,
    queue: &str,
    kind: CommandUse,
    error: QueueError,
) -> Result<CommandEnding, CommandError> {
    match QueueRefusal::of(error) {
        Ok(refusal) => refusal.print(is_json, queue),
        Err(error) => Err(failed(kind, &error)),
    }
}

/// The error of a command that only reads.
pub(super) fn failed_to_read(error: &QueueError) -> CommandError {
    failed(CommandUse::Read, error)
}

/// The error of a command that was not carried out.
pub(super) fn failed(kind: CommandUse, error: &QueueError) -> CommandError {
    match error {
        QueueError::Unavailable(why) => kind.unanswered(why),
        QueueError::Busy => CommandError::RefusedAs { word: "unavailable", reason: error.to_string() },
        QueueError::NoRoom => CommandError::RefusedAs {
            word: "no_room",
            reason: "the disk or memory of a node is full: `zerohop doctor` shows which".to_owned(),
        },
        QueueError::Corrupt(_) => CommandError::RefusedAs { word: "corrupt", reason: error.to_string() },
        QueueError::Refused(why) => CommandError::refused_by_store(why.clone()),
        other => CommandError::Refused(other.to_string()),
    }
}
