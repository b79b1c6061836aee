//! Order-Status (clause 2.6). It runs as if alone at the moment of its scan, though the scan is not checked.
//!
//! The customer is read before the scan, and the order after it. Only a delivery changes an order and its lines, and it changes the customer too.
//! So if customer, order and lines are unchanged at the commit, they were the same at the scan, which found the newest order of that moment.

use super::{Database, Outcome, Table, TransactionError};
use crate::inputs::CustomerChoice;
use crate::keys::{self, DistrictKey};
use crate::rows::{Customer, Order, OrderLine};

pub(super) async fn run(
    database: &Database,
    district: DistrictKey,
    choice: &CustomerChoice,
) -> Result<Outcome, TransactionError> {
    let key = database.customer(district, choice).await?;
    let transaction = database.client.begin();
    let _: Customer = database.read(&transaction, &[(Table::Customer, key.row())]).await?.next()?;
    let index = database.keyspace(Table::OrdersByCustomer);
    let mut scan = index.scan_range::<&str>(..).prefix(key.row()).reverse().limit(1);
    let newest = scan.next_page().await?.unwrap_or_default();
    if let Some(number) = newest.first().and_then(|listed| keys::last_number(&listed.key)) {
        let order = district.order(number);
        let row: Order = database.read(&transaction, &[(Table::Orders, order.row())]).await?.next()?;
        let lines: Vec<_> = (1..=row.lines).map(|at| (Table::OrderLine, order.line(at))).collect();
        let mut read = database.read(&transaction, &lines).await?;
        for _ in lines {
            let line: OrderLine = read.next()?;
            // Possible only with rows of different moments.
            if line.delivered.is_some() != row.carrier.is_some() {
                return Err(TransactionError::Changed);
            }
        }
    }
    transaction.commit().await?;
    Ok(Outcome::Committed)
}
