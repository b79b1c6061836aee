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

/// Parts of the measured time of which rates and response times are kept: points of a curve that a picture can show.
pub(crate) const SLOTS: u64 = 180;

/// Rows of one answer of a scan of PostgreSQL.
pub(crate) const SCANNED_ROWS: usize = 10_000;

/// Connections of PostgreSQL beside those of the terminals: of the population, of the scan, and those of superusers.
pub(crate) const POSTGRESQL_CONNECTIONS: u32 = 20;

/// Terminals of PostgreSQL: each has a process of the server.
pub(crate) const POSTGRESQL_TERMINALS_MAX: u32 = 1000;

/// Time limit of a command that splits or moves a region.
pub(crate) const MOVE: Duration = Duration::from_secs(120);

/// Warehouses whose region of CUSTOMER is split: the splits must fit into a part of the run.
pub(crate) const SPLIT_WAREHOUSES: u32 = 4;

/// Most interleaved rounds.
pub(crate) const ROUNDS_MAX: u64 = 50;
