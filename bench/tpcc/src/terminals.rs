//! The terminals: each makes one transaction after the other without think time, and repeats it after a conflict with the same input.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bench_common::histogram::Histogram;
use bench_common::process::now;
use tokio::task::JoinSet;

use crate::database::{DatabaseConnection, Outcome, TransactionError};
use crate::inputs::{InputSource, TransactionKind};
use crate::keys::DistrictKey;
use crate::limits;
use crate::population::{DISTRICTS, Scale};
use crate::random::Random;

/// The transactions of one kind.
#[derive(Clone, Default)]
pub(crate) struct KindCounts {
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

/// Response times by kind, repetitions included, of the transactions that ended in a part of the measured time; in the order of
/// [`TransactionKind::MIX`].
pub(crate) type Latencies = [Histogram; TransactionKind::MIX.len()];

/// What the terminals counted.
pub(crate) struct TerminalCounts {
    /// In the order of [`TransactionKind::MIX`].
    pub(crate) kinds: Vec<KindCounts>,
    /// Delivered orders, also after the measured time.
    pub(crate) delivered: Vec<DistrictKey>,
    /// Of each slot of the measured time.
    pub(crate) slots: Vec<Latencies>,
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

impl Orders {
    /// The length of a slot: a second, or more in a long run.
    pub(crate) fn slot_seconds(self) -> u64 {
        self.seconds.div_ceil(limits::SLOTS)
    }

    /// All terminals of all warehouses.
    pub(crate) fn all_terminals(self) -> u32 {
        self.scale.warehouses * self.terminals
    }
}

impl TerminalCounts {
    pub(crate) fn new(orders: Orders) -> TerminalCounts {
        let kinds = vec![KindCounts::default(); TransactionKind::MIX.len()];
        let slots =
            (0..orders.seconds.div_ceil(orders.slot_seconds())).map(|_| Latencies::default()).collect();
        TerminalCounts { kinds, delivered: Vec::new(), slots, errors: Vec::new() }
    }

    /// The counts of one kind.
    pub(crate) fn of(&self, kind: TransactionKind) -> &KindCounts {
        &self.kinds[kind as usize]
    }

    /// Response times of one kind in the measured time.
    pub(crate) fn latencies(&self, kind: TransactionKind) -> Histogram {
        let mut all = Histogram::new();
        self.slots.iter().for_each(|slot| all.add(&slot[kind as usize]));
        all
    }

    /// Transactions that ended in the measured time.
    pub(crate) fn ended(&self) -> u64 {
        self.slots.iter().flatten().map(Histogram::count).sum()
    }

    fn error(&mut self, what: String) {
        if self.errors.len() < limits::ERRORS {
            self.errors.push(what);
        }
    }

    /// Counts a transaction that has ended. Whether it was done.
    fn count(&mut self, kind: TransactionKind, result: Result<Outcome, TransactionError>) -> bool {
        let counts = &mut self.kinds[kind as usize];
        match result {
            Ok(Outcome::Committed) => counts.committed += 1,
            Ok(Outcome::RolledBack) => counts.rolled_back += 1,
            Ok(Outcome::Delivered(districts)) => {
                counts.committed += 1;
                self.delivered.extend(districts);
            }
            Err(error) => {
                match error.is_unknown() {
                    true => counts.unknown += 1,
                    false => counts.failed += 1,
                }
                self.error(format!("{}: {error}", kind.name()));
                return false;
            }
        }
        true
    }
}

/// Runs all terminals from this time on, each on its connection: those of the first warehouse come first.
pub(crate) async fn run<S: DatabaseConnection>(
    connections: Vec<S>,
    orders: Orders,
    started: Instant,
) -> TerminalCounts {
    let measured = Rc::new(RefCell::new(TerminalCounts::new(orders)));
    let mut terminals = JoinSet::new();
    for (number, connection) in (0_u32..).zip(connections) {
        let district = (number % orders.terminals % u32::from(DISTRICTS)) as u8 + 1;
        let home = DistrictKey { warehouse: number / orders.terminals + 1, district };
        let number = u64::from(number) + 1;
        let seed = orders.seed ^ number << 32;
        let terminal = Terminal {
            number,
            connection,
            orders,
            started,
            inputs: InputSource::new(orders.scale, home, seed),
            random: Random::new(!seed),
            measured: Rc::clone(&measured),
        };
        terminals.spawn_local(terminal.run());
    }
    while let Some(ended) = terminals.join_next().await {
        if let Err(error) = ended {
            measured.borrow_mut().errors.push(error.to_string());
        }
    }
    measured.replace(TerminalCounts::new(orders))
}

struct Terminal<S> {
    /// From one.
    number: u64,
    connection: S,
    orders: Orders,
    started: Instant,
    inputs: InputSource,
    random: Random,
    /// Of all terminals.
    measured: Rc<RefCell<TerminalCounts>>,
}

impl<S: DatabaseConnection> Terminal<S> {
    async fn run(mut self) {
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
                let result = self.connection.attempt(&input, time, self.number << 32 | count).await;
                match result {
                    Err(error) if error.is_conflict() && attempt < limits::ATTEMPTS => {
                        self.measured.borrow_mut().kinds[kind as usize].retries += 1;
                        self.pause(attempt).await;
                        attempt += 1;
                    }
                    result => break result,
                }
            };
            let ended = now();
            let mut measured = self.measured.borrow_mut();
            if measured.count(kind, result) && ended < end {
                let latency = (ended - begun).as_nanos() as u64;
                let slot = (ended - self.started).as_secs() / self.orders.slot_seconds();
                measured.slots[slot as usize][kind as usize].record(latency, 1);
            }
        }
    }

