//! Writes the initial population: rows of a table together as one transaction without reads, several transactions at a time.

use std::time::Duration;

use bench_common::driver::print_error;
use bench_common::process::now;
use tokio::task::JoinSet;

use crate::database::TransactionError;
use crate::limits;
use crate::population::{Scale, TableRow};
use crate::random::Random;

/// Stores the rows of a database.
pub(crate) trait BatchWriter: Clone + 'static {
    /// A row, or a part of one, in the form that the database takes.
    type Stored: 'static;

    /// The number of tables.
    const TABLES: usize;

    /// A row, with the number of the table of each of its parts.
    fn stored(row: &TableRow) -> Vec<(usize, Self::Stored)>;

    /// Writes these into a table as one transaction.
    async fn write(&self, table: usize, rows: Vec<Self::Stored>) -> Result<(), TransactionError>;
}

/// Rows that are not written yet, and transactions under way.
struct Loader<W: BatchWriter> {
    writer: W,
    pending: Vec<Vec<W::Stored>>,
    under_way: JoinSet<Result<(), TransactionError>>,
    /// Rows that were handed to transactions.
    written: u64,
}

/// Writes all rows and shows the progress.
pub(crate) async fn populate<W: BatchWriter>(
    writer: &W,
    scale: Scale,
    seed: u64,
    time: u64,
) -> Result<(), TransactionError> {
    let pending = (0..W::TABLES).map(|_| Vec::new()).collect();
    let under_way = JoinSet::new();
    let mut loader = Loader { writer: writer.clone(), pending, under_way, written: 0 };
    let mut random = Random::new(seed);
    let (started, mut shown) = (now(), now());
    let mut rows = Vec::new();
    scale.items(&mut random, &mut |row| rows.push(row));
    loader.add_all(&mut rows).await?;
    for district in scale.districts() {
        if district.district == 1 {
            scale.warehouse(district.warehouse, &mut random, &mut |row| rows.push(row));
        }
        scale.district(district, time, &mut random, &mut |row| rows.push(row));
        loader.add_all(&mut rows).await?;
        if now() - shown > Duration::from_secs(1) {
            shown = now();
            let percent = (loader.written * 100 / scale.records()).min(100);
            print_error(&format!("population: {percent} %, {} records", loader.written));
        }
    }
    for table in 0..W::TABLES {
        loader.flush(table).await?;
    }
    loader.wait_until(0).await?;
    let took = (now() - started).as_secs_f64();
    print_error(&format!("population: {} records in {took:.1} s", loader.written));
    Ok(())
}

impl<W: BatchWriter> Loader<W> {
    async fn add_all(&mut self, rows: &mut Vec<TableRow>) -> Result<(), TransactionError> {
        for row in rows.drain(..) {
            for (table, stored) in W::stored(&row) {
                self.pending[table].push(stored);
                if self.pending[table].len() >= limits::POPULATION_ROWS {
                    self.flush(table).await?;
                }
            }
        }
        Ok(())
    }

    async fn flush(&mut self, table: usize) -> Result<(), TransactionError> {
        let rows = std::mem::take(&mut self.pending[table]);
        if rows.is_empty() {
            return Ok(());
        }
        self.wait_until(limits::POPULATION_TRANSACTIONS - 1).await?;
        self.written += rows.len() as u64;
        let writer = self.writer.clone();
        self.under_way.spawn_local(async move { writer.write(table, rows).await });
        Ok(())
    }

    async fn wait_until(&mut self, count: usize) -> Result<(), TransactionError> {
        while self.under_way.len() > count {
            let Some(ended) = self.under_way.join_next().await else { break };
            ended.map_err(|error| TransactionError::WrongRow(error.to_string()))??;
        }
        Ok(())
    }
}
