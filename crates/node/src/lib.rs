//! The real shell of a server: alone opens its sockets and files, reads its clock and starts its threads.
//!
//! ```text
//!   server     a node: its data folder, its instances, its manager; started and stopped together
//!   manager    a node's control requests, map changes, status and metrics, on tokio
//!   instance   a thread that serves records: the pure instance as the service of a reactor
//!   redis      clients of Redis: their commands run as units, forwarded between the instances of a node
//!   embedded   a store in this process: worker threads, each the one owner of an engine
//!   reactor    sockets: frames in, requests to a service, answers out
//!   disk       real files behind the engine's Disk trait
//!   logging    where the structured log goes
//!   clock      the time of day, durations, timestamps
//!   entropy    random ids
//!   access     what a connection may do: everything, or what its token permits
//!   proofs     the cluster's secret: asking who connects, and answering whom this connects to
//!   strangers  connections that have proved nothing yet, and whose place a newer one gets
//!   tls        whether a node speaks TLS, and with whom
//! ```

mod access;
pub mod clock;
pub mod descriptors;
pub mod disk;
pub mod embedded;
mod entropy;
pub mod hosts;
mod instance;
pub mod logging;
mod manager;
mod predecessor;
mod proofs;
pub mod reactor;
mod redis;
pub mod server;
mod tls;
mod unproven;
