//! What is done to a cluster, in the process of one run.

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

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Inserts, then lookups, on a keyspace that is set so.
    Load(Setting),
    /// The same on etcd.
    LoadEtcd {
        /// All clients at the leader; else the members share them.
        is_at_leader: bool,
    },
    /// A node is killed under load.
    Failover,
    /// Each node is stopped and started again under load, as many times around as is told.
    Rolling,
    /// A partition with such a log is moved under load.
    Move(Log),
    /// From nothing to serving.
    Start,
    /// Transactions of two keys, and of more, on a keyspace that is set so.
    Transact(Setting),
    /// Those of two keys on etcd.
    TransactEtcd,
}

/// What a run is told.
pub(crate) struct Orders {
    pub(crate) records: u32,
    /// Measured time of each operation.
    pub(crate) seconds: f64,
    /// Times around, of [`Work::Rolling`].
    pub(crate) turns: usize,
    /// Bytes of the records that fill the partition, of [`Work::Move`].
    pub(crate) mebibytes: u32,
    /// Bytes of each of them.
    pub(crate) value_bytes: u32,
    /// Operations a second meanwhile.
    pub(crate) rate: u32,
    /// The round: other records in each, the same for all contenders.
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
