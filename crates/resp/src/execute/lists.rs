//! Commands on lists.

use zerohop_wire::limits::{APPEND_VALUES_MAX, LIST_PAGE_VALUES_MAX};

use super::range::clip;
use super::{ExecuteResult, Execution, NOT_AN_INTEGER, PagedReply, StopReason, WRONG_TYPE};
use crate::limits::{APPEND_BYTES, REPLY_BYTES_MAX, STEP_REPLY_BYTES_MAX, STEP_VALUES_MAX};
use crate::number::integer;
use crate::unit::{MAY_PAGE, flag_of};
use crate::{Args, Info, RecordType};

/// Values that are copied at a time.
pub(super) const LIST_COPY_VALUES: u64 = LIST_PAGE_VALUES_MAX as u64;

impl Execution<'_> {
    /// The record of a key, which must be a list.
    #[inline]
    fn list_info(&mut self, key: &[u8]) -> Result<Option<Info>, StopReason> {
        match self.records.inspect(key)? {
            Some(info) if info.record != RecordType::List => Err(WRONG_TYPE.into()),
            info => Ok(info),
        }
    }
}

/// Appends values of any number and length, each of which may be as long as one append.
pub(super) fn append_all(run: &mut Execution<'_>, key: &[u8], values: Args<'_>) -> ExecuteResult {
    let mut rest = values;
    while !rest.is_empty() {
        let mut bytes = 0;
        let is_within = |value: &&[u8]| {
            bytes += value.len();
            bytes <= APPEND_BYTES
        };
        let count = rest.iter().take(APPEND_VALUES_MAX as usize).take_while(is_within).count().max(1);
        run.records.append(key, rest.part(0, count))?;
        rest = rest.from(count);
    }
    Ok(())
}

pub(crate) fn rpush(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    push(run, args, false)
}

pub(crate) fn rpushx(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    push(run, args, true)
}

#[inline]
fn push(run: &mut Execution<'_>, args: Args<'_>, only_if_there: bool) -> ExecuteResult {
    let values = args.from(2);
    let length = match run.list_info(args.at(1))? {
        None if only_if_there => {
            run.reply.integer(0);
            return Ok(());
        }
        info => info.map_or(0, |info| info.length),
    };
    append_all(run, args.at(1), values)?;
    run.reply.count(length + values.len() as u64);
    Ok(())
}

pub(crate) fn llen(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let length = run.list_info(args.at(1))?.map_or(0, |info| info.length);
    run.reply.count(length);
    Ok(())
}

pub(crate) fn lrange(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let start = integer(args.at(2)).ok_or(NOT_AN_INTEGER)?;
    let end = integer(args.at(3)).ok_or(NOT_AN_INTEGER)?;
    let length = run.list_info(args.at(1))?.map_or(0, |info| info.length);
    let range = clip(start, end, length);
    let may_page = flag_of(run.wait_until_ms) == Some(MAY_PAGE);
    if may_page && range.end - range.start > STEP_VALUES_MAX {
        return Err(PagedReply::of(range).into());
    }
    run.reply.array((range.end - range.start) as usize);
    let room = run.begin + if may_page { STEP_REPLY_BYTES_MAX } else { REPLY_BYTES_MAX };
    let mut begin = range.start;
    while begin < range.end {
        let page_end = range.end.min(begin + u64::from(LIST_PAGE_VALUES_MAX));
        let (reply, mut read) = (&mut run.reply, begin);
        run.records.values(args.at(1), begin..page_end, &mut |value| {
            // Over the limit nothing more is read; the error follows below.
            reply.bulk(value);
            read += 1;
            reply.len() <= room
        })?;
        if may_page && read < range.end && run.reply.len() > room {
            return Err(PagedReply::of(range).into());
        }
        run.check_reply()?;
        begin = page_end;
    }
    Ok(())
}

pub(crate) fn lindex(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let Some(info) = run.list_info(args.at(1))? else {
        run.reply.null();
        return Ok(());
    };
    let place = integer(args.at(2)).ok_or(NOT_AN_INTEGER)?;
    let place = if place < 0 { place.checked_add_unsigned(info.length) } else { Some(place) };
    match place.and_then(|place| u64::try_from(place).ok()).filter(|&place| place < info.length) {
        Some(place) => {
            let reply = &mut run.reply;
            run.records.values(args.at(1), place..place + 1, &mut |value| {
                reply.bulk(value);
                true
            })?;
        }
        None => run.reply.null(),
    }
    Ok(())
}

pub(crate) fn ltrim(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let start = integer(args.at(2)).ok_or(NOT_AN_INTEGER)?;
    let end = integer(args.at(3)).ok_or(NOT_AN_INTEGER)?;
    if let Some(info) = run.list_info(args.at(1))? {
        let keep = clip(start, end, info.length);
        if keep.is_empty() {
            run.records.remove(args.at(1))?;
        } else if keep != (0..info.length) {
            run.records.trim(args.at(1), keep)?;
        }
    }
    run.reply.ok();
    Ok(())
}
