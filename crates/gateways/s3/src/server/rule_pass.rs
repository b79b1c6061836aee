//! Passes over the buckets with lifecycle rules.

use std::time::Duration;

use zerohop_objects::{Lifetimes, ObjectError, RulePlace, RuleReport, RuleSweep, Store, run};

/// About how many records one sweep looks at.
const RULE_PAGE: usize = 1000;
/// Before a sweep that failed is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(30);
/// The most failures of one pass. Then the next one begins at the first bucket again.
const FAILURES_MAX: u32 = 20;

/// A part of a pause, up to all of it. Gateways that were started together do not go over the buckets at the same times.
fn part_of(pause: Duration, random: [u8; 16]) -> Duration {
    pause.mul_f64(f64::from(random[0]) / 255.0)
}

/// Goes over the buckets again and again, about once in each `pause`.
pub(super) async fn repeat<S: Store>(store: &S, lifetimes: Lifetimes, pause: Duration) {
    tokio::time::sleep(part_of(pause, store.random())).await;
    loop {
        match pass(store, lifetimes, pause.min(RETRY_PAUSE)).await {
            Ok(report) if report.skipped > 0 => {
                let skipped = report.skipped;
                tracing::warn!(skipped, "lifecycle rules of S3 are not carried out completely");
            }
            Ok(report) if report != RuleReport::default() => {
                let RuleReport { expired, versions, uploads, .. } = report;
                tracing::debug!(expired, versions, uploads, "lifecycle rules of S3 are carried out");
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "lifecycle rules of S3 are not carried out"),
        }
        tokio::time::sleep(pause / 2 + part_of(pause, store.random())).await;
    }
}

/// Goes over all buckets once.
async fn pass<S: Store>(
    store: &S,
    lifetimes: Lifetimes,
    retry_pause: Duration,
) -> Result<RuleReport, ObjectError> {
    let (mut place, mut total, mut failures) = (RulePlace::default(), RuleReport::default(), 0);
    loop {
        let random = store.random();
        let mut draw = [0; 8];
        draw.copy_from_slice(&random[..8]);
        match run(store, RuleSweep::new(lifetimes, place.clone(), RULE_PAGE, draw)).await {
            Ok(page) => {
                total.add(page.report);
                match page.next {
                    Some(next) => place = next,
                    None => return Ok(total),
                }
            }
            Err(error) if failures == FAILURES_MAX => return Err(error),
            Err(error) => {
                tracing::debug!(%error, "a sweep of lifecycle rules is tried again");
                failures += 1;
                tokio::time::sleep(retry_pause).await;
            }
        }
    }
}
