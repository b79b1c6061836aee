//! The real shell of a server: alone opens its sockets and files, reads its clock and starts its threads.
//!
//! ```text
//!   embedded   a store in this process: worker threads, each the one owner of an engine
//!   reactor    sockets: frames in, requests to a service, answers out
//!   disk       real files behind the engine's Disk trait
//!   clock      the time of day, durations, timestamps
//! ```

pub mod clock;
pub mod disk;
pub mod embedded;
pub mod reactor;
