//! The forms that the layer shares with others, with its own error and its own effect.

use zerohop_layer_procedure as shared;

use crate::error::LogError;
use crate::keys::RecordKey;

/// An effect of this layer only: wait until a record has another version than `seen`, or until `until`. It may end early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailWait {
    /// The key of the record.
    pub key: RecordKey,
    /// Its version when it was read.
    pub seen: shared::Version,
    /// The end of the wait, in milliseconds since 1970.
    pub until: u64,
}

/// What the driver of a procedure does next.
pub type LogEffect = shared::Effect<TailWait>;

/// What a procedure gets.
pub type LogEvent = shared::Event<LogError>;

/// The answer of a procedure to an event.
pub type LogStep<T> = shared::Step<T, LogError, TailWait>;

/// Why a decision stops.
pub(crate) type LogPause = shared::Pause<LogError>;

/// The records that an attempt has read.
pub(crate) type LogReads = shared::Reads<LogError>;

/// A procedure of this layer.
pub trait LogProcedure: shared::Procedure<LogError, TailWait> {}

impl<P: shared::Procedure<LogError, TailWait> + ?Sized> LogProcedure for P {}
