//! A batch as its producer makes it. The layer stores these bytes as they are.
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 4 | CRC-32C of what follows |
//! | 4 | 4 | number of records |
//! | 8 | 8 | base time |
//! | 16 | 8 | highest time |
//! | 24 | 16 | producer |
//! | 40 | 2 | epoch |
//! | 42 | 4 | sequence number of the first record |
//! | 46 | | records |

use zerohop_base::bytes::Reader;

use crate::varint::{read_optional, read_varint, write_optional, write_varint};

/// The bytes before the records.
pub const BATCH_HEADER_BYTES: usize = 46;

/// Sequence numbers are below this, and 0 follows the last one.
pub const SEQUENCE_END: u32 = 1 << 31;

/// The name of a producer: random, drawn by it. No producer has the id of zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(pub [u8; 16]);

/// Which producer has made a batch, and which of its batches it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerStamp {
    /// The producer.
    pub id: ProducerId,
    /// Its epoch. A higher one fences the lower ones.
    pub epoch: u16,
    /// The sequence number of the first record, below [`SEQUENCE_END`]. Each record counts.
    pub sequence: u32,
}

/// A record of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRecord {
    /// Its time, in milliseconds since 1970.
    pub time: u64,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value. A record without one removes its key from a log that keeps the newest value of each key.
    pub value: Option<Vec<u8>>,
    /// Names and values.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// The limits of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// The most bytes.
    pub bytes: usize,
    /// The most records.
    pub records: u32,
    /// The most headers of a record.
    pub headers: usize,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self { bytes: 1 << 20, records: 1 << 16, headers: 256 }
    }
}

impl BatchLimits {
    /// The limits of the format, for batches that are stored.
    pub(crate) const FORMAT: Self =
        Self { bytes: u32::MAX as usize, records: SEQUENCE_END - 1, headers: 1 << 20 };
}

/// What is wrong with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchFault {
    /// It has no record.
    Empty,
    /// It has more bytes than this.
    TooManyBytes(usize),
    /// It has more records than this.
    TooManyRecords(u32),
    /// A record has more headers than this.
    TooManyHeaders(usize),
    /// Its checksum is not that of its bytes.
    BadChecksum,
    /// Its bytes are no batch.
    Malformed,
}

impl std::fmt::Display for BatchFault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => formatter.write_str("it has no record"),
            Self::TooManyBytes(limit) => write!(formatter, "it has more than {limit} bytes"),
            Self::TooManyRecords(limit) => write!(formatter, "it has more than {limit} records"),
            Self::TooManyHeaders(limit) => write!(formatter, "a record has more than {limit} headers"),
            Self::BadChecksum => formatter.write_str("its checksum is not that of its bytes"),
            Self::Malformed => formatter.write_str("its bytes are malformed"),
        }
    }
}

/// A batch whose bytes are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    count: u32,
    base_time: u64,
    max_time: u64,
    producer: Option<ProducerStamp>,
    bytes: Vec<u8>,
}

impl Batch {
    /// The batch of these records.
    ///
    /// # Errors
    /// There are no records, or more than the limits permit.
    pub fn new(
        records: &[LogRecord],
        producer: Option<ProducerStamp>,
        limits: &BatchLimits,
    ) -> Result<Self, BatchFault> {
        let base_time = records.iter().map(|record| record.time).min().ok_or(BatchFault::Empty)?;
        let max_time = records.iter().map(|record| record.time).max().unwrap_or(base_time);
        let count = u32::try_from(records.len()).map_err(|_| BatchFault::TooManyRecords(limits.records))?;
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&count.to_le_bytes());
        bytes.extend_from_slice(&base_time.to_le_bytes());
        bytes.extend_from_slice(&max_time.to_le_bytes());
        let stamp = producer.unwrap_or(ProducerStamp { id: ProducerId([0; 16]), epoch: 0, sequence: 0 });
        bytes.extend_from_slice(&stamp.id.0);
        bytes.extend_from_slice(&stamp.epoch.to_le_bytes());
        bytes.extend_from_slice(&stamp.sequence.to_le_bytes());
        for record in records {
            write_record(&mut bytes, record, base_time);
        }
        let sum = crc_fast::crc32_iscsi(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        Self::parse(bytes, limits)
    }

