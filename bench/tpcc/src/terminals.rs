//! The terminals: each makes one transaction after the other without think time, and repeats it after a conflict with the same input.

use std::time::{Duration, Instant};

use bench_common::histogram::Histogram;
use bench_common::process::now;
use tokio::task::JoinSet;

use crate::inputs::{InputSource, TransactionKind};
use crate::keys::DistrictKey;
use crate::limits;
use crate::population::{DISTRICTS, Scale};
use crate::random::Random;
use crate::zerohop::{Database, Outcome, TransactionError};

/// The transactions of one kind.
#[derive(Clone, Default)]
pub(crate) struct KindCounts {
    /// Response times, repetitions included, of those that ended in the measured time.
    pub(crate) latencies: Histogram,
    /// Acknowledged as committed, also after the measured time.
    pub(crate) committed: u64,
    /// Of a New-Order with an unused item.
    pub(crate) rolled_back: u64,
    /// Attempts that conflicted, and were repeated.
    pub(crate) retries: u64,
    /// Not done: too many conflicts, or another error.
    pub(crate) failed: u64,
    /// Done or not.
    pub(crate) unknown: u64,
}

/// What the terminals counted.
pub(crate) struct TerminalCounts {
    /// In the order of [`TransactionKind::MIX`].
    pub(crate) kinds: Vec<KindCounts>,
    /// Delivered orders, also after the measured time.
    pub(crate) delivered: Vec<DistrictKey>,
    /// Transactions and New-Orders that ended in each second.
    pub(crate) seconds: Vec<(u64, u64)>,
    /// The first errors.
    pub(crate) errors: Vec<String>,
}

/// How the terminals run.
#[derive(Clone, Copy)]
pub(crate) struct Orders {
    pub(crate) scale: Scale,
    /// Terminals of a warehouse.
    pub(crate) terminals: u32,
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
    /// Milliseconds since 1970 at the beginning.
    pub(crate) time: u64,
}

impl TerminalCounts {
    fn new(seconds: u64) -> TerminalCounts {
        let kinds = vec![KindCounts::default(); TransactionKind::MIX.len()];
        let seconds = vec![(0, 0); seconds as usize];
        TerminalCounts { kinds, delivered: Vec::new(), seconds, errors: Vec::new() }
    }

    /// The counts of one kind.
    pub(crate) fn of(&self, kind: TransactionKind) -> &KindCounts {
        &self.kinds[kind as usize]
    }

    fn add(&mut self, other: TerminalCounts) {
        for (own, more) in self.kinds.iter_mut().zip(other.kinds) {
            own.latencies.add(&more.latencies);
            own.committed += more.committed;
            own.rolled_back += more.rolled_back;
            own.retries += more.retries;
            own.failed += more.failed;
            own.unknown += more.unknown;
        }
        self.delivered.extend(other.delivered);
        for (own, more) in self.seconds.iter_mut().zip(other.seconds) {
            (own.0, own.1) = (own.0 + more.0, own.1 + more.1);
        }
        self.errors.extend(other.errors);
        self.errors.truncate(limits::ERRORS);
    }

    fn error(&mut self, kind: TransactionKind, what: &str) {
        if self.errors.len() < limits::ERRORS {
            self.errors.push(format!("{}: {what}", kind.name()));
        }
    }
}

/// Runs all terminals of all warehouses, those of a warehouse on one of `databases` in turn.
pub(crate) async fn run(databases: &[Database], orders: Orders) -> TerminalCounts {
    let started = now();
    let mut terminals = JoinSet::new();
    let places = (1..=orders.scale.warehouses)
        .flat_map(|warehouse| (0..orders.terminals).map(move |terminal| (warehouse, terminal)));
    for (number, (warehouse, terminal)) in (1..).zip(places) {
        let district = (terminal % u32::from(DISTRICTS)) as u8 + 1;
        let home = DistrictKey { warehouse, district };
        let database = databases[warehouse as usize % databases.len()].clone();
        let seed = orders.seed ^ number << 32;
        let terminal = Terminal {
            number,
            database,
            orders,
            started,
            inputs: InputSource::new(orders.scale, home, seed),
            random: Random::new(!seed),
        };
        terminals.spawn_local(terminal.run());
    }
    let mut all = TerminalCounts::new(orders.seconds);
    while let Some(ended) = terminals.join_next().await {
        match ended {
            Ok(measured) => all.add(measured),
            Err(error) => all.errors.push(error.to_string()),
        }
    }
    all
}

struct Terminal {
    /// From one.
    number: u64,
    database: Database,
    orders: Orders,
    started: Instant,
    inputs: InputSource,
    random: Random,
}

impl Terminal {
    async fn run(mut self) -> TerminalCounts {
        let mut measured = TerminalCounts::new(self.orders.seconds);
        let end = self.started + Duration::from_secs(self.orders.seconds);
        for count in 0_u64.. {
            let begun = now();
            if begun >= end {
                break;
            }
            let (kind, input) = self.inputs.next();
            let time = self.orders.time + (begun - self.started).as_millis() as u64;
            let mut attempt = 0;
            let result = loop {
                // The numbers of the population are below 2^32.
                let result = self.database.attempt(&input, time, self.number << 32 | count).await;
                match result {
                    Err(error) if error.is_conflict() && attempt < limits::ATTEMPTS => {
                        measured.kinds[kind as usize].retries += 1;
                        self.pause(attempt).await;
                        attempt += 1;
                    }
                    result => break result,
                }
            };
            let is_done = self.count(&mut measured, kind, result);
            let ended = now();
            if is_done && ended < end {
                let latency = (ended - begun).as_nanos() as u64;
                measured.kinds[kind as usize].latencies.record(latency, 1);
                if let Some(second) = measured.seconds.get_mut((ended - self.started).as_secs() as usize) {
                    second.0 += 1;
                    second.1 += u64::from(kind == TransactionKind::NewOrder);
                }
            }
        }
        measured
    }

    /// Counts a transaction that has ended. Whether it was done.
    fn count(
        &self,
        measured: &mut TerminalCounts,
        kind: TransactionKind,
        result: Result<Outcome, TransactionError>,
    ) -> bool {
        let counts = &mut measured.kinds[kind as usize];
        match result {
            Ok(Outcome::Committed) => counts.committed += 1,
            Ok(Outcome::RolledBack) => counts.rolled_back += 1,
            Ok(Outcome::Delivered(districts)) => {
                counts.committed += 1;
                measured.delivered.extend(districts);
            }
            Err(error) => {
                match error.is_unknown() {
                    true => counts.unknown += 1,
                    false => counts.failed += 1,
                }
                measured.error(kind, &error.to_string());
                return false;
            }
        }
        true
    }

    /// Waits a random time, up to one that doubles with the attempts.
    async fn pause(&mut self, attempt: u32) {
        let greatest = limits::PAUSE_LEAST.saturating_mul(1 << attempt.min(16)).min(limits::PAUSE_GREATEST);
        let greatest = greatest.as_micros() as u64;
        let drawn = self.random.within(greatest / 2, greatest);
        tokio::time::sleep(Duration::from_micros(drawn)).await;
    }
}
