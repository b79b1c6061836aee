//! The full scan of the tables that the consistency conditions are checked on, in one snapshot.
//!
//! PostgreSQL keeps its indexes itself: condition 13 holds of any rows.

use tokio_postgres::{Client, Row};

use super::column;
use crate::database::TransactionError;
use crate::keys::{DistrictKey, OrderKey};
use crate::limits;
use crate::rows::{Account, Order};
use crate::tables::{LineRow, PaymentRow, Tables};

/// Takes a row of a scan.
type AddRow = fn(&mut Tables, &Row) -> Result<(), TransactionError>;

const SCANS: [(&str, AddRow); 8] = [
    ("SELECT w_id, ytd FROM warehouse_total", |tables, row| {
        tables.warehouses.insert(column::<i32>(row, 0)? as u32, column(row, 1)?);
        Ok(())
    }),
    ("SELECT w_id, d_id, ytd FROM district_total", |tables, row| {
        tables.district_totals.insert(district(row, 0)?, column(row, 2)?);
        Ok(())
    }),
    ("SELECT w_id, d_id, next FROM next_order", |tables, row| {
        tables.next_orders.insert(district(row, 0)?, column::<i32>(row, 2)? as u32);
        Ok(())
    }),
    ("SELECT w_id, d_id, c_id, balance, ytd_payment, payments, deliveries FROM customer", |tables, row| {
        let account = Account {
            balance: column(row, 3)?,
            ytd_payment: column(row, 4)?,
            payments: column::<i32>(row, 5)? as u32,
            deliveries: column::<i32>(row, 6)? as u32,
        };
        tables.names += 1;
        tables.customers.insert(district(row, 0)?.customer(column::<i32>(row, 2)? as u32), account);
        Ok(())
    }),
    ("SELECT w_id, d_id, c_w_id, c_d_id, c_id, amount FROM history", |tables, row| {
        let customer = district(row, 2)?.customer(column::<i32>(row, 4)? as u32);
        tables.payments.push(PaymentRow { district: district(row, 0)?, customer, amount: column(row, 5)? });
        Ok(())
    }),
    ("SELECT w_id, d_id, o_id, c_id, entered, carrier, lines, is_local FROM orders", |tables, row| {
        let key = order(row)?;
        let order = Order {
            customer: column::<i32>(row, 3)? as u32,
            entered: column::<i64>(row, 4)? as u64,
            carrier: column::<Option<i16>>(row, 5)?.map(|carrier| carrier as u8),
            lines: column::<i16>(row, 6)? as u8,
            is_local: column(row, 7)?,
        };
        tables.customer_orders.insert((key.district.customer(order.customer), key.order));
        tables.orders.insert(key, order);
        Ok(())
    }),
    ("SELECT w_id, d_id, o_id FROM new_order", |tables, row| {
        tables.new_orders.insert(order(row)?);
        Ok(())
    }),
    ("SELECT w_id, d_id, o_id, number, amount, delivered FROM order_line", |tables, row| {
        let line =
            LineRow { is_delivered: column::<Option<i64>>(row, 5)?.is_some(), amount: column(row, 4)? };
        tables.lines.insert((order(row)?, column::<i16>(row, 3)? as u8), line);
        Ok(())
    }),
];

/// Reads all tables whose rows the conditions need.
pub(crate) async fn read_tables(client: &Client) -> Result<Tables, TransactionError> {
    let mut tables = Tables::default();
    client
        .batch_execute("SET statement_timeout = 0; BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        .await?;
    for (select, add) in SCANS {
        client.batch_execute(&format!("DECLARE scan NO SCROLL CURSOR FOR {select}")).await?;
        let fetch = client.prepare(&format!("FETCH {} FROM scan", limits::SCANNED_ROWS)).await?;
        loop {
            let rows = client.query(&fetch, &[]).await?;
            if rows.is_empty() {
                break;
            }
            rows.iter().try_for_each(|row| add(&mut tables, row))?;
        }
        client.batch_execute("CLOSE scan").await?;
    }
    client.batch_execute("COMMIT").await?;
    Ok(tables)
}

/// The district whose columns begin here.
fn district(row: &Row, at: usize) -> Result<DistrictKey, TransactionError> {
    Ok(DistrictKey { warehouse: column::<i32>(row, at)? as u32, district: column::<i16>(row, at + 1)? as u8 })
}

/// The order whose columns are the first three.
fn order(row: &Row) -> Result<OrderKey, TransactionError> {
    Ok(district(row, 0)?.order(column::<i32>(row, 2)? as u32))
}
