//! Commands on records of either type.

use super::lists::{LIST_COPY_VALUES, append_all};
use super::{ExecuteResult, Execution, NOT_AN_INTEGER, SYNTAX, StopReason};
use crate::limits::REPLY_BYTES_MAX;
use crate::number::integer;
use crate::{Args, Deadline, Info, RecordType};

pub(crate) fn del(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let mut removed = 0;
    for key in args.iter().skip(1) {
        removed += i64::from(run.records.remove(key)?);
    }
    run.reply.integer(removed);
    Ok(())
}

/// `EXISTS` and `TOUCH`.
pub(crate) fn exists(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let mut found = 0;
    for key in args.iter().skip(1) {
        found += i64::from(run.records.inspect(key)?.is_some());
    }
    run.reply.integer(found);
    Ok(())
}

pub(crate) fn typed(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let record = run.records.inspect(args.at(1))?.map(|info| info.record);
    run.reply.simple(type_name(record));
    Ok(())
}

/// The name of the type in Redis.
pub(super) fn type_name(record: Option<RecordType>) -> &'static str {
    match record {
        None => "none",
        Some(RecordType::Bytes) => "string",
        Some(RecordType::List) => "list",
        Some(RecordType::Chunk) => "chunk",
    }
}

const NO_SUCH_KEY: &str = "ERR no such key";

pub(crate) fn rename(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let (from, to) = (args.at(1), args.at(2));
    let info = run.records.inspect(from)?.ok_or(StopReason::from(NO_SUCH_KEY))?;
    if from != to {
        run.copy(from, info, to)?;
        run.records.remove(from)?;
    }
    run.reply.ok();
    Ok(())
}

pub(crate) fn renamenx(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let (from, to) = (args.at(1), args.at(2));
    let info = run.records.inspect(from)?.ok_or(StopReason::from(NO_SUCH_KEY))?;
    // A key copied to itself: the target exists.
    let free = run.records.inspect(to)?.is_none();
    if free {
        run.copy(from, info, to)?;
        run.records.remove(from)?;
    }
    run.reply.integer(i64::from(free));
    Ok(())
}

pub(crate) fn copy(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let (from, to) = (args.at(1), args.at(2));
    let mut replace = false;
    let mut at = 3;
    while at < args.len() {
        if args.is(at, "REPLACE") {
            replace = true;
            at += 1;
        } else if args.is(at, "DB") && at + 1 < args.len() {
            match integer(args.at(at + 1)) {
                Some(0) => at += 2,
                Some(_) => return Err("ERR DB index is out of range".into()),
                None => return Err(NOT_AN_INTEGER.into()),
            }
        } else {
            return Err(SYNTAX.into());
        }
    }
    if from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let copied = match run.records.inspect(from)? {
        Some(info) if replace || run.records.inspect(to)?.is_none() => {
            run.copy(from, info, to)?;
            true
        }
        _ => false,
    };
    run.reply.integer(i64::from(copied));
    Ok(())
}

impl Execution<'_> {
    /// Copies a record to another key, its deadline included.
    fn copy(&mut self, from: &[u8], info: Info, to: &[u8]) -> ExecuteResult {
        let deadline = info.deadline_ms.map_or(Deadline::Never, Deadline::AtMs);
        if info.record == RecordType::Bytes {
            self.scratch.clear();
            self.records.read(from, 0..info.length, self.scratch)?;
            return Ok(self.records.put(to, self.scratch, deadline)?);
        }
        self.records.remove(to)?;
        let mut bytes = 0;
        let mut begin = 0;
        while begin < info.length {
            let end = info.length.min(begin + LIST_COPY_VALUES);
            let mut values: Vec<Vec<u8>> = Vec::new();
            self.records.values(from, begin..end, &mut |value| {
                bytes += value.len();
                if bytes <= REPLY_BYTES_MAX {
                    values.push(value.to_vec());
                }
                bytes <= REPLY_BYTES_MAX
            })?;
            if bytes > REPLY_BYTES_MAX {
                return Err(StopReason::Refused(format!(
                    "ERR the list to be copied has more than {bytes} bytes, {REPLY_BYTES_MAX} are allowed: copy it in pieces, with \
                     LRANGE and RPUSH; nothing was done"
                )));
            }
            let slices: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            append_all(self, to, Args::of(&slices))?;
            begin = end;
        }
        match info.deadline_ms {
            Some(at) => Ok(self.records.set_deadline(to, Some(at))?),
            None => Ok(()),
        }
    }
}
