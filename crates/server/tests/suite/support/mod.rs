//! What all tests of nodes share: ports, and waiting.

pub(crate) mod give_up;
pub(crate) mod ports;
pub(crate) mod waiting;
