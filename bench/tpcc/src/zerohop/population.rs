//! Writes the initial population: rows of a table together as one transaction without reads, several transactions at a time.

use std::time::Duration;

use bench_common::driver::print_error;
use bench_common::process::now;
use tokio::task::JoinSet;

use super::{Database, KEY_ONLY, TABLES, Table, TransactionError};
use crate::codec::encode;
use crate::keys;
use crate::limits;
use crate::population::{Scale, TableRow};
use crate::random::Random;

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// Rows that are not written yet, and transactions under way.
struct Loader {
    database: Database,
    /// In the order of [`TABLES`].
    pending: Vec<Rows>,
    under_way: JoinSet<Result<(), TransactionError>>,
    /// Rows that were handed to transactions.
    written: u64,
}

/// Writes all rows and shows the progress.
pub(super) async fn write(
    database: &Database,
    scale: Scale,
    seed: u64,
    time: u64,
) -> Result<(), TransactionError> {
    let pending = TABLES.iter().map(|_| Rows::new()).collect();
    let under_way = JoinSet::new();
    let mut loader = Loader { database: database.clone(), pending, under_way, written: 0 };
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
    for table in 0..TABLES.len() {
        loader.flush(table).await?;
    }
    loader.wait_until(0).await?;
    let took = (now() - started).as_secs_f64();
    print_error(&format!("population: {} records in {took:.1} s", loader.written));
    Ok(())
}

impl Loader {
    async fn add_all(&mut self, rows: &mut Vec<TableRow>) -> Result<(), TransactionError> {
        for row in rows.drain(..) {
            for (table, key, value) in records(&row) {
                self.pending[table as usize].push((key, value));
                if self.pending[table as usize].len() >= limits::POPULATION_ROWS {
                    self.flush(table as usize).await?;
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
        let database = self.database.clone();
        self.under_way.spawn_local(async move {
            let transaction = database.client.begin();
            for (key, value) in &rows {
                transaction.insert(&database.keyspaces[table], key, value)?;
            }
            transaction.commit().await?;
            Ok(())
        });
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

/// The records of a row.
fn records(row: &TableRow) -> Vec<(Table, Vec<u8>, Vec<u8>)> {
    match row {
        TableRow::Warehouse(number, site) => {
            vec![(Table::Warehouse, keys::warehouse(*number, keys::SITE), encode(site))]
        }
        TableRow::WarehouseTotal(number, total) => {
            vec![(Table::Warehouse, keys::warehouse(*number, keys::TOTAL), encode(total))]
        }
        TableRow::District(district, site) => {
            vec![(Table::District, district.part(keys::SITE), encode(site))]
        }
        TableRow::DistrictTotal(district, total) => {
            vec![(Table::District, district.part(keys::TOTAL), encode(total))]
        }
        TableRow::NextOrder(district, next) => {
            vec![(Table::District, district.part(keys::NEXT_ORDER), encode(next))]
        }
        TableRow::Customer(key, customer) => {
            let name = key.district.name(&customer.name.last, &customer.name.first, key.customer);
            vec![
                (Table::Customer, key.row(), encode(customer)),
                (Table::CustomerByName, name, KEY_ONLY.to_vec()),
            ]
        }
        TableRow::History(district, number, payment) => {
            vec![(Table::History, district.history(*number), encode(payment))]
        }
        TableRow::Order(key, order) => vec![
            (Table::Orders, key.row(), encode(order)),
            (
                Table::OrdersByCustomer,
                key.district.customer(order.customer).order(key.order),
                KEY_ONLY.to_vec(),
            ),
        ],
        TableRow::NewOrder(key) => vec![(Table::NewOrder, key.row(), KEY_ONLY.to_vec())],
        TableRow::OrderLine(key, number, line) => vec![(Table::OrderLine, key.line(*number), encode(line))],
        TableRow::Item(number, item) => vec![(Table::Item, keys::item(*number), encode(item))],
        TableRow::Stock(warehouse, item, stock) => {
            vec![(Table::Stock, keys::stock(*warehouse, *item), encode(stock))]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::{self, AcknowledgedRows};
    use crate::tables::Tables;

    #[test]
    fn records_are_parsed_into_the_rows_they_were_made_of() {
        let scale = Scale { warehouses: 1, customers: 10, items: 5 };
        let (mut random, mut rows) = (Random::new(1), Vec::new());
        scale.items(&mut random, &mut |row| rows.push(row));
        scale.warehouse(1, &mut random, &mut |row| rows.push(row));
        for district in scale.districts() {
            scale.district(district, 1, &mut random, &mut |row| rows.push(row));
        }
        let mut tables = Tables::default();
        for (table, key, value) in rows.iter().flat_map(records) {
            tables.add_record(table, &key, &value).unwrap();
        }
        assert_eq!((tables.customers.len(), tables.orders.len(), tables.new_orders.len()), (100, 100, 30));
        assert_eq!((tables.names, tables.customer_orders.len(), tables.payments.len()), (100, 100, 100));
        let results = conditions::check(&tables, Some(&AcknowledgedRows::of(scale)));
        assert!(results.iter().all(|result| result.violations == 0), "{results:?}");
        assert!(tables.add_record(Table::Orders, &[1, 2], &[1]).is_err());
    }
}
