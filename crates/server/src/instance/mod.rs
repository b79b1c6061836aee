//! An instance on its thread: the pure one (`shard`) as the service of a reactor.
//!
//! ```text
//!   reactor ── request, closed, end_of_batch, maintenance ──> InstanceService ──> shard::Instance
//!   manager ── Notice ──────────────────────────────────>       │
//!   manager <── Job (a control request that came here) ─────────┘
//! ```
//!
//! This layer makes no decisions, it only translates connection ids, times and answers. Its only own function is to forward control requests, which
//! only the manager can answer.

pub mod gateway;
mod latencies;
mod limits;
mod links;
mod notice;
mod outlet;
mod service;
mod shares;
mod stage_waits;
#[cfg(debug_assertions)]
mod test_break;
#[cfg(test)]
mod tests;
mod thread;
mod timestamp_bounds;
mod watches;

pub(crate) use self::notice::{Figures, InstanceMessage, InstanceNotice};
pub(crate) use self::stage_waits::by_stage;
pub(crate) use self::thread::{
    EndReport, InstanceExit, InstancePlan, OpenResult, ReadyToServe, RecoveredData, panic_message, start,
};
pub(crate) use self::watches::ClientWatch;
