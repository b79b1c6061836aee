//! The forms that the layer shares with others, with its own error.

use std::convert::Infallible;

use zerohop_layer_procedure as shared;

use crate::error::QueueError;

/// What the driver of a procedure does next.
pub type QueueEffect = shared::Effect<Infallible>;

/// What a procedure gets.
pub type QueueEvent = shared::Event<QueueError>;

/// The answer of a procedure to an event.
pub type QueueStep<T> = shared::Step<T, QueueError, Infallible>;

/// Why a decision stops.
pub(crate) type QueuePause = shared::Pause<QueueError>;

/// The records that an attempt has read.
pub(crate) type QueueReads = shared::Reads<QueueError>;

/// A procedure of this layer.
pub trait QueueProcedure: shared::Procedure<QueueError, Infallible> {}

impl<P: shared::Procedure<QueueError, Infallible> + ?Sized> QueueProcedure for P {}