    /// Waits a random time, up to one that doubles with the attempts.
    async fn pause(&mut self, attempt: u32) {
        let greatest = limits::PAUSE_LEAST.saturating_mul(1 << attempt.min(16)).min(limits::PAUSE_GREATEST);
        let greatest = greatest.as_micros() as u64;
        let drawn = self.random.within(greatest / 2, greatest);
        tokio::time::sleep(Duration::from_micros(drawn)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::Input;
    use std::cell::Cell;
    use tokio::runtime::Builder;
    use tokio::task::LocalSet;

    /// A database of which every attempt takes a millisecond, and the first one of each transaction conflicts.
    #[derive(Clone)]
    struct Conflicting {
        payments: Rc<RefCell<Vec<u64>>>,
        has_conflicted: Rc<Cell<bool>>,
    }

    impl DatabaseConnection for Conflicting {
        async fn attempt(&self, _: &Input, _: u64, payment: u64) -> Result<Outcome, TransactionError> {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if !self.has_conflicted.replace(!self.has_conflicted.get()) {
                return Err(TransactionError::Changed);
            }
            self.payments.borrow_mut().push(payment);
            Ok(Outcome::Committed)
        }
    }

    #[test]
    fn conflicts_are_repeated_with_the_same_number_and_counted() {
        let scale = Scale { warehouses: 2, customers: 10, items: 20 };
        let orders = Orders { scale, terminals: 2, seconds: 1, seed: 1, time: 0 };
        let connections: Vec<Conflicting> =
            (0..4).map(|_| Conflicting { payments: Rc::default(), has_conflicted: Rc::default() }).collect();
        let payments: Vec<_> = connections.iter().map(|one| Rc::clone(&one.payments)).collect();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let measured = LocalSet::new().block_on(&runtime, run(connections, orders, now()));
        let sum = |of: fn(&KindCounts) -> u64| measured.kinds.iter().map(of).sum::<u64>();
        let done = sum(|counts| counts.committed);
        assert!(done >= 4 && done == sum(|counts| counts.retries), "{done}");
        // At most the last one of each terminal ended after the measured time.
        assert!((done - 4..=done).contains(&measured.ended()), "{done} {}", measured.ended());
        for (terminal, numbers) in (1..).zip(payments) {
            let expected: Vec<u64> =
                (0..).map(|count| terminal << 32 | count).take(numbers.borrow().len()).collect();
            assert_eq!(*numbers.borrow(), expected);
        }
    }

    #[test]
    fn long_run_has_few_slots() {
        let scale = Scale { warehouses: 1, customers: 10, items: 20 };
        let orders = |seconds| Orders { scale, terminals: 1, seconds, seed: 1, time: 0 };
        assert_eq!((orders(60).slot_seconds(), TerminalCounts::new(orders(60)).slots.len()), (1, 60));
        assert_eq!((orders(401).slot_seconds(), TerminalCounts::new(orders(401)).slots.len()), (3, 134));
    }
}
