//! Payment (clause 2.5). The total of the warehouse is added to last, because all payments of the warehouse wait for it.

use super::{Query, Session, column, numbers};
use crate::database::{Outcome, TransactionError};
use crate::inputs::PaymentInput;
use crate::rows::{Account, Credit};
use crate::rules;
use tokio_postgres::Row;

pub(super) async fn run(
    session: &Session,
    input: &PaymentInput,
    time: u64,
) -> Result<Outcome, TransactionError> {
    let PaymentInput { district, home, amount, customer } = input;
    let (warehouse, number) = numbers(*district);
    let (home_warehouse, home_number) = numbers(*home);
    let customer = session.customer(*home, customer).await?;
    let ((), site, district_site, row) = tokio::try_join!(
        biased;
        session.begin(),
        async { session.query_one(Query::Warehouse, &[&warehouse]).await },
        async { session.query_one(Query::District, &[&warehouse, &number]).await },
        async { session.query_one(Query::CustomerForUpdate, &[&home_warehouse, &home_number, &customer]).await },
    )?;
    let (mut account, credit, mut data) = parsed(&row)?;
    let key = home.customer(customer as u32);
    rules::pay((&mut account, &credit, &mut data), key, *district, *amount);
    let (site, district_site): (String, String) = (column(&site, 0)?, column(&district_site, 0)?);
    let payment = rules::payment_data(&site, &district_site);
    tokio::try_join!(
        biased;
        async {
            let payments = account.payments as i32;
            let columns: [super::Parameter<'_>; 7] = [
                &home_warehouse,
                &home_number,
                &customer,
                &account.balance,
                &account.ytd_payment,
                &payments,
                &data,
            ];
            match credit.is_good {
                true => session.change(Query::Pay, &columns[..6], 1).await,
                false => session.change(Query::PayWithData, &columns, 1).await,
            }
        },
        async {
            let time = time as i64;
            let columns: [super::Parameter<'_>; 8] =
                [&warehouse, &number, &home_warehouse, &home_number, &customer, &time, amount, &payment];
            session.change(Query::InsertHistory, &columns, 1).await
        },
        async { session.change(Query::AddToDistrict, &[&warehouse, &number, amount], 1).await },
        async { session.change(Query::AddToWarehouse, &[&warehouse, amount], 1).await },
        session.commit(),
    )?;
    Ok(Outcome::Committed)
}

/// The columns of [`Query::CustomerForUpdate`] that count; the terminal shows the others.
fn parsed(row: &Row) -> Result<(Account, Credit, String), TransactionError> {
    let credit =
        Credit { is_good: column(row, 0)?, limit: column(row, 1)?, discount: column::<i32>(row, 2)? as u16 };
    let account = Account {
        balance: column(row, 3)?,
        ytd_payment: column(row, 4)?,
        payments: column::<i32>(row, 5)? as u32,
        deliveries: column::<i32>(row, 6)? as u32,
    };
    Ok((account, credit, column(row, 7)?))
}
