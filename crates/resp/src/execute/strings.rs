//! Commands on byte records.

use zerohop_wire::limits::VALUE_BYTES_MAX;

use super::expiry::{TimeUnit, instant};
use super::{ExecuteResult, Execution, NOT_AN_INTEGER, PagedReply, SYNTAX, StopReason, WRONG_TYPE};
use crate::limits::{PAGE_BYTES, STEP_REPLY_BYTES_MAX};
use crate::number::integer;
use crate::unit::{MAY_PAGE, MAY_STOP, flag_of};
use crate::{Args, Deadline, Info, RecordType, ReplyWriter};

pub(super) const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

impl Execution<'_> {
    /// Replies with the bytes of a key, or null; returns whether there was a record.
    #[inline]
    fn reply_bytes(&mut self, key: &[u8]) -> Result<bool, StopReason> {
        let reply = &mut self.reply;
        match self.records.lookup(key, &mut |bytes| reply.bulk(bytes))? {
            Some(RecordType::Bytes) => Ok(true),
            Some(RecordType::List | RecordType::Chunk) => Err(WRONG_TYPE.into()),
            None => {
                reply.null();
                Ok(false)
            }
        }
    }

    /// The record of a key, which must be bytes.
    pub(super) fn bytes_info(&mut self, key: &[u8]) -> Result<Option<Info>, StopReason> {
        match self.records.inspect(key)? {
            Some(info) if info.record != RecordType::Bytes => Err(WRONG_TYPE.into()),
            info => Ok(info),
        }
    }

    pub(super) fn put(&mut self, key: &[u8], contents: &[u8], deadline: Deadline) -> ExecuteResult {
        match deadline {
            // The deadline is already over: the record is removed at once.
            Deadline::AtMs(at) if at <= self.records.now_ms() => {
                self.records.remove(key)?;
            }
            deadline => self.records.put(key, contents, deadline)?,
        }
        Ok(())
    }
}

pub(crate) fn get(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    run.reply_bytes(args.at(1))?;
    Ok(())
}

/// The options of `SET` and `GETEX`.
#[derive(Default)]
struct SetOptions<'a> {
    if_absent: bool,
    if_present: bool,
    get: bool,
    keep_ttl: bool,
    persist: bool,
    /// The unit, whether it is relative to now, and the number.
    expiry: Option<(TimeUnit, bool, &'a [u8])>,
}

