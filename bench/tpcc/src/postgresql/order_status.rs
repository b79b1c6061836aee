//! Order-Status (clause 2.6), on one snapshot of committed rows.

use super::{Query, Session, column, numbers};
use crate::database::{Outcome, TransactionError};
use crate::inputs::CustomerChoice;
use crate::keys::DistrictKey;

pub(super) async fn run(
    session: &Session,
    district: DistrictKey,
    choice: &CustomerChoice,
) -> Result<Outcome, TransactionError> {
    let (warehouse, number) = numbers(district);
    let customer = session.customer(district, choice).await?;
    let ((), _, newest) = tokio::try_join!(
        biased;
        async {
            let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
            session.client.batch_execute(begin).await.map_err(TransactionError::from)
        },
        async { session.query_one(Query::Balance, &[&warehouse, &number, &customer]).await },
        async { session.query(Query::NewestOrder, &[&warehouse, &number, &customer]).await },
    )?;
    let Some(newest) = newest.first() else {
        session.commit().await?;
        return Ok(Outcome::Committed);
    };
    let order: i32 = column(newest, 0)?;
    let is_delivered = column::<Option<i16>>(newest, 2)?.is_some();
    let (lines, ()) = tokio::try_join!(
        biased;
        async { session.query(Query::Lines, &[&warehouse, &number, &order]).await },
        session.commit(),
    )?;
    for line in &lines {
        if column::<Option<i64>>(line, 4)?.is_some() != is_delivered {
            return Err(TransactionError::WrongRow(format!("lines of order {order} of different moments")));
        }
    }
    Ok(Outcome::Committed)
}
