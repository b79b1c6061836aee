//! The real shell of a server: a node with its folder, its manager and its instances, each on a thread of its own. Sockets are those of the reactor
//! and of the manager.
//!
//! ```text
//!   server     a node: its data folder, its instances, its manager; started and stopped together
//!   manager    a node's control requests, map changes, status and metrics, on tokio
//!   instance   a thread that serves records: the pure instance as the service of a reactor (`zerohop_reactor`)
//!   saved      the files of a node, byte by byte; folder: the folder that has them
//!   instance/gateway  what an instance and a gateway have to do with each other
//!   logging    the structured log
//!   access     what a connection may do: everything, or what its token permits
//! ```

mod access;
mod control_job;
mod disk_reserve;
mod error;
mod folder;
pub mod hosts;
mod instance;
pub mod limits;
pub mod logging;
mod manager;
mod memory_limit;
mod node_files;
mod partition_limits;
mod process;
mod server;

pub use self::instance::gateway;
pub use self::manager::Stream as ManagerStream;
pub use self::partition_limits::PartitionLimits;
pub use self::process::is_signal_ignored;
pub use self::server::{
    ClusterOptions, ConnectionLimits, FolderOwner, ForcedCluster, JoinMethod, LocalCluster, LocalStart,
    REDIS_TIME_OUT_DEFAULT, REDIS_TIME_OUT_MAX, REDIS_TIME_OUT_MIN, SAVED_BYTES_MAX, SavedError, SavedNode,
    ServeError, Server, ServerOptions, StartError, StopHandle, TlsOptions, check_readable,
    force_new_control_group, holds_data, instances_default, new_cluster, node_folder, owner,
    process_of_original,
};
