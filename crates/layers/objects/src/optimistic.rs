//! Transactions with the error of this layer.

pub(crate) use zerohop_layer_procedure::{OptimisticTransaction, Writes};

use crate::error::ObjectError;

/// Why a decision stops.
pub(crate) type Pause = zerohop_layer_procedure::Pause<ObjectError>;

/// The records that an attempt has read.
pub(crate) type Reads = zerohop_layer_procedure::Reads<ObjectError>;
