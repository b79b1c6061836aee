//! Finding a partition's segment files, and putting them in order.

use std::collections::BTreeMap;

use super::Recovery;
use crate::disk::{DirEntry, Disk, OpenMode};
use crate::error::{EngineError, EngineResult};
use crate::io::Io;
use crate::limits::SEGMENT_FILE_BYTES_MAX;
use crate::log::header::{self, Footer, HEADER_BYTES, SegmentHeader, TRAILER_BYTES};
use crate::log::scan::{self, ScanItem};
use crate::log::segment::Segment;
use crate::planted::{Bug, is_planted};

impl Recovery<'_> {
    /// Opens the segment files, drops those that a rewritten one replaces, and puts them in order.
    pub(super) fn open_segments<D: Disk>(&mut self, io: &mut Io<D>, names: &[DirEntry]) -> EngineResult<()> {
        let mut found: BTreeMap<(u64, u32), Segment> = BTreeMap::new();
        for name in names.iter().filter(|n| n.name.ends_with(".seg")) {
            let path = format!("{}/{}", io.logs.separate(self.store.handle).folder, name.name);
            let Some((first, generation)) = parse_name(&name.name) else {
                return Err(EngineError::Format { path, reason: "not the name of a segment file".into() });
            };
            if name.bytes > SEGMENT_FILE_BYTES_MAX {
                return Err(EngineError::Format {
                    path,
                    reason: format!("{} bytes are too many", name.bytes),
                });
            }
            match self.open_segment(io, &path, name.bytes, (first, generation))? {
                Some(segment) => drop(found.insert((first, generation), segment)),
                None => {
                    // A rewritten file was synced before it got its name: its entries were committed and
                    // durable.
                    if generation > 0 {
                        self.synced = self.synced.max(first);
                    }
                    self.headless.push((first, path, name.bytes));
                }
            }
        }
        self.drop_replaced(io, &mut found)?;
        for (_, mut segment) in found {
            if segment.header.generation > 0 {
                let judged_at = read_footer(&mut io.disk, &segment)?.map_or(0, |footer| footer.judged_at);
                let committed = segment.header.covers_through.max(segment.header.compacted_at);
                self.commit = self.commit.max(committed).max(judged_at);
                self.synced = self.synced.max(judged_at);
                self.synced = self.synced.max(segment.header.covers_through);
                segment.sealed = true;
            }
            self.store.id.index_seed = segment.header.index_seed;
            let slot = io.logs.separate_mut(self.store.handle).add_slot(segment)?;
            io.logs.separate_mut(self.store.handle).order.push(slot);
        }
        Ok(())
    }

    fn open_segment<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        path: &str,
        bytes: u64,
        (first, generation): (u64, u32),
    ) -> EngineResult<Option<Segment>> {
        let file = io.disk.open(path, OpenMode::Existing)?;
        let mut head = vec![0; HEADER_BYTES.min(bytes as usize)];
        io.disk.read_at(file, 0, &mut head)?;
        let partition = self.partition();
        let is_it = |h: &SegmentHeader| {
            h.partition == partition && h.base.index == first && h.generation == generation
        };
        let header = match SegmentHeader::decode(&head) {
            Ok(header) if is_it(&header) => Some(header),
            Ok(_) => {
                let reason = "its header names another partition or place: was it copied here?".into();
                return Err(EngineError::Format { path: path.into(), reason });
            }
            // A newer format is not damage.
            Err(reason) if reason.contains("not known here") => {
                return Err(EngineError::Format { path: path.into(), reason });
            }
            Err(_) => {
                let mut whole = vec![0; bytes as usize];
                io.disk.read_at(file, 0, &mut whole)?;
                header::find_copy(&whole, is_it)
            }
        };
        let Some(header) = header else {
            io.disk.close(file);
            return Ok(None);
        };
        let mut segment = Segment::found(header, path.into(), file, bytes);
        segment.last_index = header.covers_through.max(header.base.index - 1);
        segment.last_epoch = header.covers_epoch.max(header.base.epoch);
        Ok(Some(segment))
    }

    /// A rewritten segment replaces all older generations of its range.
    fn drop_replaced<D: Disk>(
        &mut self,
        io: &mut Io<D>,
        found: &mut BTreeMap<(u64, u32), Segment>,
    ) -> EngineResult<()> {
        let covers: Vec<(u64, u64, u32)> = found
            .values()
            .filter(|s| s.header.generation > 0)
            .map(|s| (s.first_index(), s.header.covers_through, s.header.generation))
            .collect();
        let is_replaced = |&(first, generation): &(u64, u32)| {
            covers.iter().any(|&(from, through, g)| first >= from && first <= through && generation < g)
        };
        let gone: Vec<(u64, u32)> = found.keys().copied().filter(is_replaced).collect();
        let gone = if is_planted(Bug::ReplacedSegmentStays) { Vec::new() } else { gone };
        for key in gone {
            if let Some(segment) = found.remove(&key) {
                segment.file.into_iter().for_each(|file| io.disk.close(file));
                io.disk.remove(&segment.path)?;
            }
        }
        Ok(())
    }
}

