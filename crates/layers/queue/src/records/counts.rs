//! What was pushed and finished in a partition.

use zerohop_base::bytes::Reader;
use zerohop_layer_procedure::Record;
use zerohop_layer_procedure::record::only_format;

/// The counts of a partition. Transactions add to them without reading them, so those do not conflict. Each change wakes the
/// consumers that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountsRecord {
    /// Messages that were pushed, and dead letters that were pushed again.
    pub pushed: u64,
    /// Messages that were acknowledged.
    pub finished: u64,
    /// Messages that became dead letters.
    pub dead: u64,
    /// Messages that became ready again, or ready behind another one of their group.
    pub returned: u64,
}

impl CountsRecord {
    /// Where the number of messages that were pushed is.
    pub const PUSHED: u64 = 1;
    /// Where the number of messages that were acknowledged is.
    pub const FINISHED: u64 = 9;
    /// Where the number of messages that became dead letters is.
    pub const DEAD: u64 = 17;
    /// Where the number of messages that became ready again is.
    pub const RETURNED: u64 = 25;

    /// The messages that the partition has, without dead letters.
    #[must_use]
    pub const fn depth(&self) -> u64 {
        self.pushed.wrapping_sub(self.finished).wrapping_sub(self.dead)
    }
}

impl Record for CountsRecord {
    fn write(&self, into: &mut Vec<u8>) {
        for number in [self.pushed, self.finished, self.dead, self.returned] {
            into.extend_from_slice(&number.to_le_bytes());
        }
    }

    fn read(format: u8, reader: &mut Reader<'_>) -> Option<Self> {
        only_format(format)?;
        Some(Self {
            pushed: reader.u64()?,
            finished: reader.u64()?,
            dead: reader.u64()?,
            returned: reader.u64()?,
        })
    }
}
