//! The records of the initial population.

use super::{Database, KEY_ONLY, TABLES, Table, TransactionError};
use crate::codec::encode;
use crate::keys;
use crate::loader::BatchWriter;
use crate::population::TableRow;

impl BatchWriter for Database {
    /// Key and value.
    type Stored = (Vec<u8>, Vec<u8>);

    const TABLES: usize = TABLES.len();

    fn stored(row: &TableRow) -> Vec<(usize, Self::Stored)> {
        records(row).into_iter().map(|(table, key, value)| (table as usize, (key, value))).collect()
    }

    async fn write(&self, table: usize, rows: Vec<Self::Stored>) -> Result<(), TransactionError> {
        let transaction = self.client.begin();
        for (key, value) in &rows {
            transaction.insert(&self.keyspaces[table], key, value)?;
        }
        transaction.commit().await?;
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
    use crate::population::Scale;
    use crate::random::Random;
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
