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
    /// The most pages that are counted.
    pages_max: u32,
    state: StatisticsState,
}

impl ReadStatistics {
    /// Of a partition.
    #[must_use]
    pub const fn new(partition: u32) -> Self {
        Self { partition, pages_max: PAGES_MAX, state: StatisticsState::Idle }
    }

    /// Of a partition, in at most three requests: of the leased and delayed messages it counts the first thousand.
    #[must_use]
    pub const fn brief(partition: u32) -> Self {
        Self { partition, pages_max: 1, state: StatisticsState::Idle }
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
                if so_far.depth == 0 {
                    return QueueStep::Done(Ok(so_far));
                }
                self.state = StatisticsState::ScanningReady(so_far);
                let (from, to) = keys::all_ready(self.partition);
                QueueStep::Effect(Effect::Scan { from, to, limit: 1, bytes: PAGE_BYTES })
            }
            (StatisticsState::ScanningReady(mut so_far), QueueEvent::Page { entries, .. }) => {
                // Ready entries are in the order of their pushes, and none is leased.
                match count(u64::MAX, &entries, &mut so_far) {
                    Err(error) => QueueStep::fail(error),
                    Ok(()) => self.scan_timed(so_far, 1, keys::all_timed(self.partition).0),
                }
            }
            (StatisticsState::ScanningTimed(mut so_far, pages), QueueEvent::Page { entries, next }) => {
                if let Err(error) = count(now, &entries, &mut so_far) {
                    return QueueStep::fail(error);
                }
                match next {
                    Some(next) if pages < self.pages_max => self.scan_timed(so_far, pages + 1, next),
                    next => QueueStep::Done(Ok(PartitionStatistics { is_partial: next.is_some(), ..so_far })),
                }
            }
            (_, event) => QueueStep::unexpected(&event),
        }
    }
}

#[cfg(test)]
mod tests {
    use zerohop_layer_procedure::{Step, Version, VersionedRecord};

    use super::*;
    use crate::records::{ConsumerId, MessageId};

    /// The statistics of a partition whose first page of leased and delayed messages is followed by `pages` further ones.
    fn statistics(mut read: ReadStatistics, counts: CountsRecord, pages: u32) -> (PartitionStatistics, u32) {
        let entry =
            EntryRecord { pushed: 7, tries: 1, bytes: 1, consumer: Some(ConsumerId([1; 16])), place: None };
        let key = keys::timed(0, 2000, MessageId::default());
        let (mut event, mut scans) = (QueueEvent::Start, 0);
        loop {
            match read.step(1000, event) {
                Step::Done(found) => return (found.unwrap(), scans),
                Step::Effect(Effect::Read(_)) => {
                    let value = VersionedRecord { version: Version(1), value: counts.encode() };
                    event = QueueEvent::Values(vec![Some(value)]);
                }
                Step::Effect(Effect::Scan { from, .. }) if from == keys::all_ready(0).0 => {
                    scans += 1;
                    event = QueueEvent::Page { entries: Vec::new(), next: None };
                }
                Step::Effect(_) => {
                    let next = (scans <= pages).then(|| key.clone());
                    scans += 1;
                    event = QueueEvent::Page { entries: vec![(key.clone(), entry.encode())], next };
                }
            }
        }
    }

    #[test]
    fn brief_statistics_read_one_page_and_others_all_pages_up_to_a_limit() {
        let counts = CountsRecord { pushed: 1000, ..CountsRecord::default() };
        let (brief, scans) = statistics(ReadStatistics::brief(0), counts, 5);
        assert_eq!((brief.depth, brief.leased, brief.oldest), (1000, 1, Some(7)));
        assert_eq!((brief.is_partial, scans), (true, 2));
        let (brief, scans) = statistics(ReadStatistics::brief(0), counts, 0);
        assert_eq!((brief.leased, brief.is_partial, scans), (1, false, 2));
        let (all, scans) = statistics(ReadStatistics::new(0), counts, 5);
        assert_eq!((all.leased, all.is_partial, scans), (6, false, 7));
        let (most, scans) = statistics(ReadStatistics::new(0), counts, 1000);
        assert_eq!((most.leased, most.is_partial, scans), (PAGES_MAX.into(), true, PAGES_MAX + 1));
    }

    #[test]
    fn partition_without_messages_is_not_scanned() {
        let counts = CountsRecord { pushed: 3, finished: 2, dead: 1, returned: 0 };
        let (empty, scans) = statistics(ReadStatistics::new(0), counts, 5);
        assert_eq!(empty, PartitionStatistics { pushed: 3, finished: 2, ..Default::default() });
        assert_eq!(scans, 0);
    }
}