/// Whether these bytes, which reach to the end of the segment's file, end with the trailer of a footer at that offset.
pub(super) fn has_trailer(segment: &Segment, bytes: &[u8], footer_at: u64) -> bool {
    let trailer = bytes.len().checked_sub(TRAILER_BYTES).map(|at| &bytes[at..]);
    let footer_place = trailer.and_then(|trailer| header::decode_trailer(segment.base().salt, trailer));
    footer_place.is_some_and(|(at, length)| {
        u64::from(at) == footer_at && footer_at + u64::from(length) + TRAILER_BYTES as u64 == segment.bytes
    })
}

/// The footer of a sealed segment, if there is a valid one.
pub(super) fn read_footer<D: Disk>(disk: &mut D, segment: &Segment) -> EngineResult<Option<Footer>> {
    let (Some(file), Some(at)) = (segment.file, segment.bytes.checked_sub(TRAILER_BYTES as u64)) else {
        return Ok(None);
    };
    let mut trailer = [0; TRAILER_BYTES];
    disk.read_at(file, at, &mut trailer)?;
    let Some((footer_at, bytes)) = header::decode_trailer(segment.base().salt, &trailer) else {
        return Ok(None);
    };
    if u64::from(footer_at) + u64::from(bytes) > at {
        return Ok(None);
    }
    let mut entry = vec![0; bytes as usize];
    disk.read_at(file, u64::from(footer_at), &mut entry)?;
    Ok(match scan::items(segment.base(), &entry, u64::from(footer_at), 0).next() {
        Some(ScanItem::Footer { footer, .. }) => Some(footer),
        _ => None,
    })
}

/// Whether there is nothing unreadable between an offset and the segment's end.
pub(super) fn is_readable_from<D: Disk>(disk: &mut D, segment: &Segment, from: u64) -> EngineResult<bool> {
    let Some(file) = segment.file else { return Ok(false) };
    let mut bytes = vec![0; segment.bytes.saturating_sub(from) as usize];
    if bytes.is_empty() {
        return Ok(true);
    }
    disk.read_at(file, from, &mut bytes)?;
    Ok(scan::items(segment.base(), &bytes, from, 0).all(|item| !matches!(item, ScanItem::Bad { .. })))
}

fn parse_name(name: &str) -> Option<(u64, u32)> {
    let (first, generation) = name.strip_suffix(".seg")?.split_once('-')?;
    let is_plain = first.len() == 16 && generation.len() == 8;
    let parsed = (u64::from_str_radix(first, 16).ok()?, u32::from_str_radix(generation, 16).ok()?);
    (is_plain && parsed.0 > 0).then_some(parsed)
}
