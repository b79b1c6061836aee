//! The model; how it is explored is in `explore`.

use crate::bounds::Bounds;

/// See the crate.
#[derive(Clone, Debug)]
pub struct Model {
    /// How much of it is tried.
    pub bounds: Bounds,
}
