//! Commands that Redis does not have.

use zerohop_wire::limits::TIME_OUT_MS_MAX;

use super::{ExecuteResult, Execution, StopReason};
use crate::number::integer;
use crate::{Args, Deadline};

/// `ZH.CAS key expected new`: an array of 1 and the replaced value if that was `expected`, else of
/// 0 and the current value. The deadline stays.
pub(crate) fn cas(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let (key, expected, new) = (args.at(1), args.at(2), args.at(3));
    run.bytes_info(key)?;
    let scratch = &mut *run.scratch;
    scratch.clear();
    let is_there = run.records.lookup(key, &mut |bytes| scratch.extend_from_slice(bytes))?.is_some();
    let holds = is_there && *scratch == expected;
    if holds {
        run.records.put(key, new, Deadline::Unchanged)?;
    }
    run.reply.array(2);
    run.reply.integer(i64::from(holds));
    if is_there {
        run.reply.bulk(run.scratch);
    } else {
        run.reply.null();
    }
    Ok(())
}

/// `ZH.WAIT key value timeout-ms`: 1 as soon as the key has this value, 0 if it has not at the
/// time-out. In a transaction it does not wait.
pub(crate) fn wait(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let (key, value) = (args.at(1), args.at(2));
    let time_out = integer(args.at(3)).ok_or("ERR timeout is not an integer or out of range")?;
    let time_out = u64::try_from(time_out).map_err(|_| "ERR timeout is negative")?;
    if time_out > u64::from(TIME_OUT_MS_MAX) {
        return Err("ERR timeout is out of range".into());
    }
    let mut holds = false;
    run.records.lookup(key, &mut |bytes| holds = bytes == value)?;
    let now_ms = run.records.now_ms();
    let until_ms = run.wait_until_ms.unwrap_or(now_ms + time_out);
    if !holds && until_ms > now_ms && !run.in_transaction {
        return Err(StopReason::Wait { key: key.to_vec(), until_ms });
    }
    run.reply.integer(i64::from(holds));
    Ok(())
}
