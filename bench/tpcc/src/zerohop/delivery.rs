//! Delivery (clause 2.7): one transaction for the ten districts.
//!
//! The deliveries of a warehouse follow each other by the update lock of a record that nothing writes.
//!
//! The oldest orders are scanned for before the transaction reads them. Orders enter NEW-ORDER in the order of their numbers, because every
//! New-Order reads and writes D_NEXT_O_ID. So an order that a scan found, and that is still in NEW-ORDER at the commit, is the oldest one then. Of a
//! district without orders D_NEXT_O_ID is read before a second scan, so that no order was added until the commit.

use tokio::task::JoinSet;
use zerohop_client::Error;

use super::{Database, Outcome, Table, TransactionError};
use crate::keys::{self, DistrictKey, OrderKey};
use crate::population::DISTRICTS;
use crate::rows::{Customer, Order, OrderLine};

pub(super) async fn run(
    database: &Database,
    warehouse: u32,
    carrier: u8,
    time: u64,
) -> Result<Outcome, TransactionError> {
    let transaction = database.client.begin();
    let turn = keys::warehouse(warehouse, keys::DELIVERY);
    transaction.get_for_update(database.keyspace(Table::Warehouse), &turn).await?;
    let mut scans = JoinSet::new();
    for district in (1..=DISTRICTS).map(|district| DistrictKey { warehouse, district }) {
        let database = database.clone();
        scans.spawn_local(async move { (district, oldest(&database, district).await) });
    }
    let mut orders: Vec<OrderKey> = Vec::new();
    while let Some(scanned) = scans.join_next().await {
        let (district, found) = scanned.map_err(|error| TransactionError::WrongRow(error.to_string()))?;
        match found? {
            Some(order) => orders.push(order),
            None => {
                let next = [(Table::District, district.part(keys::NEXT_ORDER))];
                let _: u32 = database.read(&transaction, &next).await?.next()?;
                orders.extend(oldest(database, district).await?);
            }
        }
    }
    orders.sort_unstable();
    let records: Vec<_> = orders
        .iter()
        .flat_map(|order| [(Table::NewOrder, order.row()), (Table::Orders, order.row())])
        .collect();
    let mut read = database.read(&transaction, &records).await?;
    let mut rows: Vec<(OrderKey, Order)> = Vec::new();
    for key in &orders {
        // The row has no columns. Another delivery may have removed it after the scan.
        let new_order = read.records.next().flatten();
        let order: Order = read.next()?;
        if new_order.is_none() || order.carrier.is_some() {
            return Err(TransactionError::Changed);
        }
        rows.push((*key, order));
    }
    let mut records = Vec::new();
    for (key, order) in &rows {
        records.push((Table::Customer, key.district.customer(order.customer).row()));
        records.extend((1..=order.lines).map(|at| (Table::OrderLine, key.line(at))));
    }
    let mut read = database.read(&transaction, &records).await?;
    for (key, mut order) in rows {
        let mut customer: Customer = read.next()?;
        for at in 1..=order.lines {
            let mut line: OrderLine = read.next()?;
            customer.account.balance += line.amount;
            line.delivered = Some(time);
            database.write(&transaction, Table::OrderLine, &key.line(at), &line)?;
        }
        customer.account.deliveries += 1;
        order.carrier = Some(carrier);
        let buyer = key.district.customer(order.customer);
        database.write(&transaction, Table::Customer, &buyer.row(), &customer)?;
        database.write(&transaction, Table::Orders, &key.row(), &order)?;
        transaction.remove(database.keyspace(Table::NewOrder), &key.row())?;
    }
    transaction.commit().await?;
    Ok(Outcome::Delivered(orders.iter().map(|order| order.district).collect()))
}

/// The oldest order of a district in NEW-ORDER.
async fn oldest(database: &Database, district: DistrictKey) -> Result<Option<OrderKey>, Error> {
    let new_orders = database.keyspace(Table::NewOrder);
    let mut scan = new_orders.scan_range::<&str>(..).prefix(district.prefix()).limit(1);
    let page = scan.next_page().await?.unwrap_or_default();
    Ok(page.first().and_then(|listed| keys::parse_order(&listed.key)))
}
