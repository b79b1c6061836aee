//! The initial population: rows as values of an INSERT.

use std::fmt::{Display, Write as _};

use super::{Loading, TransactionError};
use crate::loader::BatchWriter;
use crate::population::TableRow;
use crate::rows::{Address, Site};

/// The tables, in the order of their numbers.
const TABLES: [&str; 12] = [
    "warehouse",
    "warehouse_total",
    "district",
    "district_total",
    "next_order",
    "customer",
    "history",
    "orders",
    "new_order",
    "order_line",
    "item",
    "stock",
];

impl BatchWriter for Loading {
    /// The values of a row, in brackets.
    type Stored = String;

    const TABLES: usize = TABLES.len();

    fn stored(row: &TableRow) -> Vec<(usize, String)> {
        let (table, values) = values(row);
        let number = TABLES.iter().position(|name| *name == table);
        number.map(|number| (number, values.finished())).into_iter().collect()
    }

    async fn write(&self, table: usize, rows: Vec<String>) -> Result<(), TransactionError> {
        let insert = format!("INSERT INTO {} VALUES {}", TABLES[table], rows.join(","));
        // Tables of the same connection wait for each other.
        Ok(self.connections[table % self.connections.len()].batch_execute(&insert).await?)
    }
}

/// The values of a row, as SQL.
struct RowValues {
    sql: String,
}

impl RowValues {
    fn of(first: impl Display) -> RowValues {
        RowValues { sql: format!("({first}") }
    }

    fn put(mut self, value: impl Display) -> RowValues {
        // Writing into a string does not fail.
        let _ = write!(self.sql, ",{value}");
        self
    }

    fn text(self, text: &str) -> RowValues {
        let quoted = quoted(text);
        self.put(quoted)
    }

    fn maybe(self, value: Option<impl Display>) -> RowValues {
        match value {
            Some(value) => self.put(value),
            None => self.put("NULL"),
        }
    }

    fn address(self, address: &Address) -> RowValues {
        let Address { streets, city, state, zip } = address;
        self.text(&streets[0]).text(&streets[1]).text(city).text(state).text(zip)
    }

    fn site(self, site: &Site) -> RowValues {
        self.text(&site.name).address(&site.address).put(site.tax)
    }

    fn finished(mut self) -> String {
        self.sql.push(')');
        self.sql
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The table of a row, and its values in the order of `schema.sql`.
fn values(row: &TableRow) -> (&'static str, RowValues) {
    match row {
        TableRow::Warehouse(number, site) => ("warehouse", RowValues::of(number).site(site)),
        TableRow::WarehouseTotal(number, total) => ("warehouse_total", RowValues::of(number).put(total.ytd)),
        TableRow::District(key, site) => {
            ("district", RowValues::of(key.warehouse).put(key.district).site(site))
        }
        TableRow::DistrictTotal(key, total) => {
            ("district_total", RowValues::of(key.warehouse).put(key.district).put(total.ytd))
        }
        TableRow::NextOrder(key, next) => {
            ("next_order", RowValues::of(key.warehouse).put(key.district).put(next))
        }
        TableRow::Customer(key, row) => {
            let values = RowValues::of(key.district.warehouse).put(key.district.district).put(key.customer);
            let values = values.text(&row.name.first).text(&row.name.middle).text(&row.name.last);
            let values = values.address(&row.address).text(&row.phone).put(row.since);
            let values = values.put(row.credit.is_good).put(row.credit.limit).put(row.credit.discount);
            let values = values.put(row.account.balance).put(row.account.ytd_payment);
            ("customer", values.put(row.account.payments).put(row.account.deliveries).text(&row.data))
        }
        TableRow::History(key, _, row) => {
            let of = &row.customer;
            let values = RowValues::of(key.warehouse).put(key.district);
            let values = values.put(of.warehouse).put(of.district).put(of.customer);
            ("history", values.put(row.date).put(row.amount).text(&row.data))
        }
        TableRow::Order(key, row) => {
            let values = RowValues::of(key.district.warehouse).put(key.district.district).put(key.order);
            let values = values.put(row.customer).put(row.entered).maybe(row.carrier);
            ("orders", values.put(row.lines).put(row.is_local))
        }
        TableRow::NewOrder(key) => {
            ("new_order", RowValues::of(key.district.warehouse).put(key.district.district).put(key.order))
        }
        TableRow::OrderLine(key, number, row) => {
            let values = RowValues::of(key.district.warehouse).put(key.district.district).put(key.order);
            let values = values.put(number).put(row.item).put(row.supplier).maybe(row.delivered);
            ("order_line", values.put(row.quantity).put(row.amount).text(&row.district_info))
        }
        TableRow::Item(number, row) => {
            ("item", RowValues::of(number).put(row.image).text(&row.name).put(row.price).text(&row.data))
        }
        TableRow::Stock(warehouse, item, row) => {
            let infos: Vec<String> = row.district_infos.iter().map(|info| quoted(info)).collect();
            let values = RowValues::of(warehouse).put(item).put(row.quantity);
            let values = values.put(format!("ARRAY[{}]", infos.join(",")));
            ("stock", values.put(row.ytd).put(row.orders).put(row.remote_orders).text(&row.data))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::DistrictKey;
    use crate::population::Scale;
    use crate::random::Random;

    #[test]
    fn every_row_has_the_columns_of_its_table() {
        let schema = include_str!("schema.sql").replace("district_infos text[]", "district_infos text");
        let columns = |table: &str| {
            let after = schema.split(&format!("CREATE TABLE {table} (")).nth(1).unwrap();
            after.split(')').next().unwrap().split(',').count()
        };
        let scale = Scale { warehouses: 1, customers: 10, items: 5 };
        let (mut random, mut rows) = (Random::new(1), Vec::new());
        scale.items(&mut random, &mut |row| rows.push(row));
        scale.warehouse(1, &mut random, &mut |row| rows.push(row));
        scale.district(DistrictKey { warehouse: 1, district: 1 }, 1, &mut random, &mut |row| rows.push(row));
        let mut seen = [false; TABLES.len()];
        for (table, values) in rows.iter().flat_map(<Loading as BatchWriter>::stored) {
            // No generated text has a comma; the ten texts of an array count as one.
            let commas = values.matches(',').count() - if TABLES[table] == "stock" { 9 } else { 0 };
            assert_eq!(commas + 1, columns(TABLES[table]), "{values}");
            seen[table] = true;
        }
        assert_eq!(seen, [true; TABLES.len()]);
    }

    #[test]
    fn texts_are_quoted_and_absent_values_are_null() {
        assert_eq!(
            RowValues::of(1).text("o'x").maybe(None::<u8>).maybe(Some(3)).finished(),
            "(1,'o''x',NULL,3)"
        );
    }
}
