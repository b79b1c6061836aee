//! Code that the benchmarks share.
//!
//! ```text
//!   machine, statistics, markdown    where it was measured, medians over rounds, tables
//!   driver, rounds, reading, report  interleaved runs, their measurements, targets
//!   process, printed, usage          children that end with their parent, and their resource usage
//!   servers, ceph, postgresql        nodes of zerohop; RADOS of one OSD; a server of PostgreSQL
//!   generator, protocol, workload    the load: connections of one thread, checked answers
//! ```

pub mod ceph;
pub mod driver;
pub mod failure;
pub mod generator;
pub mod histogram;
pub mod limits;
mod machine;
pub mod maps;
mod markdown;
pub mod postgresql;
mod printed;
pub mod process;
pub mod protocol;
pub mod readiness;
pub mod reading;
pub mod report;
pub mod rounds;
pub mod servers;
mod statistics;
pub mod usage;
pub mod workload;

pub use machine::Machine;
pub use markdown::table;
pub use printed::ServerOutput;
pub use statistics::Spread;
