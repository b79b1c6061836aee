//! The reasons for failures, before their conversion to Python exceptions.

use std::borrow::Cow;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;
use zerohop_client::{AbortReason, BlobError, Error, Failure, Reason, SecretFileError};
use zerohop_layer_log::LogError;
use zerohop_layer_queue::QueueError;
use zerohop_objects::ObjectError;
use zerohop_wire::BadRequestReason;
use zerohop_wire::error::ErrorCode;

use crate::object_place::ObjectPlace;

/// Whether a call that fails may have changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayerUse {
    Read,
    Write,
}

/// The reason for a failure.
#[derive(Debug)]
pub(crate) enum Problem {
    Client(Error),
    Secret(SecretFileError),
    /// No process listens at the endpoints.
    NoListener(String),
    /// A log has no answer, or a negative one.
    Log {
        name: String,
        error: LogError,
        used: LayerUse,
    },
    /// A queue has no answer, or a negative one.
    Queue {
        name: String,
        error: QueueError,
        used: LayerUse,
    },
    /// A bucket or an object has no answer, or a negative one.
    Object {
        place: ObjectPlace,
        error: ObjectError,
        used: LayerUse,
    },
    /// The client was closed.
    Closed,
    /// The client was opened by another process, of which this one is a fork.
    Forked {
        opener: u32,
    },
    /// The snapshot was closed.
    SnapshotClosed,
    /// The watch was closed.
    WatchClosed,
    /// The staged extension was published, or has failed.
    ExtensionEnded,
    /// The system has refused a resource.
    System(std::io::Error),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

/// The parts of an exception.
struct ExceptionParts<'a> {
    code: Cow<'static, str>,
    number: Option<u16>,
    key: Option<&'a [u8]>,
    found: Option<&'a [u8]>,
}

impl Problem {
    /// The exception.
    pub(crate) fn exception(&self, py: Python<'_>) -> PyErr {
        match self.value(py) {
            Ok(value) => PyErr::from_value(value),
            Err(error) => error,
        }
    }

    /// The exception as an object, made by `zerohop.errors`.
    pub(crate) fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let make = MAKE.import(py, "zerohop.errors", "_make")?;
        let ExceptionParts { code, number, key, found } = self.parts();
        let bytes = |bytes: Option<&[u8]>| bytes.map(|bytes| PyBytes::new(py, bytes));
        make.call1((code, number, self.message(), bytes(key), bytes(found)))
    }

    fn message(&self) -> String {
        match self {
            Self::Client(error) => error.to_string(),
            Self::Secret(error) => error.to_string(),
            Self::NoListener(why) => format!(
                "{why}: no cluster runs there; start one with `zerohop up`, or give the address of one"
            ),
            Self::Log { name, error, .. } => format!("log \"{name}\": {error}"),
            Self::Queue { name, error, .. } => format!("queue \"{name}\": {error}"),
            Self::Object { place, error, .. } => format!("{}: {error}", place.sentence()),
            Self::Closed => "the client is closed: connect again".to_owned(),
            Self::SnapshotClosed => "the snapshot is closed: open another one".to_owned(),
            Self::WatchClosed => "the watch is closed: begin another one at its cursor".to_owned(),
            Self::Forked { opener } => format!(
                "the client was opened by process {opener}, and this is a fork of it: connect again in the child"
            ),
            Self::ExtensionEnded => {
                "what was added to the blob is a part of it by now, or adding it was cut off: begin again"
                    .to_owned()
            }
            Self::System(error) => format!("the system does not give what the client needs: {error}"),
        }
    }

    fn parts(&self) -> ExceptionParts<'_> {
        let plain = |code| ExceptionParts { code: Cow::Borrowed(code), number: None, key: None, found: None };
        match self {
            Self::Client(Error::Operation { key, reason }) => {
                ExceptionParts { key: key.as_deref(), ..ExceptionParts::of_reason(reason) }
            }
            Self::Client(Error::Endpoint { .. }) => plain("Endpoint"),
            Self::Client(error @ Error::Refused { .. }) if error.is_unknown() => plain("Unknown"),
            Self::Client(Error::Refused { .. }) => plain("AdminRefused"),
            Self::Client(Error::UnderWay { .. }) => plain("UnderWay"),
            Self::Client(Error::Unexpected) => plain("Unexpected"),
            Self::Client(Error::Blob { name, why }) => {
                let parts = match why {
                    BlobError::Absent => ExceptionParts::of_failure(&Failure::NotFound),
                    BlobError::Unfinished => plain("Unfinished"),
                    BlobError::TooLong { .. }
                    | BlobError::ExceedsMaximumSize { .. }
                    | BlobError::Attributes { .. } => plain("InvalidTransaction"),
                    BlobError::Contended | BlobError::ChangedMeanwhile => plain("Conflict"),
                };
                ExceptionParts { key: Some(name), ..parts }
            }
            Self::Client(Error::NotReadBack { key }) => {
                ExceptionParts { key: Some(key), ..plain("NotReadBack") }
            }
            Self::Client(Error::Ended) | Self::ExtensionEnded => plain("Ended"),
            Self::Client(Error::OtherKeyspace) => plain("BadRequest"),
            Self::Client(Error::InsideRuntime | Error::Runtime { .. }) | Self::System(_) => plain("System"),
            Self::NoListener(_) => plain("NoListener"),
            Self::Log { error, used, .. } => plain(of_log(error, *used)),
            Self::Queue { error, used, .. } => plain(of_queue(error, *used)),
            Self::Object { place, error, used } => {
                let key = place.name.as_ref().map(String::as_bytes);
                ExceptionParts { key, ..plain(of_object(error, *used)) }
            }
            Self::Secret(_) => plain("SecretFile"),
            Self::Closed | Self::SnapshotClosed | Self::WatchClosed => plain("Closed"),
            Self::Forked { .. } => plain("Forked"),
        }
    }
}

