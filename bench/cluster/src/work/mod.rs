//! The work of one run on a cluster.

mod clients;
mod copying;
mod faults;
mod load;
mod moving;
mod paced;
mod start;
mod transactions;

use bench_common::failure::Failure;
use bench_common::reading::Measurement;

use crate::servers::{Place, Setting};
pub(crate) use moving::Log;

/// The kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Inserts, then lookups, on a keyspace with these settings.
    Load(Setting),
    /// The same on etcd.
    LoadEtcd {
        /// All clients at the leader; else the members share them.
        is_at_leader: bool,
    },
    /// A node is killed under load.
    Failover,
    /// Each node is stopped and started again under load, for a number of passes.
    Rolling,
    /// A partition with such a log is moved under load.
    Move(Log),
    /// A start from nothing.
    Start,
    /// Transactions of two keys, and of more, on a keyspace with these settings.
    Transact(Setting),
    /// Transactions of two keys on etcd.
    TransactEtcd,
}

/// The options of a run.
pub(crate) struct Orders {
    pub(crate) records: u32,
    /// Measured time of each operation.
    pub(crate) seconds: f64,
    /// Passes of [`Work::Rolling`].
    pub(crate) turns: usize,
    /// Bytes of the records that fill the partition, of [`Work::Move`].
    pub(crate) mebibytes: u32,
    /// Bytes of each of these records.
    pub(crate) value_bytes: u32,
    /// Operations per second during the move.
    pub(crate) rate: u32,
    /// The round: it draws other records in each, the same for all contenders.
    pub(crate) seed: u64,
}

/// Starts the servers, does the work, ends the servers.
pub(crate) fn run(work: Work, place: Place, orders: &Orders) -> Result<Measurement, Failure> {
    match work {
        Work::Load(setting) => load::on_zerohop(setting, place, orders),
        Work::LoadEtcd { is_at_leader } => load::on_etcd(is_at_leader, place, orders),
        Work::Failover => faults::failover(place, orders),
        Work::Rolling => faults::rolling(place, orders),
        Work::Move(log) => moving::run(log, place, orders),
        Work::Start => start::from_nothing(&place),
        Work::Transact(setting) => transactions::on_zerohop(setting, place, orders),
        Work::TransactEtcd => transactions::on_etcd(place, orders),
    }
}
