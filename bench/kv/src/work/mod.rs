//! The work of one run on a server.

pub(crate) mod client;
mod idle;
mod load;

use bench_common::failure::Failure;
use bench_common::protocol::Op;
use bench_common::reading::Measurement;

use crate::subjects::{Place, Subject};

/// The kind of work.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    /// Lookups, removes and inserts in turn, by the load generator.
    Load {
        connections: usize,
        /// Requests outstanding on each.
        depth: usize,
        /// Records of each turn of lookups, removes and inserts.
        chunk: usize,
    },
    /// Inserts by the Rust client.
    Client(client::ClientUse),
    /// Nothing.
    Idle,
}

/// The three operations, in the order of the tables.
pub(crate) const OPERATIONS: [(Op, &str); 3] =
    [(Op::Insert, "insert"), (Op::Lookup, "lookup"), (Op::Remove, "remove")];

/// The options of a run.
pub(crate) struct Orders {
    pub(crate) place: Place,
    pub(crate) records: u32,
    /// Measured time of each operation.
    pub(crate) seconds: f64,
    /// The round: it draws other records in each, the same for all contenders.
    pub(crate) seed: u64,
}

/// Starts the server, does the work, ends the server.
pub(crate) fn run(subject: Subject, work: Work, orders: &Orders) -> Result<Measurement, Failure> {
    let mut running = subject.start(&orders.place)?;
    let reading = match work {
        Work::Idle => idle::rest(&running),
        Work::Load { connections, depth, chunk } => {
            let load = load::Load { connections, depth, chunk };
            subject.create_keyspace(&running).and_then(|()| load.put_on(subject, &running, orders))
        }
        Work::Client(way) => {
            subject.create_keyspace(&running).and_then(|()| client::insert(way, &running, orders))
        }
    };
    // A server that has ended explains more than the load's error.
    running.server.check()?;
    reading
}