impl<'a> ExceptionParts<'a> {
    fn of_reason(reason: &'a Reason) -> Self {
        let plain = |code| ExceptionParts { code: Cow::Borrowed(code), number: None, key: None, found: None };
        match reason {
            Reason::Answer { failure } => Self::of_failure(failure),
            // Programs act on the server's failure: a wrong secret, another cluster.
            Reason::Refused { failure, .. } => Self::of_failure(failure),
            Reason::Deadline { .. } => plain("Deadline"),
            Reason::PartitionLost { .. } => plain("Lost"),
            Reason::Unknown { .. } => plain("Unknown"),
            Reason::NoKeyspace { .. } => plain("NoKeyspace"),
            Reason::Split { .. } => plain("Split"),
            Reason::NoOwner { .. } => plain("NoOwner"),
            Reason::TooManyOperations { .. } => plain("TooManyOperations"),
            Reason::TooManyBytes { .. } => plain("TooManyBytes"),
            Reason::Closed => plain("Closed"),
            Reason::Aborted { reason: AbortReason::ConditionFailed, .. } => plain("Condition"),
            Reason::Aborted { reason: AbortReason::NoRoom, .. } => plain("NoRoom"),
            Reason::Aborted { reason, .. } if *reason == AbortReason::ReadChanged || reason.is_passing() => {
                plain("Conflict")
            }
            Reason::Aborted { .. } => plain("Aborted"),
            Reason::Unstaged { .. } => plain("Unstaged"),
            Reason::Unread { .. } => plain("Unread"),
            Reason::InvalidTransaction(_) => plain("InvalidTransaction"),
        }
    }

