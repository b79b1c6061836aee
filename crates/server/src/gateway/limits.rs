//! Limits between an instance and its gateway, each with its reason.

/// Bytes of units for one other instance of the node in one batch; further units wait for the next.
pub(super) const OUTGOING_BYTES_MAX: usize = 64 << 20;
