//! `list_chunks`: the chunks of a blob that exist in a partition, page by page.
//!
//! A page comes from the table of chunks, and costs what it returns. If the table is incomplete, the request walks a bounded part of the
//! index instead, as a scan does. The two kinds of cursors differ in the first byte. A request with a cursor of the other kind begins again,
//! because the caller accepts a chunk that is listed twice.

use zerohop_engine::Cursor;
use zerohop_engine::disk::Disk;
use zerohop_wire::blob::{chunk_key, listed_chunk};
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::CHUNKS_LISTED_FROM;
use zerohop_wire::messages::{
    ChunkList, OperationAnswer, Outcome as WireOutcome, RecordType, Scan, ScannedKey,
};
use zerohop_wire::{BadRequestReason, Elements, pack};

use super::EngineResultExt;
use super::scan::KeySource;
use crate::hash_range::HashRange;
use crate::limits::{CHUNKS_VISITED_MAX, SCAN_INDEX_PAGES_MAX};
use crate::state::ChunkTable;
use crate::view::RecordView;

/// The first byte of a cursor in the table; the next number (8, big-endian) follows. No cursor of an index begins with it.
const TABLE_TAG: u8 = 0x80;

/// Answers with a page. `out` and `next` are empty, and store the contents that the answer borrows.
pub(crate) fn answer<'o, D: Disk>(
    view: &mut RecordView<'_, D>,
    table: &ChunkTable,
    list: &ChunkList<'_>,
    foreign: Option<&HashRange>,
    (out, next): (&'o mut Vec<u8>, &'o mut Vec<u8>),
) -> OperationAnswer<'o> {
    let is_own =
        |number| foreign.is_none_or(|range| chunk_key(list.name, number).is_ok_and(|key| range.owns(&key)));
    let mut count = 0;
    let mut add = |number: u64| {
        let key = &number.to_be_bytes();
        pack(&ScannedKey { key, record: RecordType::Chunk, version: Timestamp::ZERO, value: None }, out)?;
        count += 1;
        Ok::<_, zerohop_wire::Failure<'static>>(count)
    };
    if table.is_complete() {
        let first = match list.cursor.split_first() {
            Some((&TABLE_TAG, number)) => {
                u64::from_be_bytes(number.try_into().map_err(|_| BadRequestReason::Cursor)?)
            }
            _ => list.first.max(CHUNKS_LISTED_FROM),
        };
        let mut last = None;
        let mut numbers = table.from(list.name, first).take_while(|number| *number < list.end);
        for number in numbers.by_ref().take(CHUNKS_VISITED_MAX) {
            last = Some(number);
            if is_own(number) && add(number)? == list.numbers_max {
                break;
            }
        }
        if let (Some(last), Some(_)) = (last, numbers.next()) {
            next.push(TABLE_TAG);
            next.extend_from_slice(&(last + 1).to_be_bytes());
        }
    } else {
        let from = match list.cursor.first() {
            Some(&TABLE_TAG) | None => Cursor::START,
            Some(_) => Cursor::from_bytes(list.cursor).map_err(|_| BadRequestReason::Cursor)?,
        };
        let (mut at, mut found) = (Some(from), 0);
        for _ in 0..SCAN_INDEX_PAGES_MAX {
            let Some(from) = at else { break };
            let (keys, behind) = view.engine.scan(view.handle, &from).or_fail()?;
            at = behind;
            for (before, key) in keys.iter().enumerate() {
                let listed = listed_chunk(key).filter(|(name, number)| {
                    *name == list.name && (list.first..list.end).contains(number) && is_own(*number)
                });
                let Some((_, number)) = listed else { continue };
                found = add(number)?;
                if found == list.numbers_max && (before + 1 < keys.len() || at.is_some()) {
                    at = Some(view.engine.cursor_behind(view.handle, key).or_fail()?);
                    break;
                }
            }
            if found == list.numbers_max {
                break;
            }
        }
        next.extend(at.iter().flat_map(|at| at.as_bytes()));
    }
    Ok(WireOutcome::Page { next, keys: Elements::packed(count, out)? })
}

/// Answers with a page of the chunks that a blob had at a time. Its cost is that of a page of a scan. The prefix of `scan` is the name in
/// the keys of the chunks.
pub(crate) fn past<'o>(
    all: &mut impl KeySource,
    scan: &Scan<'_>,
    foreign: Option<HashRange>,
    (out, next): (&'o mut Vec<u8>, &'o mut Vec<u8>),
) -> OperationAnswer<'o> {
    let mut at = Some(Cursor::from_bytes(scan.cursor).map_err(|_| BadRequestReason::Cursor)?);
    let mut count = 0;
    'pages: for _ in 0..SCAN_INDEX_PAGES_MAX {
        let Some(from) = at else { break };
        let (keys, behind) = all.page(&from)?;
        at = behind;
        for (before, key) in keys.iter().enumerate() {
            let listed = listed_chunk(key).filter(|(name, _)| *name == scan.prefix);
            let is_own = foreign.as_ref().is_none_or(|range| range.owns(key));
            let Some((_, number)) = listed.filter(|_| is_own) else { continue };
            let number = &number.to_be_bytes();
            pack(
                &ScannedKey { key: number, record: RecordType::Chunk, version: Timestamp::ZERO, value: None },
                out,
            )?;
            count += 1;
            if count == scan.keys_max {
                if before + 1 < keys.len() || at.is_some() {
                    at = Some(all.cursor_behind(key)?);
                }
                break 'pages;
            }
        }
    }
    next.extend(at.iter().flat_map(|at| at.as_bytes()));
    Ok(WireOutcome::Page { next, keys: Elements::packed(count, out)? })
}
