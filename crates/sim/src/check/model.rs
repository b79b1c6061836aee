//! The specification: a record, and the effects of operations on it, in the simplest form. It knows
//! what no client has observed only in part: versions and deadlines stay open until an answer fixes
//! them.

use std::fmt;
use std::rc::Rc;

use zerohop_partition::limits::SEEN_VALUE_BYTES_MAX;
use zerohop_session::Reply;
use zerohop_wire::Failure;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::TAKE_BYTES_MAX;
use zerohop_wire::messages::{Condition, Expiry, Operator, Range, RecordType, ReturnedNumber, Transform};

use crate::workload::operation::{RecordAction, RecordCall, WaitGoal};
use crate::workload::tokens::display_bytes;

/// A record, or its absence.
pub(crate) type ModelledRecord = Option<Rc<OracleRecord>>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OracleRecord {
    pub(crate) contents: OracleContents,
    /// `None`: no answer has shown it yet.
    pub(crate) version: Option<Timestamp>,
    /// Bounds of its expiry, by the owner's clock in milliseconds since 1970.
    pub(crate) deadline: Option<(u64, u64)>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum OracleContents {
    Bytes(Vec<u8>),
    List(Vec<Vec<u8>>),
}

impl fmt::Debug for OracleContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => f.write_str(&display_bytes(bytes)),
            Self::List(values) => {
                f.debug_list().entries(values.iter().map(|value| display_bytes(value))).finish()
            }
        }
    }
}

/// The result that a client received.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ClientResult<'t> {
    Done(&'t Reply),
    Failed(&'t Failure<'static>),
    /// No result: any outcome fits.
    Nothing,
}

/// The answer by the specification.
#[derive(Debug)]
enum OracleAnswer<'a> {
    Done {
        version: Version,
        number: u64,
    },
    Counter {
        value: i64,
    },
    /// The complete record, which is gone now.
    Removed {
        of: &'a OracleRecord,
    },
    /// This range of the record.
    Contents {
        of: &'a OracleRecord,
        range: Range,
    },
    Info {
        of: &'a OracleRecord,
    },
    Failed(OracleRefusal<'a>),
}

