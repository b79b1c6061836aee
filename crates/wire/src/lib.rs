//! What travels between clients, nodes and instances: ids, timestamps, limits, error codes and frames.
//!
//! This is the ground floor. It encodes and decodes; it opens no socket, reads no clock and keeps no state.

pub mod ids;