    /// The batch that bytes have. Every record is checked.
    ///
    /// # Errors
    /// The bytes are no batch, or one above the limits.
    pub fn parse(bytes: Vec<u8>, limits: &BatchLimits) -> Result<Self, BatchFault> {
        if bytes.len() > limits.bytes {
            return Err(BatchFault::TooManyBytes(limits.bytes));
        }
        let batch = Self::header(bytes).ok_or(BatchFault::Malformed)?;
        if batch.count == 0 {
            return Err(BatchFault::Empty);
        }
        if batch.count > limits.records {
            return Err(BatchFault::TooManyRecords(limits.records));
        }
        batch.check_records(limits)?;
        Ok(batch)
    }

    fn header(bytes: Vec<u8>) -> Option<Self> {
        let mut reader = Reader::new(&bytes);
        let _sum = reader.u32()?;
        let (count, base_time, max_time) = (reader.u32()?, reader.u64()?, reader.u64()?);
        let stamp =
            ProducerStamp { id: ProducerId(reader.array()?), epoch: reader.u16()?, sequence: reader.u32()? };
        let producer = (stamp.id != ProducerId::default()).then_some(stamp);
        let is_valid = stamp.sequence < SEQUENCE_END
            && (producer.is_some() || (stamp.epoch, stamp.sequence) == (0, 0))
            && base_time <= max_time;
        is_valid.then_some(Self { count, base_time, max_time, producer, bytes })
    }

    fn check_records(&self, limits: &BatchLimits) -> Result<(), BatchFault> {
        let sum = self.bytes.first_chunk().map(|sum| u32::from_le_bytes(*sum));
        if sum != Some(crc_fast::crc32_iscsi(&self.bytes[4..])) {
            return Err(BatchFault::BadChecksum);
        }
        let mut records = self.records();
        let mut highest = self.base_time;
        for _ in 0..self.count {
            let (time, headers) = records.pass_over().ok_or(BatchFault::Malformed)?;
            if headers > limits.headers {
                return Err(BatchFault::TooManyHeaders(limits.headers));
            }
            highest = highest.max(time);
        }
        if !records.reader.is_at_end() || highest != self.max_time {
            return Err(BatchFault::Malformed);
        }
        Ok(())
    }

    /// The number of records: at least one.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The highest time of a record.
    #[must_use]
    pub const fn max_time(&self) -> u64 {
        self.max_time
    }

    /// The producer, if it counts its batches.
    #[must_use]
    pub const fn producer(&self) -> Option<ProducerStamp> {
        self.producer
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The records, in their order.
    #[must_use]
    pub fn records(&self) -> RecordIter<'_> {
        let records = self.bytes.get(BATCH_HEADER_BYTES..).unwrap_or_default();
        RecordIter { reader: Reader::new(records), base_time: self.base_time }
    }
}

/// The records of a batch.
#[derive(Clone, Debug)]
pub struct RecordIter<'a> {
    reader: Reader<'a>,
    base_time: u64,
}

impl RecordIter<'_> {
    fn time(&mut self) -> Option<u64> {
        self.base_time.checked_add(read_varint(&mut self.reader)?)
    }

    /// The number of headers. Each has two bytes or more.
    fn header_count(&mut self) -> Option<usize> {
        let count = usize::try_from(read_varint(&mut self.reader)?).ok()?;
        (count <= self.reader.rest().len() / 2).then_some(count)
    }

    /// Time and number of headers of the next record, which is checked.
    fn pass_over(&mut self) -> Option<(u64, usize)> {
        let time = self.time()?;
        read_optional(&mut self.reader)?;
        read_optional(&mut self.reader)?;
        let headers = self.header_count()?;
        for _ in 0..headers {
            self.header()?;
        }
        Some((time, headers))
    }

    fn header(&mut self) -> Option<(&str, Option<&[u8]>)> {
        let length = usize::try_from(read_varint(&mut self.reader)?).ok()?;
        let name = std::str::from_utf8(self.reader.bytes(length)?).ok()?;
        Some((name, read_optional(&mut self.reader)?))
    }
}

impl Iterator for RecordIter<'_> {
    type Item = LogRecord;

    fn next(&mut self) -> Option<LogRecord> {
        let time = self.time()?;
        let key = read_optional(&mut self.reader)?.map(<[u8]>::to_vec);
        let value = read_optional(&mut self.reader)?.map(<[u8]>::to_vec);
        let count = self.header_count()?;
        let headers = (0..count).map(|_| {
            let (name, value) = self.header()?;
            Some((name.to_owned(), value.map(<[u8]>::to_vec)))
        });
        let headers = headers.collect::<Option<_>>()?;
        Some(LogRecord { time, key, value, headers })
    }
}

