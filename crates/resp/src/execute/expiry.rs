//! Deadlines of records.

use zerohop_wire::ids::Timestamp;

use super::{ExecuteResult, Execution, NOT_AN_INTEGER, StopReason};
use crate::Args;
use crate::number::integer;

/// The unit of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeUnit {
    Seconds,
    Millis,
}

/// A point in time in milliseconds since 1970; it may be negative.
pub(super) fn instant(
    number: i64,
    unit: TimeUnit,
    relative: bool,
    now_ms: u64,
    command: &str,
) -> Result<i64, StopReason> {
    let ms = match unit {
        TimeUnit::Seconds => number.checked_mul(1000),
        TimeUnit::Millis => Some(number),
    };
    let at = if relative { ms.and_then(|ms| ms.checked_add_unsigned(now_ms)) } else { ms };
    at.filter(|&at| at <= Timestamp::MILLIS_MAX as i64)
        .ok_or_else(|| format!("ERR invalid expire time in '{command}' command").into())
}

pub(crate) fn expire(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    expire_at(run, args, TimeUnit::Seconds, true, "expire")
}

pub(crate) fn pexpire(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    expire_at(run, args, TimeUnit::Millis, true, "pexpire")
}

pub(crate) fn expireat(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    expire_at(run, args, TimeUnit::Seconds, false, "expireat")
}

pub(crate) fn pexpireat(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    expire_at(run, args, TimeUnit::Millis, false, "pexpireat")
}

fn expire_at(
    run: &mut Execution<'_>,
    args: Args<'_>,
    unit: TimeUnit,
    relative: bool,
    command: &str,
) -> ExecuteResult {
    let key = args.at(1);
    let conditions = Conditions::read(args.from(3))?;
    let number = integer(args.at(2)).ok_or(NOT_AN_INTEGER)?;
    let now_ms = run.records.now_ms();
    let at = instant(number, unit, relative, now_ms, command)?;
    let holds = run.records.inspect(key)?.is_some_and(|info| conditions.are_met(info.deadline_ms, at));
    if holds {
        match u64::try_from(at) {
            Ok(at) if at > now_ms => run.records.set_deadline(key, Some(at))?,
            _ => {
                run.records.remove(key)?;
            }
        }
    }
    run.reply.integer(i64::from(holds));
    Ok(())
}

/// `NX`, `XX`, `GT`, `LT`.
#[derive(Default)]
struct Conditions {
    if_none: bool,
    if_some: bool,
    if_later: bool,
    if_earlier: bool,
}

impl Conditions {
    fn read(args: Args<'_>) -> Result<Conditions, StopReason> {
        let mut all = Conditions::default();
        for (place, word) in args.iter().enumerate() {
            match () {
                () if args.is(place, "NX") => all.if_none = true,
                () if args.is(place, "XX") => all.if_some = true,
                () if args.is(place, "GT") => all.if_later = true,
                () if args.is(place, "LT") => all.if_earlier = true,
                () => {
                    return Err(format!("ERR Unsupported option {}", String::from_utf8_lossy(word)).into());
                }
            }
        }
        if all.if_none && (all.if_some || all.if_later || all.if_earlier) {
            return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
        }
        if all.if_later && all.if_earlier {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(all)
    }

    /// A record without a deadline counts as later than every deadline.
    fn are_met(&self, deadline_ms: Option<u64>, at: i64) -> bool {
        let now_has = deadline_ms.map(|deadline| deadline as i64);
        !(self.if_none && now_has.is_some()
            || self.if_some && now_has.is_none()
            || self.if_later && now_has.is_none_or(|deadline| at <= deadline)
            || self.if_earlier && now_has.is_some_and(|deadline| at >= deadline))
    }
}

pub(crate) fn ttl(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    time_left(run, args, true, |ms| (ms + 500) / 1000)
}

pub(crate) fn pttl(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    time_left(run, args, true, |ms| ms)
}

pub(crate) fn expiretime(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    time_left(run, args, false, |ms| (ms + 500) / 1000)
}

pub(crate) fn pexpiretime(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    time_left(run, args, false, |ms| ms)
}

fn time_left(run: &mut Execution<'_>, args: Args<'_>, relative: bool, unit: fn(u64) -> u64) -> ExecuteResult {
    let begin = if relative { run.records.now_ms() } else { 0 };
    match run.records.inspect(args.at(1))?.map(|info| info.deadline_ms) {
        None => run.reply.integer(-2),
        Some(None) => run.reply.integer(-1),
        Some(Some(deadline)) => run.reply.count(unit(deadline.saturating_sub(begin))),
    }
    Ok(())
}

pub(crate) fn persist(run: &mut Execution<'_>, args: Args<'_>) -> ExecuteResult {
    let has = run.records.inspect(args.at(1))?.is_some_and(|info| info.deadline_ms.is_some());
    if has {
        run.records.set_deadline(args.at(1), None)?;
    }
    run.reply.integer(i64::from(has));
    Ok(())
}
