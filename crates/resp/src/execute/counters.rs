//! Numbers stored as decimal text.

use super::{ExecuteResult, Execution, NOT_AN_INTEGER, StopReason, WRONG_TYPE};
use crate::number::{self, Digits, integer};
use crate::{Args, Deadline, RecordType};

pub(crate) fn incr(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    add(run, args.at(1), 1)
}

pub(crate) fn decr(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    add(run, args.at(1), -1)
}

pub(crate) fn incrby(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    add(run, args.at(1), integer(args.at(2)).ok_or(NOT_AN_INTEGER)?)
}

pub(crate) fn decrby(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let by = integer(args.at(2)).ok_or(NOT_AN_INTEGER)?;
    add(run, args.at(1), by.checked_neg().ok_or("ERR decrement would overflow")?)
}

#[inline]
fn add(run: &mut Execution<'_>, key: &[u8], by: i64) -> ExecuteResult {
    let mut number = Some(0);
    match run.records.lookup(key, &mut |bytes| number = integer(bytes))? {
        Some(RecordType::List | RecordType::Chunk) => return Err(WRONG_TYPE.into()),
        Some(RecordType::Bytes) | None => {}
    }
    let number = number.ok_or(NOT_AN_INTEGER)?;
    let sum = number.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
    let digits = Digits::of(sum);
    run.records.put(key, digits.as_bytes(), Deadline::Unchanged)?;
    run.reply.digits(&digits);
    Ok(())
}

pub(crate) fn incrbyfloat(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    const NOT_A_FLOAT: &str = "ERR value is not a valid float";
    let key = args.at(1);
    let scratch = &mut *run.scratch;
    scratch.clear();
    match run.records.lookup(key, &mut |bytes| scratch.extend_from_slice(bytes))? {
        Some(RecordType::List | RecordType::Chunk) => return Err(WRONG_TYPE.into()),
        Some(RecordType::Bytes) => {}
        None => scratch.push(b'0'),
    }
    let sum = number::float_sum(scratch, args.at(2)).ok_or(NOT_A_FLOAT)?;
    let sum = sum.ok_or(StopReason::from("ERR increment would produce NaN or Infinity"))?;
    run.records.put(key, sum.as_bytes(), Deadline::Unchanged)?;
    run.reply.bulk(sum.as_bytes());
    Ok(())
}
