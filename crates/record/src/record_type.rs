//! The types of records.

use crate::numbered;

numbered!(
    /// The type of a record. It does not change while the record exists, except that an insert may replace any record by bytes.
    RecordType: u8 {
        /// One value.
        Bytes = 1, "bytes";
        /// Values in the order in which they were appended.
        List = 2, "a list";
        /// A chunk of a blob.
        Chunk = 3, "a chunk of a blob";
    }
);

impl RecordType {
    /// The number of a type; 0: none.
    #[must_use]
    pub fn optional_number(record: Option<Self>) -> u8 {
        record.map_or(0, Self::number)
    }
}
