//! What clients ask for.

pub mod operation;
pub mod tokens;
