//! How many messages a partition has.

use zerohop_layer_procedure::{Effect, Procedure, Record};

use crate::error::QueueError;
use crate::keys::{self, RecordKey};
use crate::procedure::{QueueEvent, QueueStep};
use crate::records::{CountsRecord, EntryRecord};

/// The entries of a page.
const PAGE_ENTRIES: usize = 1000;
/// The bytes of entries that end a page.
const PAGE_BYTES: usize = 1 << 20;
/// The most pages that are counted.
const PAGES_MAX: u32 = 100;

/// The messages of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionStatistics {
    /// All messages but dead letters.
    pub depth: u64,
    /// Those that consumers have leased.
    pub leased: u64,
    /// Those that are not ready yet.
    pub delayed: u64,
    /// There are more leased and delayed messages than were counted.
    pub is_partial: bool,
    /// When the oldest message that is ready, leased or delayed was pushed, in milliseconds since 1970.
    pub oldest: Option<u64>,
    /// All messages that were ever pushed, dead letters that were pushed again included.
    pub pushed: u64,
    /// All messages that were ever acknowledged.
    pub finished: u64,
}

enum StatisticsState {
    Idle,
    Reading,
    ScanningReady(PartitionStatistics),
    ScanningTimed(PartitionStatistics, u32),
}

/// Counts the messages of a partition. The numbers are of several moments.
pub struct ReadStatistics {
    partition: u32,
    state: StatisticsState,
}

impl ReadStatistics {
    /// Of a partition.
    #[must_use]
    pub const fn new(partition: u32) -> Self {
        Self { partition, state: StatisticsState::Idle }
    }

    fn scan_timed(
        &mut self,
        so_far: PartitionStatistics,
        pages: u32,
        from: RecordKey,
    ) -> QueueStep<PartitionStatistics> {
        self.state = StatisticsState::ScanningTimed(so_far, pages);
        let to = keys::all_timed(self.partition).1;
        QueueStep::Effect(Effect::Scan { from, to, limit: PAGE_ENTRIES, bytes: PAGE_BYTES })
    }
}

/// Adds the entries of a page.
fn count(
    now: u64,
    entries: &[(RecordKey, Vec<u8>)],
    into: &mut PartitionStatistics,
) -> Result<(), QueueError> {
    for (key, value) in entries {
        let found = keys::time_and_message(key).zip(EntryRecord::decode(value));
        let Some(((time, _), entry)) = found else { return Err(QueueError::Corrupt(key.clone())) };
        into.oldest = Some(into.oldest.map_or(entry.pushed, |oldest| oldest.min(entry.pushed)));
        if time > now && entry.consumer.is_some() {
            into.leased += 1;
        } else if time > now {
            into.delayed += 1;
        }
    }
    Ok(())
}

impl Procedure<QueueError> for ReadStatistics {
    type Output = PartitionStatistics;

    fn step(&mut self, now: u64, event: QueueEvent) -> QueueStep<PartitionStatistics> {
        match (std::mem::replace(&mut self.state, StatisticsState::Idle), event) {
            (StatisticsState::Idle, QueueEvent::Start) => {
                self.state = StatisticsState::Reading;
                QueueStep::Effect(Effect::Read(vec![keys::counts(self.partition)]))
            }
            (StatisticsState::Reading, QueueEvent::Values(values)) => {
                let Some(Some(value)) = values.into_iter().next() else {
                    return QueueStep::fail(QueueError::NoSuchQueue);
                };
                let Some(counts) = CountsRecord::decode(&value.value) else {
                    return QueueStep::fail(QueueError::Corrupt(keys::counts(self.partition)));
                };
                let CountsRecord { pushed, finished, .. } = counts;
                let so_far =
                    PartitionStatistics { depth: counts.depth(), pushed, finished, ..Default::default() };
                self.state = StatisticsState::ScanningReady(so_far);
                let (from, to) = keys::all_ready(self.partition);
                QueueStep::Effect(Effect::Scan { from, to, limit: 1, bytes: PAGE_BYTES })
            }
            (StatisticsState::ScanningReady(mut so_far), QueueEvent::Page { entries, .. }) => {
                // Ready entries are in the order of their pushes, and none is leased.
                match count(u64::MAX, &entries, &mut so_far) {
                    Err(error) => QueueStep::fail(error),
                    Ok(()) => self.scan_timed(so_far, 0, keys::all_timed(self.partition).0),
                }
            }
            (StatisticsState::ScanningTimed(mut so_far, pages), QueueEvent::Page { entries, next }) => {
                if let Err(error) = count(now, &entries, &mut so_far) {
                    return QueueStep::fail(error);
                }
                match next {
                    Some(next) if pages < PAGES_MAX => self.scan_timed(so_far, pages + 1, next),
                    next => QueueStep::Done(Ok(PartitionStatistics { is_partial: next.is_some(), ..so_far })),
                }
            }
            (_, event) => QueueStep::unexpected(&event),
        }
    }
}