#[derive(Debug)]
enum OracleRefusal<'a> {
    NotFound,
    WrongType(RecordType),
    Condition(Option<&'a OracleRecord>),
    Compare(Option<&'a OracleRecord>),
    NotANumber,
    Overflow,
    TooLong,
    TimedOut(Option<&'a OracleRecord>),
}

#[derive(Clone, Copy, Debug)]
enum Version {
    /// The record is absent.
    Zero,
    /// The version of the write itself.
    New,
    /// The version of the record before the write.
    Old,
}

/// Adds to `after` every state of a record after an operation with this end, from the state
/// `before`.
pub(crate) fn steps(
    before: &ModelledRecord,
    operation: &RecordCall,
    clock_ms: (u64, u64),
    result: ClientResult<'_>,
    after: &mut Vec<ModelledRecord>,
) {
    for expired in [false, true] {
        let deadline = before.as_ref().and_then(|record| record.deadline);
        let possible = match (deadline, expired) {
            (None, expired) => !expired,
            (Some((_, latest)), false) => clock_ms.0 < latest,
            (Some((earliest, _)), true) => clock_ms.1 >= earliest,
        };
        if !possible {
            continue;
        }
        let seen = if expired { None } else { before.clone() };
        let requested = requested_version(operation);
        if let (Some(version), Some(record)) = (requested, &seen)
            && record.version.is_none()
        {
            // Either this is the version that the operation names, or another one.
            let bound = OracleRecord { version: Some(version), ..OracleRecord::clone(record) };
            evaluate(&Some(Rc::new(bound)), operation, clock_ms, result, after);
        }
        evaluate(&seen, operation, clock_ms, result, after);
    }
}

/// Whether a record may be in the state `known` when an answer shows the state `observed`. The version
/// in the answer binds.
pub(crate) fn is_consistent(known: &ModelledRecord, observed: &ModelledRecord) -> bool {
    match (known, observed) {
        (None, None) => true,
        (Some(known), Some(observed)) => {
            let open = |one: Option<Timestamp>, other: Option<Timestamp>| {
                one.zip(other).is_none_or(|(one, other)| one == other)
            };
            known.contents == observed.contents && open(known.version, observed.version)
        }
        // It may have expired before the observation.
        (Some(known), None) => known.deadline.is_some(),
        _ => false,
    }
}

fn requested_version(operation: &RecordCall) -> Option<Timestamp> {
    match (&operation.act, operation.condition) {
        (RecordAction::Wait { until: WaitGoal::Changed(version) }, _) => Some(*version),
        (_, Condition::IfVersion(version)) => Some(version),
        _ => None,
    }
}

fn evaluate(
    before: &ModelledRecord,
    operation: &RecordCall,
    clock_ms: (u64, u64),
    result: ClientResult<'_>,
    after: &mut Vec<ModelledRecord>,
) {
    let record = before.as_deref();
    if operation.is_write() && !condition_holds(operation.condition, record) {
        return conclude(
            before,
            OracleAnswer::Failed(OracleRefusal::Condition(record)),
            before.clone(),
            result,
            after,
        );
    }
    let (answer, next) = match operation.is_write() {
        true => write(before, &operation.act, clock_ms),
        false => (read(record, &operation.act, result), before.clone()),
    };
    conclude(before, answer, next, result, after);
}

fn condition_holds(condition: Condition, record: Option<&OracleRecord>) -> bool {
    match condition {
        Condition::Always => true,
        Condition::IfAbsent => record.is_none(),
        Condition::IfPresent => record.is_some(),
        Condition::IfVersion(version) => record.is_some_and(|record| record.version == Some(version)),
    }
}

/// Takes the step if the answer equals the client's result, and learns from it.
fn conclude(
    before: &ModelledRecord,
    answer: OracleAnswer<'_>,
    next: ModelledRecord,
    result: ClientResult<'_>,
    after: &mut Vec<ModelledRecord>,
) {
    let Some(observed) = compare(before, &answer, result) else { return };
    let next = match (next, observed) {
        (Some(record), observed) if observed.version.is_some() || observed.deadline.is_some() => {
            let version = observed.version.or(record.version);
            let deadline = observed.deadline.map_or(record.deadline, |at| Some((at, at)));
            Some(Rc::new(OracleRecord { version, deadline, ..OracleRecord::clone(&record) }))
        }
        (next, _) => next,
    };
    after.push(next);
}

/// What an answer shows about the record after the operation.
#[derive(Clone, Copy, Debug, Default)]
struct ObservedVersion {
    version: Option<Timestamp>,
    deadline: Option<u64>,
}

/// What the result shows; `None` if the answer does not match it.
fn compare(
    before: &ModelledRecord,
    answer: &OracleAnswer<'_>,
    result: ClientResult<'_>,
) -> Option<ObservedVersion> {
    let old = before.as_ref().and_then(|record| record.version);
    let is_old = |of: Option<&OracleRecord>, version: Timestamp| match of {
        None => (version == Timestamp::ZERO).then(ObservedVersion::default),
        Some(record) => {
            let fits = version != Timestamp::ZERO && record.version.is_none_or(|known| known == version);
            fits.then_some(ObservedVersion { version: Some(version), deadline: None })
        }
    };
    let is_new = |version: Timestamp| {
        let fits = version != Timestamp::ZERO && old.is_none_or(|old| version > old);
        fits.then_some(ObservedVersion { version: Some(version), deadline: None })
    };
    match (answer, result) {
        (_, ClientResult::Nothing) => Some(ObservedVersion::default()),
        (
            OracleAnswer::Done { version, number },
            ClientResult::Done(Reply::Done { version: returned, number: counted }),
        ) => {
            if number != counted {
                return None;
            }
            match version {
                Version::Zero => (*returned == Timestamp::ZERO).then(ObservedVersion::default),
                Version::New => is_new(*returned),
                Version::Old => is_old(before.as_deref(), *returned),
            }
        }
        (
            OracleAnswer::Counter { value },
            ClientResult::Done(Reply::Counter { version, value: returned }),
        ) => {
            if value == returned {
                is_new(*version)
            } else {
                None
            }
        }
        (OracleAnswer::Removed { of }, ClientResult::Done(reply)) => {
            is_old(Some(of), version_in_reply(of, Range::ALL, reply)?).map(|_| ObservedVersion::default())
        }
        (OracleAnswer::Contents { of, range }, ClientResult::Done(reply)) => {
            let version = version_in_reply(of, *range, reply)?;
            is_old(Some(of), version)
        }
        (
            OracleAnswer::Info { of },
            ClientResult::Done(Reply::Info { version, record, length, expires_at_ms }),
        ) => {
            let fits = match (of.deadline, expires_at_ms) {
                (None, None) => true,
                (Some((earliest, latest)), Some(at)) => (earliest..=latest).contains(at),
                _ => false,
            };
            let same = of.record_type() == *record && of.length() == *length;
            let observed = is_old(Some(of), *version)?;
            (fits && same).then_some(ObservedVersion { deadline: *expires_at_ms, ..observed })
        }
        (OracleAnswer::Failed(refusal), ClientResult::Failed(failure)) => match (refusal, failure) {
            (OracleRefusal::NotFound, Failure::NotFound)
            | (OracleRefusal::NotANumber, Failure::NotANumber)
            | (OracleRefusal::Overflow, Failure::Overflow)
            | (OracleRefusal::TooLong, Failure::ValueTooLong { .. }) => Some(ObservedVersion::default()),
            // The answer has the record at the time-out, which is not the state that the wait was
            // for.
            (OracleRefusal::TimedOut(record), Failure::TimedOut { version }) => is_old(*record, *version),

            (OracleRefusal::WrongType(is), Failure::WrongType { found }) => {
                (is == found).then(ObservedVersion::default)
            }
            (OracleRefusal::Condition(record), Failure::ConditionFailed { version, found }) => {
                let same = record.map(OracleRecord::record_type) == *found;
                if same { is_old(*record, *version) } else { None }
            }
            // A retry of a comparison that saw a long value does not return the value again.
            (OracleRefusal::Compare(Some(record)), Failure::ConditionFailed { version, found })
                if record.length() > SEEN_VALUE_BYTES_MAX as u64 =>
            {
                let same = *found == Some(record.record_type());
                if same { is_old(Some(record), *version) } else { None }
            }
            (OracleRefusal::Compare(record), Failure::CompareFailed { version, seen }) => {
                let same = record.map(|record| record.bytes()) == seen.as_deref().map(Some);
                if same { is_old(*record, *version) } else { None }
            }
            _ => None,
        },
        _ => None,
    }
}

/// Transforms an unsigned little-endian number in place: its old and its new value.
fn transformed(transform: &Transform, place: &mut [u8]) -> (u64, u64) {
    let read = |place: &[u8]| place.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let (old, operand) = (read(place), transform.operand);
    let new = match transform.operator {
        Operator::Add => old.wrapping_add(operand),
        Operator::Multiply => old.wrapping_mul(operand),
        Operator::Min => old.min(operand),
        Operator::Max => old.max(operand),
        Operator::And => old & operand,
        Operator::Or => old | operand,
        Operator::Xor => old ^ operand,
    };
    let new = new.to_le_bytes();
    place.copy_from_slice(&new[..place.len()]);
    (old, read(place))
}

/// The version in a lookup's reply, if the reply is this range of this record.
fn version_in_reply(of: &OracleRecord, range: Range, reply: &Reply) -> Option<Timestamp> {
    let part = range.clip(of.length());
    let within = part.start as usize..part.end as usize;
    match (&of.contents, reply) {
        (OracleContents::Bytes(is), Reply::Value { version, length, bytes }) => {
            (is.len() as u64 == *length && is[within] == bytes[..]).then_some(*version)
        }
        (OracleContents::List(is), Reply::List { version, length, first, values }) => {
            let same = is[within].iter().map(Vec::as_slice).eq(values.iter().map(|value| &value[..]));
            (same && is.len() as u64 == *length && part.start == *first).then_some(*version)
        }
        _ => None,
    }
}

impl OracleRecord {
    fn of_bytes(bytes: Vec<u8>, deadline: Option<(u64, u64)>) -> ModelledRecord {
        Some(Rc::new(OracleRecord { contents: OracleContents::Bytes(bytes), version: None, deadline }))
    }

    /// The record in the reply of a lookup of all of it.
    pub(crate) fn from_reply(reply: &Reply) -> Option<OracleRecord> {
        let (contents, version) = match reply {
            Reply::Value { version, bytes, .. } => (OracleContents::Bytes(bytes.to_vec()), *version),
            Reply::List { version, values, .. } => {
                (OracleContents::List(values.iter().map(|value| value.to_vec()).collect()), *version)
            }
            _ => return None,
        };
        Some(OracleRecord { contents, version: Some(version), deadline: None })
    }

    fn record_type(&self) -> RecordType {
        match self.contents {
            OracleContents::Bytes(_) => RecordType::Bytes,
            OracleContents::List(_) => RecordType::List,
        }
    }

    fn length(&self) -> u64 {
        match &self.contents {
            OracleContents::Bytes(bytes) => bytes.len() as u64,
            OracleContents::List(values) => values.len() as u64,
        }
    }

    /// The bytes of its contents, with four for each value of a list.
    fn stored_bytes(&self) -> usize {
        match &self.contents {
            OracleContents::Bytes(bytes) => bytes.len(),
            OracleContents::List(values) => values.iter().map(|value| value.len() + 4).sum(),
        }
    }

    fn bytes(&self) -> Option<&[u8]> {
        match &self.contents {
            OracleContents::Bytes(bytes) => Some(bytes),
            OracleContents::List(_) => None,
        }
    }
}

fn read<'a>(
    record: Option<&'a OracleRecord>,
    act: &RecordAction,
    result: ClientResult<'_>,
) -> OracleAnswer<'a> {
    let is = |value: &[u8]| record.is_some_and(|record| record.bytes() == Some(value));
    let contents = |range| match record {
        Some(of) => OracleAnswer::Contents { of, range },
        None => OracleAnswer::Failed(OracleRefusal::NotFound),
    };
    let number = |number| match record {
        Some(_) => OracleAnswer::Done { version: Version::Old, number },
        None => OracleAnswer::Done { version: Version::Zero, number: 0 },
    };
    match act {
        RecordAction::LookupRange { range } => contents(*range),
        RecordAction::Inspect => {
            record.map_or(OracleAnswer::Failed(OracleRefusal::NotFound), |of| OracleAnswer::Info { of })
        }
        RecordAction::GetBit { .. } | RecordAction::CountBits { .. }
            if record.is_some_and(|record| record.record_type() == RecordType::List) =>
        {
            OracleAnswer::Failed(OracleRefusal::WrongType(RecordType::List))
        }
        RecordAction::GetBit { offset } => number(record.map_or(0, |record| bit(record, *offset))),
        RecordAction::CountBits { range } => {
            let count = |record: &OracleRecord| {
                let part = range.clip(record.length());
                (part.start * 8..part.end * 8).map(|offset| bit(record, offset)).sum()
            };
            number(record.map_or(0, count))
        }
        RecordAction::Wait { until } => {
            let holds = match until {
                WaitGoal::Equals(value) => is(value),
                WaitGoal::Differs(value) => !is(value),
                WaitGoal::Absent => record.is_none(),
                WaitGoal::Present => record.is_some(),
                WaitGoal::Changed(version) => match record {
                    None => *version != Timestamp::ZERO,
                    Some(record) => record.version != Some(*version),
                },
            };
            // A wait that ended without an answer may have met any state.
            match holds || matches!(result, ClientResult::Nothing) {
                true => contents(Range::ALL),
                false => OracleAnswer::Failed(OracleRefusal::TimedOut(record)),
            }
        }
        _ => contents(Range::ALL),
    }
}

