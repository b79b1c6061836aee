//! The real shell of a server: the only crate on the server side that opens its sockets and files, reads its clock and starts its threads.
//!
//! ```text
//!   server     a node: its data folder, its instances, its manager; started and stopped together
//!   manager    a node's control requests, map changes, status and metrics, on tokio
//!   instance   a thread that serves records: the pure instance as the service of a reactor
//!   redis      clients of Redis: their commands run as units, forwarded between the instances of a node
//!   logging    the structured log
//!   access     what a connection may do: everything, or what its token permits
//! ```

mod access;
pub mod hosts;
mod instance;
pub mod logging;
mod manager;
mod redis;
pub mod server;