fn write_record(into: &mut Vec<u8>, record: &LogRecord, base_time: u64) {
    write_varint(into, record.time - base_time);
    write_optional(into, record.key.as_deref());
    write_optional(into, record.value.as_deref());
    write_varint(into, record.headers.len() as u64);
    for (name, value) in &record.headers {
        write_varint(into, name.len() as u64);
        into.extend_from_slice(name.as_bytes());
        write_optional(into, value.as_deref());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_bytes() -> impl Strategy<Value = Option<Vec<u8>>> {
        proptest::option::of(proptest::collection::vec(any::<u8>(), 0..200))
    }

    fn any_record() -> impl Strategy<Value = LogRecord> {
        let headers = proptest::collection::vec(("[a-zé]{0,5}", any_bytes()), 0..3);
        (any::<u64>(), any_bytes(), any_bytes(), headers).prop_map(|(time, key, value, headers)| LogRecord {
            time,
            key,
            value,
            headers,
        })
    }

    fn any_stamp() -> impl Strategy<Value = Option<ProducerStamp>> {
        let stamp = (1..=u8::MAX, any::<u16>(), 0..SEQUENCE_END)
            .prop_map(|(id, epoch, sequence)| ProducerStamp { id: ProducerId([id; 16]), epoch, sequence });
        proptest::option::of(stamp)
    }

    proptest! {
        #[test]
        fn records_are_read_back(
            records in proptest::collection::vec(any_record(), 1..20),
            producer in any_stamp(),
        ) {
            let limits = BatchLimits::default();
            let batch = Batch::new(&records, producer, &limits).unwrap();
            prop_assert_eq!(batch.records().collect::<Vec<_>>(), &records[..]);
            prop_assert_eq!((batch.count() as usize, batch.producer()), (records.len(), producer));
            prop_assert_eq!(Batch::parse(batch.bytes().to_vec(), &limits), Ok(batch));
        }

        #[test]
        fn damaged_bytes_are_refused(
            records in proptest::collection::vec(any_record(), 1..5),
            place in any::<prop::sample::Index>(),
            bit in 0..8_u8,
        ) {
            let limits = BatchLimits::default();
            let mut bytes = Batch::new(&records, None, &limits).unwrap().bytes().to_vec();
            let place = place.index(bytes.len());
            prop_assert!(Batch::parse(bytes[..place].to_vec(), &limits).is_err());
            bytes[place] ^= 1 << bit;
            prop_assert!(Batch::parse(bytes, &limits).is_err());
        }

        /// Behind a checksum that is right.
        #[test]
        fn any_bytes_never_panic_and_what_is_read_is_written_the_same(
            mut bytes in proptest::collection::vec(0..4_u8, 46..80),
            count in 0..4_u8,
        ) {
            bytes[4..8].copy_from_slice(&[count, 0, 0, 0]);
            let sum = crc_fast::crc32_iscsi(&bytes[4..]);
            bytes[..4].copy_from_slice(&sum.to_le_bytes());
            if let Ok(batch) = Batch::parse(bytes.clone(), &BatchLimits::default()) {
                prop_assert_eq!(batch.records().count(), batch.count() as usize);
                prop_assert_eq!(batch.bytes(), &bytes[..]);
            }
        }
    }

    #[test]
    fn batch_above_a_limit_is_refused_with_the_limit() {
        let record = LogRecord {
            value: Some(vec![0; 10]),
            headers: vec![("a".to_owned(), None), ("b".to_owned(), None)],
            ..LogRecord::default()
        };
        let build = |limits: BatchLimits| Batch::new(&[record.clone(), record.clone()], None, &limits);
        let limits = BatchLimits { bytes: 90, records: 2, headers: 2 };
        assert_eq!(build(limits).map(|batch| batch.bytes().len()), Ok(46 + 2 * 20));
        assert_eq!(build(BatchLimits { bytes: 85, ..limits }), Err(BatchFault::TooManyBytes(85)));
        assert_eq!(build(BatchLimits { records: 1, ..limits }), Err(BatchFault::TooManyRecords(1)));
        assert_eq!(build(BatchLimits { headers: 1, ..limits }), Err(BatchFault::TooManyHeaders(1)));
        assert_eq!(Batch::new(&[], None, &limits), Err(BatchFault::Empty));
    }
}