    fn of_failure(failure: &'a Failure<'static>) -> Self {
        let number = failure.code();
        let code = match (failure, ErrorCode::from_number(number)) {
            (Failure::BadRequest { reason: BadRequestReason::NotOrdered }, _) => Cow::Borrowed("NotOrdered"),
            (Failure::BadRequest { reason: BadRequestReason::Bounds }, _) => Cow::Borrowed("Bounds"),
            (Failure::BadRequest { reason: BadRequestReason::NoHistory }, _) => Cow::Borrowed("NoHistory"),
            (_, Some(known)) => Cow::Borrowed(known.text()),
            (_, None) => Cow::Owned(format!("Code{number}")),
        };
        let found = match failure {
            Failure::CompareFailed { seen, .. } => seen.as_deref(),
            _ => None,
        };
        ExceptionParts { code, number: Some(number), key: None, found }
    }
}

/// The word for an error of a log.
fn of_log(error: &LogError, used: LayerUse) -> &'static str {
    match error {
        LogError::NoSuchLog => "NoLog",
        LogError::LogExists => "LogExists",
        LogError::NoSuchPartition => "NoPartition",
        LogError::BadPartitionCount | LogError::BadName | LogError::BadBatch(_) => "BadRequest",
        LogError::OutOfRange { .. } => "OutOfRange",
        LogError::NoRoom => "NoRoom",
        LogError::Refused(_) => "AdminRefused",
        LogError::Corrupt(_) => "DataCorrupt",
        LogError::Unavailable(_) => match used {
            LayerUse::Read => "Deadline",
            LayerUse::Write => "Unknown",
        },
        LogError::UnknownProducer
        | LogError::ProducerFenced { .. }
        | LogError::SequenceGap { .. }
        | LogError::OldSequence
        | LogError::UnknownMember
        | LogError::OldGeneration { .. }
        | LogError::NotAssigned { .. }
        | LogError::GroupHasMembers
        | LogError::GroupFull
        | LogError::OldPop { .. }
        | LogError::Busy => "Conflict",
    }
}

/// The word for an error of a queue.
fn of_queue(error: &QueueError, used: LayerUse) -> &'static str {
    match error {
        QueueError::NoSuchQueue => "NoQueue",
        QueueError::QueueExists => "QueueExists",
        QueueError::BadPartitionCount
        | QueueError::BadName
        | QueueError::MessageTooLong { .. }
        | QueueError::BadLease
        | QueueError::OtherQueue => "BadRequest",
        QueueError::TooManyLeased => "TooManyLeased",
        QueueError::LeaseLapsed => "LeaseLapsed",
        QueueError::NoRoom => "NoRoom",
        QueueError::Refused(_) => "AdminRefused",
        QueueError::Corrupt(_) => "DataCorrupt",
        QueueError::Unavailable(_) => match used {
            LayerUse::Read => "Deadline",
            LayerUse::Write => "Unknown",
        },
        QueueError::OldPush { .. } | QueueError::OldPop { .. } | QueueError::Busy => "Conflict",
    }
}

/// The word for an error of a bucket or an object.
fn of_object(error: &ObjectError, used: LayerUse) -> &'static str {
    match error {
        ObjectError::NoSuchBucket => "NoBucket",
        ObjectError::BucketExists => "BucketExists",
        ObjectError::BucketNotEmpty => "BucketNotEmpty",
        ObjectError::NoSuchObject | ObjectError::NoSuchVersion | ObjectError::DeleteMarker => "NoObject",
        ObjectError::PreconditionFailed => "Condition",
        ObjectError::NoSuchUpload
        | ObjectError::InvalidPart
        | ObjectError::InvalidPartOrder
        | ObjectError::PartTooSmall
        | ObjectError::InvalidRange
        | ObjectError::BadChecksum => "BadRequest",
        ObjectError::BodyExpired => "BodyExpired",
        ObjectError::Busy => "Conflict",
        ObjectError::Corrupt(_) => "DataCorrupt",
        ObjectError::NoRoom => "NoRoom",
        ObjectError::Refused(_) => "AdminRefused",
        ObjectError::Unavailable(_) => match used {
            LayerUse::Read => "Deadline",
            LayerUse::Write => "Unknown",
        },
    }
}

/// An internal error, reported as such.
pub(crate) fn broken(what: &str) -> PyErr {
    PyRuntimeError::new_err(format!("zerohop: {what}: please report this"))
}
