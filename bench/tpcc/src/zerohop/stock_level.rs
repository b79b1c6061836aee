//! Stock-Level (clause 2.8). It may see rows of different moments, if they are committed (isolation level 1, clause 3.4.1), so that it is not
//! committed: the reads of up to 200 stock rows would rarely be unchanged until then.

use std::collections::BTreeSet;

use super::{Database, Outcome, Table, TransactionError, row};
use crate::keys::{self, DistrictKey};
use crate::rows::{OrderLine, Stock};
use crate::rules::STOCK_LEVEL_ORDERS;

pub(super) async fn run(
    database: &Database,
    district: DistrictKey,
    threshold: i64,
) -> Result<Outcome, TransactionError> {
    let transaction = database.client.begin();
    let next = [(Table::District, district.part(keys::NEXT_ORDER))];
    let next: u32 = database.read(&transaction, &next).await?.next()?;
    let range = district.order(next.saturating_sub(STOCK_LEVEL_ORDERS)).row()..district.order(next).row();
    let mut scan = database.keyspace(Table::OrderLine).scan_range(range).values();
    let mut items = BTreeSet::new();
    while let Some(page) = scan.next_page().await? {
        for value in page.iter().filter_map(|listed| listed.value.as_ref()) {
            items.insert(row::<OrderLine>(value)?.item);
        }
    }
    let stocks: Vec<_> =
        items.iter().map(|item| (Table::Stock, keys::stock(district.warehouse, *item))).collect();
    let mut read = database.read(&transaction, &stocks).await?;
    let mut low = 0;
    for _ in stocks {
        low += u32::from(read.next::<Stock>()?.quantity < threshold);
    }
    transaction.abort();
    // The number that the terminal shows.
    std::hint::black_box(low);
    Ok(Outcome::Committed)
}
