//! New-Order (clause 2.4): all records are read in one round, and the commit is the second one. D_NEXT_O_ID is read for update, so that the
//! orders of a district follow each other.

use std::collections::BTreeMap;

use super::{Database, KEY_ONLY, Outcome, Table, TransactionError};
use crate::inputs::NewOrderInput;
use crate::keys;
use crate::rows::{Customer, Item, Order, OrderLine, Site, Stock};
use crate::rules;

pub(super) async fn run(
    database: &Database,
    input: &NewOrderInput,
    time: u64,
) -> Result<Outcome, TransactionError> {
    let NewOrderInput { district, customer, lines } = input;
    let home = district.warehouse;
    // An order may have an item several times.
    let mut stocks: BTreeMap<(u32, u32), Option<Stock>> =
        lines.iter().map(|line| ((line.supplier, line.item), None)).collect();
    let mut items: BTreeMap<u32, Option<Item>> = lines.iter().map(|line| (line.item, None)).collect();
    let mut records = vec![
        (Table::Warehouse, keys::warehouse(home, keys::SITE)),
        (Table::District, district.part(keys::SITE)),
        (Table::Customer, district.customer(*customer).row()),
    ];
    records.extend(items.keys().map(|item| (Table::Item, keys::item(*item))));
    records.extend(stocks.keys().map(|(warehouse, item)| (Table::Stock, keys::stock(*warehouse, *item))));

    let transaction = database.client.begin();
    let next_order = district.part(keys::NEXT_ORDER);
    let (read, number) = tokio::join!(
        database.read(&transaction, &records),
        transaction.get_for_update(database.keyspace(Table::District), &next_order),
    );
    let mut read = read?;
    let number = number?.ok_or_else(|| TransactionError::WrongRow(format!("no district {district}")))?;
    let number: u32 = super::row(&number)?;
    let (warehouse, site): (Site, Site) = (read.next()?, read.next()?);
    let buyer: Customer = read.next()?;
    for item in items.values_mut() {
        *item = read.find()?;
    }
    if items.values().any(Option::is_none) {
        transaction.abort();
        return Ok(Outcome::RolledBack);
    }
    for stock in stocks.values_mut() {
        *stock = Some(read.next()?);
    }

    let order = district.order(number);
    let mut sum = 0;
    for (at, line) in (1..).zip(lines) {
        let (Some(Some(item)), Some(Some(stock))) =
            (items.get(&line.item), stocks.get_mut(&(line.supplier, line.item)))
        else {
            return Err(TransactionError::WrongRow(format!("item {} was not read", line.item)));
        };
        stock.order(line.quantity, line.supplier != home);
        let amount = i64::from(line.quantity) * item.price;
        sum += amount;
        let row = OrderLine {
            item: line.item,
            supplier: line.supplier,
            delivered: None,
            quantity: line.quantity,
            amount,
            district_info: stock.district_infos[usize::from(district.district - 1)].clone(),
        };
        database.write(&transaction, Table::OrderLine, &order.line(at), &row)?;
    }
    for ((supplier, item), stock) in &stocks {
        if let Some(stock) = stock {
            database.write(&transaction, Table::Stock, &keys::stock(*supplier, *item), stock)?;
        }
    }
    let row = Order {
        customer: *customer,
        entered: time,
        carrier: None,
        lines: lines.len() as u8,
        is_local: lines.iter().all(|line| line.supplier == home),
    };
    database.write(&transaction, Table::Orders, &order.row(), &row)?;
    transaction.insert(database.keyspace(Table::NewOrder), &order.row(), KEY_ONLY)?;
    let index = district.customer(*customer).order(number);
    transaction.insert(database.keyspace(Table::OrdersByCustomer), &index, KEY_ONLY)?;
    database.write(&transaction, Table::District, &next_order, &(number + 1))?;
    transaction.commit().await?;
    // The amount that the terminal shows.
    std::hint::black_box(rules::total(sum, buyer.credit.discount, warehouse.tax, site.tax));
    Ok(Outcome::Committed)
}
