//! Limits of the benchmark, with their reasons.

use std::time::Duration;

/// Time limit of each operation of a client.
pub(crate) const OPERATION: Duration = Duration::from_secs(30);

/// Rows of one transaction of the population: some 100 KiB, so that no request occupies a server for long.
pub(crate) const POPULATION_ROWS: usize = 500;

/// Transactions of the population under way.
pub(crate) const POPULATION_TRANSACTIONS: usize = 8;

/// Attempts at a transaction, after which it has failed.
pub(crate) const ATTEMPTS: u32 = 200;

/// The pause after the first conflict; it doubles with each one.
pub(crate) const PAUSE_LEAST: Duration = Duration::from_micros(500);

/// The longest pause: longer than a transaction of ten districts takes.
pub(crate) const PAUSE_GREATEST: Duration = Duration::from_millis(64);

/// Errors that the report describes; the others are counted.
pub(crate) const ERRORS: usize = 5;

/// One has some 560,000 records beside those of the items; a node of the benchmarks has 1 GiB of memory for its data.
pub(crate) const WAREHOUSES_MAX: u32 = 64;
