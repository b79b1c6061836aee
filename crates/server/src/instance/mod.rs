//! An instance on its thread: the pure one (`shard`) as the service of a reactor.
//!
//! ```text
//!   reactor ── request, closed, end_of_batch, upkeep ──> InstanceService ──> shard::Instance
//!   manager ── Notice ──────────────────────────────────>       │
//!   manager <── Job (a control request that came here) ─────────┘
//! ```
//!
//! This layer makes no decisions, it only translates connection ids, times and answers. Its only own function is to forward control requests, which
//! only the manager can answer.

mod closed;
mod histogram;
mod latencies;
mod life;
mod limits;
mod links;
mod notice;
mod outlet;
mod service;
mod shares;
#[cfg(debug_assertions)]
mod test_break;
#[cfg(test)]
mod tests;
mod thread;
mod timestamp_bounds;

#[cfg(test)]
pub(crate) use self::closed::encode as closed_bytes;
pub(crate) use self::closed::read_mark as closed_mark;
#[cfg(test)]
pub(crate) use self::life::LifeRecord;
pub(crate) use self::notice::{Figures, InstanceMessage, InstanceNotice};
pub(crate) use self::outlet::{Outlet, OutletEffects};
pub(crate) use self::thread::{
    EndedInstance, InstancePlan, OpenResult, ReadyToServe, RecoveredData, panic_message, start,
};
