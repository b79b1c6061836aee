//! The full scan of the tables that the consistency conditions are checked on.

use super::{Database, TABLES, Table, TransactionError, row};
use crate::keys;
use crate::population::TableRow;
use crate::tables::Tables;

/// Reads all tables whose rows the conditions need.
pub(super) async fn read_tables(database: &Database) -> Result<Tables, TransactionError> {
    let mut tables = Tables::default();
    for (table, _) in TABLES.iter().filter(|(table, _)| ![Table::Item, Table::Stock].contains(table)) {
        let mut scan = database.keyspace(*table).scan_range::<&str>(..).values();
        while let Some(page) = scan.next_page().await? {
            for listed in page {
                tables.add_record(*table, &listed.key, &listed.value.unwrap_or_default())?;
            }
        }
    }
    Ok(tables)
}

impl Tables {
    /// Adds a record of a table.
    pub(super) fn add_record(
        &mut self,
        table: Table,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), TransactionError> {
        let wrong = || TransactionError::WrongRow(format!("{table:?} has the key {key:?}"));
        let added = match table {
            Table::Warehouse => match keys::parse_warehouse(key).ok_or_else(wrong)? {
                (number, keys::SITE) => TableRow::Warehouse(number, row(value)?),
                (number, keys::TOTAL) => TableRow::WarehouseTotal(number, row(value)?),
                _ => return Err(wrong()),
            },
            Table::District => match keys::parse_district(key).ok_or_else(wrong)? {
                (district, keys::SITE) => TableRow::District(district, row(value)?),
                (district, keys::TOTAL) => TableRow::DistrictTotal(district, row(value)?),
                (district, keys::NEXT_ORDER) => TableRow::NextOrder(district, row(value)?),
                _ => return Err(wrong()),
            },
            Table::Customer => TableRow::Customer(keys::parse_customer(key).ok_or_else(wrong)?, row(value)?),
            Table::History => {
                let (district, number) = keys::parse_history(key).ok_or_else(wrong)?;
                TableRow::History(district, number, row(value)?)
            }
            Table::Orders => TableRow::Order(keys::parse_order(key).ok_or_else(wrong)?, row(value)?),
            Table::NewOrder => TableRow::NewOrder(keys::parse_order(key).ok_or_else(wrong)?),
            Table::OrderLine => {
                let (order, number) = keys::parse_line(key).ok_or_else(wrong)?;
                TableRow::OrderLine(order, number, row(value)?)
            }
            Table::CustomerByName => {
                self.names += 1;
                return Ok(());
            }
            Table::OrdersByCustomer => {
                let (customer, number) =
                    key.split_at_checked(key.len().saturating_sub(4)).ok_or_else(wrong)?;
                let customer = keys::parse_customer(customer).ok_or_else(wrong)?;
                self.customer_orders.insert((customer, keys::last_number(number).ok_or_else(wrong)?));
                return Ok(());
            }
            Table::Item | Table::Stock => return Ok(()),
        };
        self.add(added);
        Ok(())
    }
}