fn bit(record: &OracleRecord, offset: u64) -> u64 {
    let byte = record.bytes().and_then(|bytes| bytes.get((offset / 8) as usize)).copied().unwrap_or(0);
    u64::from(byte >> (7 - offset % 8) & 1)
}

fn write<'a>(
    before: &'a ModelledRecord,
    act: &RecordAction,
    clock_ms: (u64, u64),
) -> (OracleAnswer<'a>, ModelledRecord) {
    let record = before.as_deref();
    let deadline = record.and_then(|record| record.deadline);
    let found = record.map(OracleRecord::record_type);
    let wants = match act {
        RecordAction::Append { .. } | RecordAction::Trim { .. } => Some(RecordType::List),
        RecordAction::Insert { .. }
        | RecordAction::Remove
        | RecordAction::Take
        | RecordAction::Expire { .. } => None,
        _ => Some(RecordType::Bytes),
    };
    if let (Some(wants), Some(found)) = (wants, found)
        && wants != found
    {
        return (OracleAnswer::Failed(OracleRefusal::WrongType(found)), before.clone());
    }
    let bytes = record.and_then(OracleRecord::bytes);
    let done = |number| OracleAnswer::Done { version: Version::New, number };
    let same = |number| (OracleAnswer::Done { version: Version::Old, number }, before.clone());
    let gone = |number| (OracleAnswer::Done { version: Version::Zero, number }, None);
    let refused = |refusal| (OracleAnswer::Failed(refusal), before.clone());
    let put = |bytes| OracleRecord::of_bytes(bytes, deadline);
    match act {
        RecordAction::Insert { value, expiry } => {
            (done(0), OracleRecord::of_bytes(value.clone(), deadline_of(*expiry, deadline, clock_ms)))
        }
        RecordAction::Remove => gone(u64::from(record.is_some())),
        RecordAction::Take => match record {
            None => refused(OracleRefusal::NotFound),
            Some(of) if of.stored_bytes() > TAKE_BYTES_MAX => refused(OracleRefusal::TooLong),
            Some(of) => (OracleAnswer::Removed { of }, None),
        },
        RecordAction::Append { values } => {
            let mut list = match record.map(|record| &record.contents) {
                Some(OracleContents::List(list)) => list.clone(),
                _ => Vec::new(),
            };
            list.extend(values.iter().cloned());
            let number = list.len() as u64;
            let contents = OracleContents::List(list);
            (done(number), Some(Rc::new(OracleRecord { contents, version: None, deadline })))
        }
        RecordAction::Extend { bytes: more } => {
            let whole = [bytes.unwrap_or_default(), more].concat();
            (done(whole.len() as u64), put(whole))
        }
        RecordAction::CompareSwap { expected, new } => match (bytes == expected.as_deref(), new) {
            (false, _) => refused(OracleRefusal::Compare(record)),
            (true, Some(new)) => (done(0), put(new.clone())),
            (true, None) => gone(0),
        },
        RecordAction::Increment { delta } => {
            let text = bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            let number = text.as_deref().map_or(Ok(0), str::parse::<i64>);
            let plain = number.ok().filter(|number| text.is_none_or(|text| number.to_string() == text));
            match plain.map(|number| number.checked_add(*delta)) {
                None => refused(OracleRefusal::NotANumber),
                Some(None) => refused(OracleRefusal::Overflow),
                Some(Some(value)) => (OracleAnswer::Counter { value }, put(value.to_string().into_bytes())),
            }
        }
        RecordAction::SetBit { offset, on } => {
            let mut whole = bytes.unwrap_or_default().to_vec();
            let (byte, mask) = ((offset / 8) as usize, 0x80 >> (offset % 8));
            whole.resize(whole.len().max(byte + 1), 0);
            let was = u64::from(whole[byte] & mask != 0);
            whole[byte] = if *on { whole[byte] | mask } else { whole[byte] & !mask };
            if bytes == Some(&whole[..]) { same(was) } else { (done(was), put(whole)) }
        }
        RecordAction::Transform(transform) => {
            let mut whole = bytes.unwrap_or_default().to_vec();
            let start = transform.offset as usize;
            let end = start + transform.number.bytes();
            whole.resize(whole.len().max(end), 0);
            let (old, new) = transformed(transform, &mut whole[start..end]);
            let number = match transform.returns {
                ReturnedNumber::Nothing => 0,
                ReturnedNumber::Old => old,
                ReturnedNumber::New => new,
            };
            if bytes == Some(&whole[..]) { same(number) } else { (done(number), put(whole)) }
        }
        RecordAction::Expire { expiry } => match record {
            None => refused(OracleRefusal::NotFound),
            Some(record) => {
                let deadline = deadline_of(*expiry, deadline, clock_ms);
                let next = Some(Rc::new(OracleRecord { deadline, ..OracleRecord::clone(record) }));
                (OracleAnswer::Done { version: Version::Old, number: 0 }, next)
            }
        },
        RecordAction::Trim { keep } => match record.map(|record| &record.contents) {
            Some(OracleContents::List(list)) => {
                let part = keep.clip(list.len() as u64);
                let length = part.end - part.start;
                if length == 0 {
                    return gone(0);
                }
                if length == list.len() as u64 {
                    return same(length);
                }
                let contents = OracleContents::List(list[part.start as usize..part.end as usize].to_vec());
                (done(length), Some(Rc::new(OracleRecord { contents, version: None, deadline })))
            }
            _ => refused(OracleRefusal::NotFound),
        },
        // Reads are handled elsewhere.
        _ => same(0),
    }
}

fn deadline_of(expiry: Expiry, kept: Option<(u64, u64)>, clock_ms: (u64, u64)) -> Option<(u64, u64)> {
    match expiry {
        Expiry::Never => None,
        Expiry::AfterMs(ms) => Some((clock_ms.0.saturating_add(ms), clock_ms.1.saturating_add(ms))),
        Expiry::AtMs(ms) => Some((ms.max(1), ms.max(1))),
        Expiry::Unchanged => kept,
    }
}
