//! What was read of a record last.

use zerohop_engine::Hint;

use crate::overlay::Shape;

/// The result of reading a record, as long as the atomic batch has changed nothing since.
#[derive(Debug, Default)]
pub(crate) struct RecordGlimpse {
    pub(crate) shape: Option<Shape>,
    pub(crate) hint: Option<Hint>,
}
