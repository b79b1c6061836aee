//! Payment (clause 2.5). W_YTD and D_YTD are added to by transforms, for which no payment waits.

use zerohop_client::Transform;

use super::{Database, Outcome, Table, TransactionError};
use crate::inputs::PaymentInput;
use crate::keys;
use crate::rows::{Customer, CustomerColumns, History, Site, TOTAL_OFFSET};
use crate::rules;

pub(super) async fn run(
    database: &Database,
    input: &PaymentInput,
    time: u64,
    number: u64,
) -> Result<Outcome, TransactionError> {
    let PaymentInput { district, home, amount, .. } = input;
    let key = database.customer(*home, &input.customer).await?;
    let transaction = database.client.begin();
    let records = [
        (Table::Warehouse, keys::warehouse(district.warehouse, keys::SITE)),
        (Table::District, district.part(keys::SITE)),
        (Table::Customer, key.row()),
    ];
    let mut read = database.read(&transaction, &records).await?;
    let (warehouse, site): (Site, Site) = (read.next()?, read.next()?);
    let mut customer: Customer = read.next()?;
    let Customer { account, credit, data, .. } = &mut customer;
    rules::pay((account, credit, data), key, *district, *amount);
    database.write(&transaction, Table::Customer, &key.row(), &customer)?;
    let add = Transform::add(*amount).at(TOTAL_OFFSET);
    let total = keys::warehouse(district.warehouse, keys::TOTAL);
    transaction.write(database.keyspace(Table::Warehouse).transform_silently(&total, add))?;
    let total = district.part(keys::TOTAL);
    transaction.write(database.keyspace(Table::District).transform_silently(&total, add))?;
    let payment = History {
        customer: CustomerColumns {
            warehouse: home.warehouse,
            district: home.district,
            customer: key.customer,
        },
        date: time,
        amount: *amount,
        data: rules::payment_data(&warehouse.name, &site.name),
    };
    database.write(&transaction, Table::History, &district.history(number), &payment)?;
    transaction.commit().await?;
    Ok(Outcome::Committed)
}
