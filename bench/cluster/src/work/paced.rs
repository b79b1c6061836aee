//! An open-loop load: a fixed number of operations per second, whatever their latency. Each latency
//! counts from the due time, so that a delayed send counts as slowness too.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use bench_common::failure::Failure;
use bench_common::process::now;
use bench_common::workload::Records;
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};
use zerohop_client::Keyspace;

use super::clients::{client_failure, connect};
use crate::limits::{PACE, PACED_MAX};

/// The timing of an operation.
#[derive(Clone, Copy)]
pub(crate) struct TimedOperation {
    /// When it was due.
    pub(crate) due: Instant,
    /// From the due time to its answer.
    pub(crate) took: Duration,
}

/// The results of the load.
#[derive(Default)]
pub(crate) struct PacedLoad {
    /// Operations that took longer than [`KEPT_FROM`], with their times.
    pub(crate) slow: Vec<TimedOperation>,
    pub(crate) done: u64,
    pub(crate) failed: u64,
    /// Operations that were left out because [`PACED_MAX`] were pending.
    pub(crate) left_out: u64,
    /// The first error.
    pub(crate) first_error: Option<String>,
}

/// Faster operations are only counted.
pub(crate) const KEPT_FROM: Duration = Duration::from_millis(1);

/// The number of records of the load, beside those that fill the partition.
pub(crate) const RECORDS: u32 = 10_000;

impl PacedLoad {
    /// The slowest of the operations that were under way at some time in this interval.
    pub(crate) fn slowest(&self, from: Instant, to: Instant) -> Duration {
        let within = self.slow.iter().filter(|one| one.due <= to && one.due + one.took >= from);
        within.map(|one| one.took).max().unwrap_or(KEPT_FROM)
    }
}

/// Runs it until `stop`: alternating lookups and inserts of small records. Reports when it has
/// started.
pub(crate) fn run_until(
    stop: &Arc<AtomicBool>,
    begun: &Sender<()>,
    endpoints: &[SocketAddr],
    rate: u32,
) -> Result<PacedLoad, Failure> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::while_doing("starting the load's runtime"))?;
    LocalSet::new().block_on(&runtime, async {
        let keyspace = Rc::new(connect(endpoints).await?);
        let records = Rc::new(Records::new(RECORDS, 1));
        for index in 0..RECORDS {
            keyspace.insert(records.key(index), records.value(index, 0)).await.map_err(client_failure)?;
        }
        let seen = Rc::new(RefCell::new(PacedLoad::default()));
        let mut waiting = VecDeque::new();
        // A receiver that is gone has set `stop`.
        let _ = begun.send(());
        let start = now();
        let mut sent: u64 = 0;
        while !stop.load(Ordering::Relaxed) {
            let due = ((now() - start).as_secs_f64() * f64::from(rate)) as u64;
            while sent < due {
                waiting.retain(|task: &tokio::task::JoinHandle<()>| !task.is_finished());
                if waiting.len() >= PACED_MAX {
                    seen.borrow_mut().left_out += due - sent;
                    sent = due;
                    break;
                }
                let at = start + Duration::from_secs_f64(sent as f64 / f64::from(rate));
                let one = one(Rc::clone(&keyspace), Rc::clone(&records), (sent, at), Rc::clone(&seen));
                waiting.push_back(spawn_local(one));
                sent += 1;
            }
            tokio::time::sleep(PACE).await;
        }
        for task in waiting {
            task.await.map_err(|error| Failure::Protocol(error.to_string()))?;
        }
        Ok(seen.take())
    })
}

async fn one(
    keyspace: Rc<Keyspace>,
    records: Rc<Records>,
    (number, due): (u64, Instant),
    seen: Rc<RefCell<PacedLoad>>,
) {
    let index = (number / 2 % u64::from(RECORDS)) as u32;
    let key = records.key(index);
    let result = if number.is_multiple_of(2) {
        keyspace.insert(key, records.value(index, 0)).await.map(|_| true)
    } else {
        let expected = records.value(index, 0).as_slice();
        keyspace.lookup_bytes(key).await.map(|found| found.as_deref() == Some(expected))
    };
    let took = now().saturating_duration_since(due);
    let mut seen = seen.borrow_mut();
    let why = match result {
        Ok(true) => {
            seen.done += 1;
            if took >= KEPT_FROM {
                seen.slow.push(TimedOperation { due, took });
            }
            return;
        }
        Ok(false) => "a record is missing or wrong".to_owned(),
        Err(error) => error.to_string(),
    };
    seen.failed += 1;
    seen.first_error.get_or_insert(why);
}
