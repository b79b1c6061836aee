//! Stock-Level (clause 2.8). Each statement sees committed rows (isolation level 1, clause 3.4.1).

use super::{Query, Session, column, numbers};
use crate::database::{Outcome, TransactionError};
use crate::keys::DistrictKey;
use crate::rules::STOCK_LEVEL_ORDERS;

pub(super) async fn run(
    session: &Session,
    district: DistrictKey,
    threshold: i64,
) -> Result<Outcome, TransactionError> {
    let (warehouse, number) = numbers(district);
    let next: i32 = column(&session.query_one(Query::NextOrder, &[&warehouse, &number]).await?, 0)?;
    let from = next - STOCK_LEVEL_ORDERS as i32;
    let columns: [super::Parameter<'_>; 5] = [&warehouse, &number, &from, &next, &threshold];
    let low: i64 = column(&session.query_one(Query::CountLowStock, &columns).await?, 0)?;
    // The number that the terminal shows.
    std::hint::black_box(low);
    Ok(Outcome::Committed)
}
