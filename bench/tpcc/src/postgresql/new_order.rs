//! New-Order (clause 2.4): all rows are read and locked in one round, and written with the commit in a second one.

use std::collections::BTreeMap;

use super::{Query, Session, column, numbers};
use crate::database::{Outcome, TransactionError};
use crate::inputs::NewOrderInput;
use crate::rows::Stock;
use crate::rules;
use tokio_postgres::Row;

/// Rows of ORDER-LINE, by columns.
#[derive(Default)]
struct LineColumns {
    numbers: Vec<i16>,
    items: Vec<i32>,
    suppliers: Vec<i32>,
    quantities: Vec<i16>,
    amounts: Vec<i64>,
    infos: Vec<String>,
}

/// Changed rows of STOCK, by columns.
#[derive(Default)]
struct StockColumns {
    warehouses: Vec<i32>,
    items: Vec<i32>,
    quantities: Vec<i64>,
    ytds: Vec<i32>,
    orders: Vec<i32>,
    remote_orders: Vec<i32>,
}

pub(super) async fn run(
    session: &Session,
    input: &NewOrderInput,
    time: u64,
) -> Result<Outcome, TransactionError> {
    let NewOrderInput { district, customer, lines } = input;
    let (warehouse, number) = numbers(*district);
    let customer = *customer as i32;
    // An order may have an item several times.
    let keys: BTreeMap<(u32, u32), ()> = lines.iter().map(|line| ((line.supplier, line.item), ())).collect();
    let suppliers: Vec<i32> = keys.keys().map(|(supplier, _)| *supplier as i32).collect();
    let items: Vec<i32> = keys.keys().map(|(_, item)| *item as i32).collect();
    let ((), warehouse_tax, district_tax, order, discount, prices, stocks) = tokio::try_join!(
        biased;
        session.begin(),
        async { session.query_one(Query::WarehouseTax, &[&warehouse]).await },
        async { session.query_one(Query::DistrictTax, &[&warehouse, &number]).await },
        async { session.query_one(Query::TakeOrderNumber, &[&warehouse, &number]).await },
        async { session.query_one(Query::Discount, &[&warehouse, &number, &customer]).await },
        async { session.query(Query::Items, &[&items]).await },
        async { session.query(Query::StocksForUpdate, &[&suppliers, &items]).await },
    )?;
    let mut price_of: BTreeMap<u32, i64> = BTreeMap::new();
    for row in &prices {
        price_of.insert(column::<i32>(row, 0)? as u32, column(row, 1)?);
    }
    if lines.iter().any(|line| !price_of.contains_key(&line.item)) {
        session.rollback().await?;
        return Ok(Outcome::RolledBack);
    }
    let mut stock_of: BTreeMap<(u32, u32), Stock> = BTreeMap::new();
    for row in &stocks {
        stock_of.insert((column::<i32>(row, 0)? as u32, column::<i32>(row, 1)? as u32), stock(row)?);
    }

    let order: i32 = column(&order, 0)?;
    let mut added = LineColumns::default();
    for (at, line) in (1..).zip(lines) {
        let found = (price_of.get(&line.item), stock_of.get_mut(&(line.supplier, line.item)));
        let (Some(price), Some(stock)) = found else {
            return Err(TransactionError::WrongRow(format!("no stock of item {}", line.item)));
        };
        stock.order(line.quantity, line.supplier != district.warehouse);
        added.numbers.push(at);
        added.items.push(line.item as i32);
        added.suppliers.push(line.supplier as i32);
        added.quantities.push(i16::from(line.quantity));
        added.amounts.push(i64::from(line.quantity) * price);
        added.infos.push(stock.district_infos[usize::from(district.district - 1)].clone());
    }
    let mut changed = StockColumns::default();
    for ((supplier, item), stock) in &stock_of {
        changed.warehouses.push(*supplier as i32);
        changed.items.push(*item as i32);
        changed.quantities.push(stock.quantity);
        changed.ytds.push(stock.ytd as i32);
        changed.orders.push(stock.orders as i32);
        changed.remote_orders.push(stock.remote_orders as i32);
    }
    let (time, count) = (time as i64, lines.len());
    let is_local = lines.iter().all(|line| line.supplier == district.warehouse);
    tokio::try_join!(
        biased;
        async {
            let StockColumns { warehouses, items, quantities, ytds, orders, remote_orders } = &changed;
            let columns: [super::Parameter<'_>; 6] = [warehouses, items, quantities, ytds, orders, remote_orders];
            session.change(Query::UpdateStocks, &columns, warehouses.len()).await
        },
        async {
            let lines = count as i16;
            let columns: [super::Parameter<'_>; 7] =
                [&warehouse, &number, &order, &customer, &time, &lines, &is_local];
            session.change(Query::InsertOrder, &columns, 1).await
        },
        async { session.change(Query::InsertNewOrder, &[&warehouse, &number, &order], 1).await },
        async {
            let LineColumns { numbers, items, suppliers, quantities, amounts, infos } = &added;
            let columns: [super::Parameter<'_>; 9] =
                [&warehouse, &number, &order, numbers, items, suppliers, quantities, amounts, infos];
            session.change(Query::InsertLines, &columns, count).await
        },
        session.commit(),
    )?;
    // The amount that the terminal shows.
    let tax = |row: &Row| column::<i32>(row, 0).map(|tax| tax as u16);
    let sum = added.amounts.iter().sum();
    std::hint::black_box(rules::total(sum, tax(&discount)?, tax(&warehouse_tax)?, tax(&district_tax)?));
    Ok(Outcome::Committed)
}

/// A row of [`Query::StocksForUpdate`].
fn stock(row: &Row) -> Result<Stock, TransactionError> {
    let infos: Vec<String> = column(row, 3)?;
    let wrong =
        |infos: Vec<String>| TransactionError::WrongRow(format!("{} texts of districts", infos.len()));
    Ok(Stock {
        quantity: column(row, 2)?,
        district_infos: infos.try_into().map_err(wrong)?,
        ytd: column::<i32>(row, 4)? as u32,
        orders: column::<i32>(row, 5)? as u32,
        remote_orders: column::<i32>(row, 6)? as u32,
        data: column(row, 7)?,
    })
}
