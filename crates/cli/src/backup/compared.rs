//! The result of an anti-entropy comparison by the members of all partitions.

use serde::Serialize;
use zerohop_backup::{Progress, Target as BackupTarget};
use zerohop_client::{ComparedRange, Error};
use zerohop_wire::plurals::by_number;

use super::progress::BackupProgress;

#[derive(Default, Serialize)]
pub(super) struct ComparisonTotals {
    records: u64,
    /// Bytes of one copy of each partition.
    bytes: u64,
    /// The lowest number of copies that a record was read in.
    replicas_min: u32,
    replicas_max: u32,
    /// Copies whose contents differ from the others. Each of them does a snapshot install.
    pub(super) differing: Vec<DifferingCopy>,
}

/// One copy of a partition.
#[derive(PartialEq, Eq, Serialize)]
pub(super) struct DifferingCopy {
    keyspace: String,
    partition: u32,
    instance: u32,
}

/// Has all members of these keyspaces compare their contents.
pub(super) async fn compare(targets: &[BackupTarget]) -> Result<ComparisonTotals, Error> {
    let mut shown = BackupProgress::new("compared");
    let mut compared = ComparisonTotals::default();
    for BackupTarget { keyspace, settings } in targets {
        let mut comparison = keyspace.compare();
        while let Some(ranges) = comparison.next_ranges().await? {
            ranges.iter().for_each(|range| compared.count(&settings.name, range));
            let ComparisonTotals { records, bytes, .. } = compared;
            shown.update(Progress { records, bytes });
        }
    }
    Ok(compared)
}

impl ComparisonTotals {
    fn count(&mut self, keyspace: &str, range: &ComparedRange) {
        let ComparedRange { partition, records, bytes, copies, .. } = *range;
        if records > 0 {
            self.replicas_min = if self.records == 0 { copies } else { self.replicas_min.min(copies) };
            self.replicas_max = self.replicas_max.max(copies);
        }
        (self.records, self.bytes) = (self.records + records, self.bytes + bytes);
        for instance in &range.differing {
            let one =
                DifferingCopy { keyspace: keyspace.to_owned(), partition: partition.0, instance: instance.0 };
            if !self.differing.contains(&one) {
                self.differing.push(one);
            }
        }
    }

    /// The totals as a sentence.
    pub(super) fn sentence(&self) -> String {
        let Self { records, replicas_min, replicas_max, .. } = *self;
        match (replicas_min, replicas_max) {
            _ if records == 0 => "there is nothing to compare".to_owned(),
            (1, 1) => "there is one replica of each: nothing to compare".to_owned(),
            (min, max) if min == max => {
                format!("{} compared in {max} replicas: {}", records_and_chunks(records), self.found())
            }
            (min, max) => {
                format!(
                    "{} compared in {min} to {max} replicas: {}",
                    records_and_chunks(records),
                    self.found()
                )
            }
        }
    }

    fn found(&self) -> String {
        match self.differing.len() {
            0 => "the same in all".to_owned(),
            1 => "one copy of a partition differs".to_owned(),
            n => format!("{n} copies of partitions differ"),
        }
    }
}

fn records_and_chunks(count: u64) -> String {
    format!("{count} {}", by_number(count, "record or chunk", "records and chunks"))
}

impl DifferingCopy {
    /// The differing copy as a sentence.
    pub(super) fn sentence(&self) -> String {
        let Self { keyspace, partition, instance } = self;
        format!(
            "keyspace {keyspace}, partition {partition}: the copy of instance {instance} differs from the others; it is copied again: \
             verify again once `zerohop status` shows that no copies are missing"
        )
    }
}
