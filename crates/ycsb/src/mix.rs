//! The core workloads of YCSB (Cooper and others, Benchmarking Cloud Serving Systems with YCSB, SoCC 2010, section 4): which operations, on
//! which records.

use clap::ValueEnum;
use serde::Serialize;

use super::draws::Draws;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum YcsbWorkload {
    /// Update heavy: half reads, half updates.
    A,
    /// Read mostly: 95 % reads, 5 % updates.
    B,
    /// Reads only.
    C,
    /// Read latest: 95 % reads, mostly of the newest records, 5 % inserts.
    D,
    /// Short ranges: 95 % scans of 1 to 100 records, 5 % inserts. Needs an ordered keyspace.
    E,
    /// Half reads, half reads with an update of the same record behind it.
    F,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YcsbOperation {
    /// Reads a record.
    Read,
    /// Replaces a record.
    Update,
    /// Writes a new record.
    Insert,
    /// Reads the records of a short range.
    Scan,
    /// Reads a record and replaces it.
    ReadModifyWrite,
}

/// Which records are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preference {
    /// A few records, spread over all.
    Some,
    /// The newest ones.
    Newest,
}

impl YcsbOperation {
    /// All of them, in the order of reports.
    pub const ALL: [YcsbOperation; 5] = [
        YcsbOperation::Read,
        YcsbOperation::Update,
        YcsbOperation::Insert,
        YcsbOperation::Scan,
        YcsbOperation::ReadModifyWrite,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            YcsbOperation::Read => "read",
            YcsbOperation::Update => "update",
            YcsbOperation::Insert => "insert",
            YcsbOperation::Scan => "scan",
            YcsbOperation::ReadModifyWrite => "read-modify-write",
        }
    }
}

impl YcsbWorkload {
    /// The frequent operation and its share in percent, and the other one.
    fn operations(self) -> (YcsbOperation, u64, YcsbOperation) {
        match self {
            YcsbWorkload::A => (YcsbOperation::Read, 50, YcsbOperation::Update),
            YcsbWorkload::B => (YcsbOperation::Read, 95, YcsbOperation::Update),
            YcsbWorkload::C => (YcsbOperation::Read, 100, YcsbOperation::Read),
            YcsbWorkload::D => (YcsbOperation::Read, 95, YcsbOperation::Insert),
            YcsbWorkload::E => (YcsbOperation::Scan, 95, YcsbOperation::Insert),
            YcsbWorkload::F => (YcsbOperation::Read, 50, YcsbOperation::ReadModifyWrite),
        }
    }

    /// The next operation.
    pub(crate) fn draw(self, draws: &mut Draws) -> YcsbOperation {
        let (often, percent, otherwise) = self.operations();
        if draws.below(100) < percent { often } else { otherwise }
    }

    pub(crate) fn preference(self) -> Preference {
        if self == YcsbWorkload::D { Preference::Newest } else { Preference::Some }
    }

    /// Whether it scans ranges.
    pub fn scans(self) -> bool {
        self == YcsbWorkload::E
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_the_shares_of_their_workload() {
        let shares = |workload: YcsbWorkload| {
            let mut counts = [0; 5];
            for number in 0..10_000 {
                let operation = workload.draw(&mut Draws::new(7, number));
                counts[YcsbOperation::ALL.iter().position(|one| *one == operation).unwrap()] += 1;
            }
            counts.map(|count: u32| (count + 100) / 200)
        };
        // In twentieths: read, update, insert, scan, read-modify-write.
        assert_eq!(shares(YcsbWorkload::A), [25, 25, 0, 0, 0]);
        assert_eq!(shares(YcsbWorkload::B)[..2], [48, 2]);
        assert_eq!(shares(YcsbWorkload::C), [50, 0, 0, 0, 0]);
        assert_eq!(shares(YcsbWorkload::D)[0], 48);
        assert_eq!(shares(YcsbWorkload::E)[3], 48);
        assert_eq!(shares(YcsbWorkload::F), [25, 0, 0, 0, 25]);
    }
}
