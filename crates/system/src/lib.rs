//! What a process gets from its operating system, beside sockets and data files: time, random bytes and descriptors.
//!
//! ```text
//!   clock        the time of day, durations, timestamps
//!   entropy      random ids
//!   descriptors  the division of the process's descriptors
//!   predecessor  waits for the end of a killed process that still has a folder or a port
//!   refused_connections  counts those of the last minute
//!   repeated     bounds the log lines about an event that repeats
//! ```

pub mod clock;
pub mod descriptors;
pub mod entropy;
pub mod predecessor;
pub mod refused_connections;
pub mod repeated;
