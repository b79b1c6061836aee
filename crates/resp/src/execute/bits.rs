//! Bits of byte records; bit 0 is the highest of the first byte.

use std::ops::Range;

use zerohop_wire::limits::BIT_OFFSET_MAX;

use super::range::{clip_bits, clip_bytes};
use super::{ExecuteResult, Execution, NOT_AN_INTEGER, SYNTAX, StopReason};
use crate::Args;
use crate::number::integer;

fn offset(text: &[u8]) -> Result<u64, StopReason> {
    let offset = integer(text).and_then(|offset| u64::try_from(offset).ok());
    let offset = offset.filter(|&offset| offset <= BIT_OFFSET_MAX);
    offset.ok_or_else(|| "ERR bit offset is not an integer or out of range".into())
}

fn mask(offset: u64) -> u8 {
    0x80 >> (offset % 8)
}

pub(crate) fn setbit(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let offset = offset(args.at(2))?;
    let is_set = match args.at(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err("ERR bit is not an integer or out of range".into()),
    };
    let length = run.bytes_info(args.at(1))?.map_or(0, |info| info.length);
    let (byte, mask) = ((offset / 8) as usize, mask(offset));
    let was_set = run.bit(args.at(1), length, offset)?;
    // An unchanged byte is not written, so that no watcher is disturbed.
    if was_set != is_set || byte as u64 >= length {
        run.change(args.at(1), length, |bytes| {
            bytes.resize(bytes.len().max(byte + 1), 0);
            bytes[byte] = if is_set { bytes[byte] | mask } else { bytes[byte] & !mask };
        })?;
    }
    run.reply.integer(i64::from(was_set));
    Ok(())
}

pub(crate) fn getbit(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let offset = offset(args.at(2))?;
    let length = run.bytes_info(args.at(1))?.map_or(0, |info| info.length);
    let is_set = run.bit(args.at(1), length, offset)?;
    run.reply.integer(i64::from(is_set));
    Ok(())
}

/// Whether a range counts bits.
fn in_bits(args: Args<'_>, place: usize) -> Result<bool, StopReason> {
    match () {
        () if args.get(place).is_none() || args.is(place, "BYTE") => Ok(false),
        () if args.is(place, "BIT") => Ok(true),
        () => Err(SYNTAX.into()),
    }
}

pub(crate) fn bitcount(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let Some(info) = run.bytes_info(args.at(1))? else {
        run.reply.integer(0);
        return Ok(());
    };
    let bits = match args.len() {
        2 => 0..info.length * 8,
        4 | 5 => {
            let start = integer(args.at(2)).ok_or(NOT_AN_INTEGER)?;
            let end = integer(args.at(3)).ok_or(NOT_AN_INTEGER)?;
            // Redis answers 0 here before it reads the following arguments.
            if start < 0 && end < 0 && start > end {
                0..0
            } else if in_bits(args, 4)? {
                clip_bytes(start, end, info.length * 8)
            } else {
                let bytes = clip_bytes(start, end, info.length);
                bytes.start * 8..bytes.end * 8
            }
        }
        _ => return Err(SYNTAX.into()),
    };
    run.read_bits(args.at(1), &bits)?;
    let count: u64 = run.scratch.iter().map(|byte| u64::from(byte.count_ones())).sum();
    // Bits of the first and last byte that are outside the range do not count.
    let before = match run.scratch.first() {
        Some(first) => first & !(0xff >> (bits.start % 8)),
        None => 0,
    };
    let behind = match (run.scratch.last(), bits.end % 8) {
        (Some(last), 1..) => last & (0xff >> (bits.end % 8)),
        _ => 0,
    };
    run.reply.count(count - u64::from(before.count_ones()) - u64::from(behind.count_ones()));
    Ok(())
}

pub(crate) fn bitpos(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let requested = match integer(args.at(2)).ok_or(NOT_AN_INTEGER)? {
        0 => false,
        1 => true,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    let Some(info) = run.bytes_info(args.at(1))? else {
        run.reply.integer(if requested { -1 } else { 0 });
        return Ok(());
    };
    let (bits, ends) = match args.len() {
        3 => (0..info.length * 8, false),
        4..=6 => {
            let start = integer(args.at(3)).ok_or(NOT_AN_INTEGER)?;
            let counts_bits = in_bits(args, 5)?;
            let end = if args.len() > 4 { integer(args.at(4)).ok_or(NOT_AN_INTEGER)? } else { -1 };
            let range = if counts_bits {
                clip_bits(start, end, info.length * 8)
            } else {
                let bytes = clip_bits(start, end, info.length);
                bytes.start * 8..bytes.end * 8
            };
            (range, args.len() > 4)
        }
        _ => return Err(SYNTAX.into()),
    };
    run.read_bits(args.at(1), &bits)?;
    let first_byte = bits.start / 8;
    let uninteresting = if requested { 0x00 } else { 0xff };
    let found =
        run.scratch.iter().enumerate().filter(|&(_, &byte)| byte != uninteresting).find_map(|(at, &byte)| {
            let begin = (first_byte + at as u64) * 8;
            (begin..begin + 8).find(|bit| bits.contains(bit) && (byte & mask(*bit) != 0) == requested)
        });
    run.reply.integer(match found {
        Some(bit) => bit as i64,
        // After the end of the record there are zeros, unless an end was given.
        None if !requested && !ends && !bits.is_empty() => bits.end as i64,
        None => -1,
    });
    Ok(())
}

impl Execution<'_> {
    /// One bit of a record of this length; bits after its end are 0.
    fn bit(&mut self, key: &[u8], length: u64, offset: u64) -> Result<bool, StopReason> {
        let byte = offset / 8;
        self.scratch.clear();
        if byte < length {
            self.records.read(key, byte..byte + 1, self.scratch)?;
        }
        Ok(self.scratch.first().is_some_and(|found| found & mask(offset) != 0))
    }

    /// Reads the bytes that contain these bits into `scratch`.
    fn read_bits(&mut self, key: &[u8], bits: &Range<u64>) -> ExecuteResult {
        self.scratch.clear();
        if !bits.is_empty() {
            self.records.read(key, bits.start / 8..bits.end.div_ceil(8), self.scratch)?;
        }
        Ok(())
    }
}
