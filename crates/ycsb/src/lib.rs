//! The core workloads of YCSB over any store. One driver serves `zerohop bench ycsb` and the benchmark beside other systems.
//!
//! ```text
//!   run ── which operation: mix ── on which record: draws ── its key and value: records ──> store
//!    └── the answer is checked; the latency goes to the caller
//! ```
//!
//! A record is one value: an update writes it completely.

mod draws;
mod keyspace;
mod mix;
mod records;
mod run;
mod store;

pub use self::mix::{YcsbOperation, YcsbWorkload};
pub use self::records::YcsbRecords;
pub use self::run::{YcsbFailure, YcsbPart, YcsbRun, operate_all};
pub use self::store::{ScannedRecords, YcsbStore};
