//! Pages of keys.

use zerohop_wire::ids::PartitionId;
use zerohop_wire::messages::{Message, Outcome, RecordType, Scan, ScannedKey};
use zerohop_wire::{Elements, Envelope};

use super::replies::encode;
use super::server::{FakeCluster, ServerRecord};

impl FakeCluster {
    /// A cursor is the last key of the previous page.
    pub fn scan(&self, envelope: &Envelope, at: PartitionId, scan: &Scan<'_>) -> Vec<u8> {
        let records = &self.partitions[at.get() as usize].records;
        let after = records.iter().filter(|(key, _)| {
            key.starts_with(scan.prefix) && (scan.cursor.is_empty() || &key[..] > scan.cursor)
        });
        let all: Vec<ScannedKey<'_>> = after
            .map(|(key, (version, record))| {
                let record = match record {
                    ServerRecord::Bytes(_) => RecordType::Bytes,
                    ServerRecord::List(_) => RecordType::List,
                };
                ScannedKey { key, record, version: *version, value: None }
            })
            .collect();
        let page = &all[..all.len().min(scan.keys_max as usize)];
        let next = if page.len() < all.len() { page[page.len() - 1].key } else { &[] };
        encode(envelope, &Message::Answer(Ok(Outcome::Page { next, keys: Elements::from_slice(page) })))
    }
}