impl<'a> SetOptions<'a> {
    fn read(args: Args<'a>, is_set: bool) -> Result<SetOptions<'a>, StopReason> {
        let mut options = SetOptions::default();
        let mut at = 0;
        while at < args.len() {
            let expiry = [
                ("EX", TimeUnit::Seconds, true),
                ("PX", TimeUnit::Millis, true),
                ("EXAT", TimeUnit::Seconds, false),
                ("PXAT", TimeUnit::Millis, false),
            ];
            if is_set && args.is(at, "NX") && !options.if_present {
                options.if_absent = true;
            } else if is_set && args.is(at, "XX") && !options.if_absent {
                options.if_present = true;
            } else if is_set && args.is(at, "GET") {
                options.get = true;
            } else if is_set && args.is(at, "KEEPTTL") && !options.persist && options.expiry.is_none() {
                options.keep_ttl = true;
            } else if !is_set && args.is(at, "PERSIST") && !options.keep_ttl && options.expiry.is_none() {
                options.persist = true;
            } else if let Some((_, unit, relative)) = expiry.into_iter().find(|(name, ..)| args.is(at, name))
                && !options.keep_ttl
                && !options.persist
                && options.expiry.is_none_or(|(is, from_now, _)| (is, from_now) == (unit, relative))
                && let Some(number) = args.get(at + 1)
            {
                options.expiry = Some((unit, relative, number));
                at += 1;
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        Ok(options)
    }

    fn deadline(&self, now_ms: u64, command: &str) -> Result<Option<u64>, StopReason> {
        let Some((unit, relative, number)) = self.expiry else { return Ok(None) };
        positive(number, unit, relative, now_ms, command).map(Some)
    }
}

/// A deadline that must be after 1970 and, if relative, after now.
fn positive(
    number: &[u8],
    unit: TimeUnit,
    relative: bool,
    now_ms: u64,
    command: &str,
) -> Result<u64, StopReason> {
    let number = integer(number).ok_or(NOT_AN_INTEGER)?;
    if number <= 0 {
        return Err(format!("ERR invalid expire time in '{command}' command").into());
    }
    instant(number, unit, relative, now_ms, command).map(|at| at.unsigned_abs())
}

pub(crate) fn set(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let (key, value) = (args.at(1), args.at(2));
    if args.len() == 3 {
        run.records.put(key, value, Deadline::Never)?;
        run.reply.ok();
        return Ok(());
    }
    let options = SetOptions::read(args.from(3), true)?;
    let deadline = match options.deadline(run.records.now_ms(), "set")? {
        Some(at) => Deadline::AtMs(at),
        None if options.keep_ttl => Deadline::Unchanged,
        None => Deadline::Never,
    };
    let is_there = if options.get {
        run.reply_bytes(key)?
    } else if options.if_absent || options.if_present {
        run.records.inspect(key)?.is_some()
    } else {
        false
    };
    if (options.if_absent && is_there) || (options.if_present && !is_there) {
        if !options.get {
            run.reply.null();
        }
        return Ok(());
    }
    run.put(key, value, deadline)?;
    if !options.get {
        run.reply.ok();
    }
    Ok(())
}

pub(crate) fn setnx(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let is_there = run.records.inspect(args.at(1))?.is_some();
    if !is_there {
        run.records.put(args.at(1), args.at(2), Deadline::Never)?;
    }
    run.reply.integer(i64::from(!is_there));
    Ok(())
}

pub(crate) fn setex(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    set_for(run, args, TimeUnit::Seconds, "setex")
}

pub(crate) fn psetex(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    set_for(run, args, TimeUnit::Millis, "psetex")
}

fn set_for(run: &mut Execution<'_>, args: Args<'_>, unit: TimeUnit, command: &str) -> ExecuteResult {
    let at = positive(args.at(2), unit, true, run.records.now_ms(), command)?;
    run.put(args.at(1), args.at(3), Deadline::AtMs(at))?;
    run.reply.ok();
    Ok(())
}

pub(crate) fn getset(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    run.reply_bytes(args.at(1))?;
    Ok(run.records.put(args.at(1), args.at(2), Deadline::Never)?)
}

pub(crate) fn getdel(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    if run.reply_bytes(args.at(1))? {
        run.records.remove(args.at(1))?;
    }
    Ok(())
}

pub(crate) fn getex(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let key = args.at(1);
    let options = SetOptions::read(args.from(2), false)?;
    let info = run.bytes_info(key)?;
    let Some(info) = info else {
        run.reply.null();
        return Ok(());
    };
    let now_ms = run.records.now_ms();
    let deadline = options.deadline(now_ms, "getex")?;
    run.reply_bytes(key)?;
    match deadline {
        Some(at) if at <= now_ms => {
            run.records.remove(key)?;
        }
        Some(at) => run.records.set_deadline(key, Some(at))?,
        None if options.persist && info.deadline_ms.is_some() => run.records.set_deadline(key, None)?,
        None => {}
    }
    Ok(())
}

pub(crate) fn append(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let (key, more) = (args.at(1), args.at(2));
    let length = run.bytes_info(key)?.map_or(0, |info| info.length) + more.len() as u64;
    if length > VALUE_BYTES_MAX as u64 {
        return Err(TOO_LONG.into());
    }
    run.records.extend(key, more)?;
    run.reply.count(length);
    Ok(())
}

pub(crate) fn strlen(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let length = run.bytes_info(args.at(1))?.map_or(0, |info| info.length);
    run.reply.count(length);
    Ok(())
}

pub(crate) fn getrange(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let start = integer(args.at(2)).ok_or(NOT_AN_INTEGER)?;
    let end = integer(args.at(3)).ok_or(NOT_AN_INTEGER)?;
    let length = run.bytes_info(args.at(1))?.map_or(0, |info| info.length);
    let range = super::range::clip_bytes(start, end, length);
    run.reply.bulk_head(range.end - range.start);
    if !range.is_empty() {
        run.records.read(args.at(1), range, run.reply.body())?;
    }
    run.reply.bulk_end();
    Ok(())
}

pub(crate) fn setrange(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let (key, piece) = (args.at(1), args.at(3));
    let offset = integer(args.at(2)).ok_or(NOT_AN_INTEGER)?;
    let offset = u64::try_from(offset).map_err(|_| "ERR offset is out of range")?;
    let length = run.bytes_info(key)?.map_or(0, |info| info.length);
    if piece.is_empty() {
        run.reply.count(length);
        return Ok(());
    }
    let end = offset.saturating_add(piece.len() as u64);
    if end > VALUE_BYTES_MAX as u64 {
        return Err(TOO_LONG.into());
    }
    run.change(key, length, |bytes| {
        bytes.resize(bytes.len().max(end as usize), 0);
        bytes[offset as usize..end as usize].copy_from_slice(piece);
    })?;
    run.reply.count(length.max(end));
    Ok(())
}

impl Execution<'_> {
    /// Changes the bytes of a record of this length (0: absent); its deadline stays.
    pub(super) fn change(
        &mut self,
        key: &[u8],
        length: u64,
        change: impl FnOnce(&mut Vec<u8>),
    ) -> ExecuteResult {
        self.scratch.clear();
        if length > 0 {
            self.records.read(key, 0..length, self.scratch)?;
        }
        change(self.scratch);
        Ok(self.records.put(key, self.scratch, Deadline::Unchanged)?)
    }
}

pub(crate) fn mget(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let (begin, keys) = (run.reply.len(), args.len() - 1);
    let room = match flag_of(run.wait_until_ms) {
        Some(MAY_PAGE) => STEP_REPLY_BYTES_MAX,
        Some(MAY_STOP) => PAGE_BYTES,
        _ => usize::MAX,
    };
    run.reply.array(keys);
    for (key, done) in args.iter().skip(1).zip(1..) {
        let reply = &mut run.reply;
        if run.records.lookup(key, &mut |bytes| reply.bulk(bytes))? != Some(RecordType::Bytes) {
            reply.null();
        }
        if run.reply.len() - begin <= room || done == keys {
            run.check_reply()?;
            continue;
        }
        if room == STEP_REPLY_BYTES_MAX {
            // Operations under way on any of the keys must end before the time of the snapshot.
            args.iter().skip(1 + done).try_for_each(|key| run.records.check(key))?;
            return Err(PagedReply::of(0..keys as u64).into());
        }
        let mut head = Vec::new();
        ReplyWriter::new(&mut head, run.reply.protocol()).array(done);
        let line = format!("*{keys}\r\n").len();
        run.reply.body().splice(begin..begin + line, head);
        return Ok(());
    }
    Ok(())
}

pub(crate) fn mset(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    put_all(run, args, "mset")?;
    run.reply.ok();
    Ok(())
}

pub(crate) fn msetnx(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    check_pairs(args, "msetnx")?;
    for place in (1..args.len()).step_by(2) {
        if run.records.inspect(args.at(place))?.is_some() {
            run.reply.integer(0);
            return Ok(());
        }
    }
    put_all(run, args, "msetnx")?;
    run.reply.integer(1);
    Ok(())
}

fn check_pairs(args: Args<'_>, command: &str) -> ExecuteResult {
    match args.len() % 2 {
        1 => Ok(()),
        _ => Err(format!("ERR wrong number of arguments for '{command}' command").into()),
    }
}

fn put_all(run: &mut Execution<'_>, args: Args<'_>, command: &str) -> ExecuteResult {
    check_pairs(args, command)?;
    for place in (1..args.len()).step_by(2) {
        run.records.put(args.at(place), args.at(place + 1), Deadline::Never)?;
    }
    Ok(())
}
