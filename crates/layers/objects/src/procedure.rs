//! The forms that the layer shares with others, with its own error and its own effect.

use zerohop_layer_procedure::{Effect as SharedEffect, Event as SharedEvent, Step as SharedStep};
pub use zerohop_layer_procedure::{Version, VersionedRecord, Write};

use crate::error::ObjectError;
use crate::ids::BodyId;

/// An effect of this layer only: the blob of a body is deleted, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyDeletion(pub BodyId);

/// What the driver of a procedure does next.
pub type Effect = SharedEffect<BodyDeletion>;

/// What a procedure gets.
pub type Event = SharedEvent<ObjectError>;

/// The answer of a procedure to an event.
pub type Step<T> = SharedStep<T, ObjectError, BodyDeletion>;

/// A procedure of this layer.
pub trait Procedure: zerohop_layer_procedure::Procedure<ObjectError, BodyDeletion> {}

impl<P: zerohop_layer_procedure::Procedure<ObjectError, BodyDeletion> + ?Sized> Procedure for P {}
