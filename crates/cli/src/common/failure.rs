//! An error in JSON: with `--json` every command that fails before it has printed a result prints one line.

use serde::Serialize;
use zerohop_client::{BlobError, Error, Failure, Reason};
use zerohop_wire::BadRequestReason;

use super::display::{JsonKey, LayerName, Name};
use super::ending::CommandError;
use crate::output;

/// The object that a command was about, if it is a single one.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct FailedObject<'a> {
    #[serde(flatten)]
    pub(crate) key: Option<JsonKey<'a>>,
    #[serde(flatten)]
    pub(crate) name: Option<Name<'a>>,
    #[serde(flatten)]
    pub(crate) layer: Option<LayerName<'a>>,
}

/// The JSON of an error.
#[derive(Serialize)]
struct ErrorOutput<'a> {
    #[serde(flatten)]
    about: FailedObject<'a>,
    /// `None`: it may or may not be done.
    done: Option<bool>,
    /// For programs: a word for the kind of error.
    reason: &'static str,
    /// The sentence on standard error.
    error: String,
}

/// Prints an error as JSON, unless the command has printed a result already.
pub(crate) fn print(about: FailedObject<'_>, reason: &'static str, error: &CommandError) {
    if !output::has_result() {
        print_last(about, reason, error);
    }
}

/// Prints an error as the last line of JSON, also of a command that prints results until it ends.
pub(crate) fn print_last(about: FailedObject<'_>, reason: &'static str, error: &CommandError) {
    let done = (!error.is_unknown()).then_some(output::is_done());
    // If the output is gone, the exit code still says that the command failed.
    drop(output::json(&ErrorOutput { about, done, reason, error: error.to_string() }));
}

/// The word for an error of the command line.
pub(crate) const USAGE: &str = "usage";

/// The same for one that the parser of the command line has found.
pub(crate) fn print_usage(error: String) {
    print(FailedObject::default(), USAGE, &CommandError::Usage(error));
}

/// The word for a node that its cluster does not have: starting it again changes nothing.
pub(crate) const NO_PLACE: &str = "no_place";

/// The word for a position behind which changes are no longer kept.
pub(crate) const HISTORY_GONE: &str = "history_gone";

/// The word for an error.
pub(crate) fn reason(error: &CommandError) -> &'static str {
    match error {
        CommandError::Usage(_) => USAGE,
        CommandError::Client(error) | CommandError::Blob(error) => of_client(error),
        CommandError::Unreachable(error) => match of_client(error) {
            "timed_out" | "unavailable" => "no_cluster",
            word => word,
        },
        CommandError::NoCluster(_) | CommandError::Restarting { .. } | CommandError::Silent { .. } => {
            "no_cluster"
        }
        CommandError::Secret(_) => "secret",
        CommandError::Refused(_) => "refused",
        CommandError::RefusedAs { word, .. } => word,
        CommandError::InDoubt(_) => "unknown",
        CommandError::Unprinted { .. } => "unprinted",
        CommandError::Interrupted { .. } | CommandError::InterruptedPartly(_) => "interrupted",
        CommandError::UnderWay(_) => "under_way",
        CommandError::Partly(_) => "partly_done",
        CommandError::Unexpected => "unexpected",
        CommandError::System { .. } => "system",
        CommandError::Node(_) => "node",
        CommandError::Demo(_) => "demo",
        CommandError::Logged(error) | CommandError::Unserved { error, .. } => reason(error),
        CommandError::OutputClosed => "output_closed",
    }
}

/// The same for an error of the client.
pub(crate) fn of_client(error: &Error) -> &'static str {
    match error {
        Error::Operation { reason, .. } => match &**reason {
            Reason::Answer { failure } | Reason::Refused { failure, .. } => of_failure(failure),
            Reason::Deadline { .. } => "timed_out",
            Reason::Unknown { .. } => "unknown",
            Reason::PartitionLost { .. } => "partition_lost",
            Reason::NoKeyspace { .. } => "no_keyspace",
            Reason::Aborted { .. } => "aborted",
            Reason::InvalidTransaction(_) => "too_large",
            _ => "unavailable",
        },
        Error::Blob { why, .. } => match why {
            BlobError::Absent => "not_found",
            BlobError::TooLong { .. }
            | BlobError::ExceedsMaximumSize { .. }
            | BlobError::Attributes { .. } => "too_large",
            BlobError::Contended => "contended",
            BlobError::Unfinished => "unfinished",
            BlobError::ChangedMeanwhile => "changed",
        },
        Error::UnderWay { .. } => "under_way",
        Error::OtherKeyspace => "cursor",
        Error::Unexpected => "unexpected",
        _ => "refused",
    }
}

fn of_failure(failure: &Failure<'_>) -> &'static str {
    match failure {
        Failure::NotFound => "not_found",
        Failure::WrongType { .. } => "wrong_type",
        Failure::NotANumber => "not_a_number",
        Failure::Overflow => "overflow",
        Failure::ConditionFailed { .. } => "condition_failed",
        Failure::CompareFailed { .. } => "compare_failed",
        Failure::KeyTooLong { length: 0, .. } => "empty",
        Failure::KeyTooLong { .. }
        | Failure::ValueTooLong { .. }
        | Failure::TooMany { .. }
        | Failure::FrameTooLong { .. }
        | Failure::AnswerTooLong { .. } => "too_large",
        Failure::Unauthorized | Failure::Forbidden { .. } => "forbidden",
        Failure::AuthRequired | Failure::AuthFailed { .. } => "unauthenticated",
        Failure::OtherCluster => "other_cluster",
        Failure::UnknownKeyspace { .. } => "no_keyspace",
        Failure::TooFewInSync { .. } => "too_few_in_sync",
        Failure::Busy { .. } | Failure::Unavailable { .. } | Failure::WrongOwner { .. } => "unavailable",
        Failure::TimedOut { .. } => "timed_out",
        Failure::DiskFull | Failure::FileSizeLimit { .. } | Failure::MemoryFull => "no_room",
        Failure::DiskFailed => "disk_failed",
        Failure::DataCorrupt => "corrupt",
        Failure::Aborted { .. } => "aborted",
        Failure::SnapshotExpired => "snapshot_expired",
        Failure::HistoryGone { .. } => HISTORY_GONE,
        Failure::ClockAhead { .. } => "clock_ahead",
        Failure::BadRequest { reason: BadRequestReason::NotOrdered } => "not_ordered",
        Failure::BadRequest { reason: BadRequestReason::Bounds } => "bounds",
        Failure::BadRequest { reason: BadRequestReason::NoHistory } => "no_history",
        _ => "refused",
    }
}

#[cfg(test)]
mod tests {
    use zerohop_client::RecordType;

    use super::*;

    #[test]
    fn errors_have_words_for_programs() {
        let of = |failure| {
            let reason = Box::new(Reason::Answer { failure });
            super::reason(&CommandError::Client(Error::Operation { key: None, reason }))
        };
        assert_eq!(of(Failure::WrongType { found: RecordType::List }), "wrong_type");
        assert_eq!(of(Failure::KeyTooLong { length: 0, limit: 9 }), "empty");
        assert_eq!(of(Failure::ValueTooLong { length: 10, limit: 9 }), "too_large");
        assert_eq!(of(BadRequestReason::NotOrdered.into()), "not_ordered");
        assert_eq!(of(BadRequestReason::Bounds.into()), "bounds");
        let error = CommandError::Logged(Box::new(CommandError::NoCluster(String::new())));
        assert_eq!(super::reason(&error), "no_cluster");
    }
}
