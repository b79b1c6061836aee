//! Delivery (clause 2.7): one transaction for the ten districts.

use std::collections::BTreeMap;

use super::{Query, Session, all, column};
use crate::database::{Outcome, TransactionError};
use crate::keys::DistrictKey;
use crate::population::DISTRICTS;

pub(super) async fn run(
    session: &Session,
    warehouse: u32,
    carrier: u8,
    time: u64,
) -> Result<Outcome, TransactionError> {
    let (number, carrier, time) = (warehouse as i32, i16::from(carrier), time as i64);
    let looks = all((1..=i16::from(DISTRICTS)).map(|district| oldest(session, number, district)));
    let ((), found) = tokio::try_join!(biased; session.begin(), looks)?;
    let (mut districts, mut orders) = (Vec::new(), Vec::new());
    for (district, found) in (1..=i16::from(DISTRICTS)).zip(found) {
        let order = match found {
            Some(order) => Some(order),
            // No order is added while D_NEXT_O_ID is locked.
            None => {
                session.query_one(Query::ShareOrderNumber, &[&number, &district]).await?;
                oldest(session, number, district).await?
            }
        };
        if let Some(order) = order {
            districts.push(district);
            orders.push(order);
        }
    }
    let (carriers, lines, ()) = tokio::try_join!(
        biased;
        async { session.query(Query::SetCarriers, &[&number, &districts, &orders, &carrier]).await },
        async { session.query(Query::DeliverLines, &[&number, &districts, &orders, &time]).await },
        async { session.change(Query::RemoveNewOrders, &[&number, &districts, &orders], orders.len()).await },
    )?;
    let mut dues: BTreeMap<i16, (i32, i64)> = BTreeMap::new();
    for row in &carriers {
        dues.insert(column(row, 0)?, (column(row, 1)?, 0));
    }
    for row in &lines {
        let district: i16 = column(row, 0)?;
        let absent = || TransactionError::WrongRow(format!("a line of no order in district {district}"));
        dues.get_mut(&district).ok_or_else(absent)?.1 += column::<i64>(row, 1)?;
    }
    let customers: Vec<i32> = dues.values().map(|(customer, _)| *customer).collect();
    let amounts: Vec<i64> = dues.values().map(|(_, amount)| *amount).collect();
    tokio::try_join!(
        biased;
        async {
            let columns: [super::Parameter<'_>; 4] = [&number, &districts, &customers, &amounts];
            session.change(Query::AddToBalances, &columns, districts.len()).await
        },
        session.commit(),
    )?;
    let delivered = districts.iter().map(|district| DistrictKey { warehouse, district: *district as u8 });
    Ok(Outcome::Delivered(delivered.collect()))
}

/// Locks the oldest order of a district in NEW-ORDER that no other delivery removes.
async fn oldest(session: &Session, warehouse: i32, district: i16) -> Result<Option<i32>, TransactionError> {
    let rows = session.query(Query::OldestForUpdate, &[&warehouse, &district]).await?;
    rows.first().map(|row| column(row, 0)).transpose()
}
