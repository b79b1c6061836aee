//! The records of a keyspace as they were at one moment, before the changes since then.

use std::ops::{Bound, RangeBounds};

use serde::Serialize;
use zerohop_client::{Keyspace, Record, ScanKey, Snapshot};
use zerohop_wire::limits::CHANGE_VALUE_BYTES_MAX;
use zerohop_wire::messages::RecordType;

use super::add_json;
use crate::common::display::{JsonKey, JsonValue};
use crate::common::ending::CommandError;
use crate::kv::refusal::type_name;
use crate::output::{self, NameList};

/// The most values that are in memory at once.
const VALUES: usize = 64;

/// The records that are printed.
pub(super) struct RecordList<'r> {
    pub(super) keyspace: &'r Keyspace,
    /// The keys, by their bytes.
    pub(super) range: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    pub(super) prefix: Vec<u8>,
    pub(super) values: bool,
    pub(super) json: bool,
}

/// A line of JSON for a record.
#[derive(Serialize)]
struct InitialRecordOutput<'a> {
    event: &'static str,
    #[serde(flatten)]
    key: JsonKey<'a>,
    #[serde(rename = "type")]
    record: &'static str,
    version: String,
    partition: u32,
    #[serde(flatten)]
    value: Option<JsonValue<'a>>,
}

impl RecordList<'_> {
    /// Prints the records as they are in a snapshot.
    pub(super) async fn print(&self, snapshot: &Snapshot) -> Result<(), CommandError> {
        let mut pages = snapshot.scan(self.keyspace, self.prefix.clone());
        let (from, to) = &self.range;
        let range = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        while let Some(mut keys) = pages.next_page().await? {
            keys.retain(|one| RangeBounds::<[u8]>::contains(&range, &one.key[..]));
            for some in keys.chunks(VALUES) {
                let values = self.values(snapshot, some).await?;
                let mut out = Vec::new();
                for (key, value) in some.iter().zip(&values) {
                    self.add(&mut out, key, value.as_deref());
                }
                output::raw(&[&out])?;
            }
        }
        Ok(())
    }

    /// The values of these keys, as far as a watch prints them.
    async fn values(
        &self,
        snapshot: &Snapshot,
        keys: &[ScanKey],
    ) -> Result<Vec<Option<Vec<u8>>>, CommandError> {
        let mut values = vec![None; keys.len()];
        let is_read = |key: &ScanKey| self.values && key.record == RecordType::Bytes;
        let places: Vec<usize> =
            keys.iter().enumerate().filter(|(_, key)| is_read(key)).map(|(place, _)| place).collect();
        let wanted: Vec<_> = places.iter().map(|place| (self.keyspace, &keys[*place].key)).collect();
        for (place, record) in places.iter().zip(snapshot.read_many(&wanted).await?) {
            if let Some(Record::Bytes { length, bytes, .. }) = record
                && length <= CHANGE_VALUE_BYTES_MAX as u64
            {
                values[*place] = Some(bytes.into());
            }
        }
        Ok(values)
    }

    fn add(&self, out: &mut Vec<u8>, key: &ScanKey, value: Option<&[u8]>) {
        if self.json {
            let line = InitialRecordOutput {
                event: "record",
                key: JsonKey(&key.key),
                record: type_name(key.record),
                version: key.version.to_string(),
                partition: key.partition.0,
                value: value.map(JsonValue),
            };
            return add_json(out, &line);
        }
        let printed = NameList::new(false);
        out.extend_from_slice(b"record\t");
        match value {
            Some(value) => printed.add_with_value(out, &key.key, value),
            None => printed.add(out, &key.key, ""),
        }
    }
}
