//! Any bytes as a segment of a shared log: they are read to their end without a panic, and a log recovers from them.

use zerohop_engine::disk::simulated::SimulatedDisk;
use zerohop_engine::disk::{Disk, OpenMode};
use zerohop_engine::log::shared::format::{FIRST_ENTRY_AT, HEADER_BYTES, SharedHead, SharedHeader};
use zerohop_engine::log::shared::recover::{recover, resume};
use zerohop_engine::log::shared::scan::{LogItem, items};
use zerohop_engine::log::shared::streams::SharedLogOptions;

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    let Ok(header) = SharedHeader::decode(bytes) else { return };
    assert_eq!(header.encode(), bytes[..HEADER_BYTES], "a header that is read is the one that was written");
    let (base, first) = (header.base(), FIRST_ENTRY_AT as u64);
    let mut last = first;
    for item in items(base, bytes.get(FIRST_ENTRY_AT..).unwrap_or(&[]), first) {
        let (from, to) = match item {
            LogItem::Entry { offset, head, .. } => {
                let entry = &bytes[offset as usize..];
                assert_eq!(head.encode_unsummed(&base)[4..], entry[4..40], "a head has one form");
                assert_eq!(SharedHead::decode(&base, entry), Some(head));
                (offset, offset + head.entry_bytes() as u64)
            }
            LogItem::Bad { offset, until } => (offset, until),
            LogItem::Creations { offset, .. }
            | LogItem::Mark { offset, .. }
            | LogItem::Voids { offset, .. }
            | LogItem::Footer { offset, .. } => (offset, offset),
        };
        assert!(from >= last && to <= bytes.len() as u64, "items follow each other within the file");
        last = to;
    }
    let mut disk = SimulatedDisk::new(1);
    let path = format!("log/{:016x}.log", header.number);
    let file = disk.open(&path, OpenMode::Create).expect("a fresh disk takes files");
    disk.append(file, bytes).expect("a fresh disk takes bytes");
    disk.power_off_clean();
    let recovery = recover(&mut disk, "log", header.log).expect("the disk is sound");
    for found in &recovery.partitions {
        let rises = found.entries.windows(2).all(|two| two[0].index < two[1].index);
        assert!(rises && found.entries.last().is_none_or(|entry| entry.index <= found.last.1));
    }
    // Numbers at their end are refused.
    if let Ok((mut log, _, _)) = resume(&mut disk, SharedLogOptions::new("log", header.log), recovery) {
        log.flush(&mut disk, true).expect("the disk is sound");
    }
}
