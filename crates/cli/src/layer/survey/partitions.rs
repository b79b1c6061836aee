//! Reads the partitions of a queue or a log.

use std::fmt::{self, Display};
use std::sync::Arc;

use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use zerohop_wire::plurals::{by_number, counted};

use super::{ANSWER_MAX, NO_ANSWER};

/// The most partitions that are read at once. One that does not answer uses its place for [`ANSWER_MAX`].
const AT_ONCE_MAX: usize = 8;

/// How much of a queue or a log was read.
#[derive(Debug, Default, Serialize)]
pub(super) struct PartitionsRead {
    /// The number of partitions; null: not known.
    pub(super) partitions: Option<u32>,
    /// The partitions that have not answered in time. Their figures are missing.
    pub(super) unread: u32,
    /// Why the first of them was not read.
    pub(super) why: Option<String>,
}

impl PartitionsRead {
    /// Nothing was read.
    pub(super) fn none(why: String) -> Self {
        Self { partitions: None, unread: 0, why: Some(why) }
    }

    /// Whether all partitions were read.
    pub(super) fn is_complete(&self) -> bool {
        self.partitions.is_some() && self.unread == 0
    }
}

impl Display for PartitionsRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = self.why.as_deref().unwrap_or(NO_ANSWER);
        match (self.partitions, self.unread) {
            (None, _) => write!(f, "not read: {why}"),
            (Some(_), 0) => Ok(()),
            (Some(all), unread) => {
                let has = by_number(unread, "has", "have");
                write!(f, "{unread} of {} {has} not been read: {why}", counted(all, "partition"))
            }
        }
    }
}

/// Reads all partitions, a few at a time, and ends at `until` at the latest.
pub(super) async fn read_partitions<T, E, R>(
    count: u32,
    until: Instant,
    read: impl Fn(u32) -> R,
) -> (Vec<T>, PartitionsRead)
where
    T: Send + 'static,
    E: Display + Send + 'static,
    R: Future<Output = Result<T, E>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(AT_ONCE_MAX));
    let mut reads = JoinSet::new();
    for partition in 0..count {
        let (places, answer) = (Arc::clone(&places), read(partition));
        reads.spawn(async move {
            let _place = places.acquire_owned().await;
            timeout(ANSWER_MAX, answer).await
        });
    }
    let (mut found, mut why) = (Vec::new(), None);
    while let Ok(Some(ended)) = timeout_at(until, reads.join_next()).await {
        match ended {
            Ok(Ok(Ok(one))) => found.push(one),
            Ok(Ok(Err(error))) => why = why.or_else(|| Some(error.to_string())),
            Ok(Err(_)) | Err(_) => {}
        }
    }
    let unread = count.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
    let why = (unread > 0).then(|| why.unwrap_or_else(|| NO_ANSWER.to_owned()));
    (found, PartitionsRead { partitions: Some(count), unread, why })
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use super::*;

    fn within<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap().block_on(future)
    }

    #[test]
    fn partition_that_fails_or_is_silent_hides_no_other_one() {
        let (mut found, read) = within(async {
            let until = Instant::now() + Duration::from_millis(100);
            read_partitions(20, until, |partition| async move {
                match partition {
                    3 => Err("the disk is full"),
                    5 => pending().await,
                    partition => Ok(partition),
                }
            })
            .await
        });
        found.sort_unstable();
        assert_eq!(found, (0..20).filter(|one| ![3, 5].contains(one)).collect::<Vec<_>>());
        assert!(!read.is_complete());
        assert_eq!(read.to_string(), "2 of 20 partitions have not been read: the disk is full");
    }

    #[test]
    fn partitions_that_are_all_silent_end_in_time() {
        let (found, read) = within(async {
            let until = Instant::now() + Duration::from_millis(50);
            read_partitions(100, until, |_| pending::<Result<u32, &str>>()).await
        });
        assert_eq!((found.len(), read.unread), (0, 100));
        assert_eq!(read.to_string(), "100 of 100 partitions have not been read: no answer in time");
    }
}
