//! Calls as lines of text: a client process writes them, and the test passes them to the checkers.
//!
//! `CLIENT INVOKED RETURNED KEY ACT END`, times in microseconds since 1970; see [`line`].

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use zerohop_base::time::Time;
use zerohop_placement::Durability;
use zerohop_session::{Reply, SessionError};
use zerohop_sim::history::{ClientCall, KeyspaceHistory, OperationEnd, RunHistory};
use zerohop_sim::workload::operation::{RecordAction, RecordCall};
use zerohop_wire::Failure;
use zerohop_wire::ids::{KeyspaceId, PartitionId, Timestamp};
use zerohop_wire::messages::Expiry;

use crate::support::GIVE_UP_AFTER;

/// The keyspace that all processes use.
const KEYSPACE: KeyspaceId = KeyspaceId(1);

/// Longer than any call takes: a client's own limit is shorter.
const DEADLINE_US: u64 = 2 * GIVE_UP_AFTER.as_micros() as u64;

/// The time in all processes of this machine, whose own clock is not set in these tests.
pub(crate) fn now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64)
}

/// One call as a line.
pub(crate) fn line(
    client: usize,
    operation: &RecordCall,
    (invoked, returned): (Time, Time),
    end: &OperationEnd,
) -> String {
    let key = String::from_utf8_lossy(&operation.key);
    let mut line = format!("{client} {} {} {key} ", invoked.0, returned.0);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let act = match &operation.act {
        RecordAction::Insert { value, .. } => format!("insert {}", text(value)),
        RecordAction::Append { values } => format!("append {}", text(&values[0])),
        RecordAction::Increment { delta } => format!("increment {delta}"),
        RecordAction::Remove => "remove -".to_owned(),
        RecordAction::Lookup => "lookup -".to_owned(),
        other => panic!("no client does this: {other:?}"),
    };
    let end = match end {
        OperationEnd::Done(Reply::Done { version, number }) => format!("done {} {number}", version.0),
        OperationEnd::Done(Reply::Counter { version, value }) => format!("counter {} {value}", version.0),
        OperationEnd::Done(Reply::Value { version, bytes, .. }) => {
            format!("value {} {}", version.0, text(bytes))
        }
        OperationEnd::Done(Reply::List { version, length, first, values }) => {
            let values: Vec<String> = values.iter().map(|value| text(value)).collect();
            format!("list {} {length} {first} {}", version.0, values.join(","))
        }
        OperationEnd::Failed(Failure::NotFound) => "absent".to_owned(),
        OperationEnd::Unknown => "unknown".to_owned(),
        OperationEnd::NotDone(error) => format!("refused {error}"),
        other => panic!("no call ends so: {operation:?} {other:?}"),
    };
    write!(line, "{act} {end}").unwrap();
    line
}

/// Parses a line into a call.
pub(crate) fn parse(line: &str) -> ClientCall {
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap_or_else(|| panic!("cut short: {line}"));
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("no number: {line}"));
    let (client, invoked, returned) = (number(word()), Time(number(word())), Time(number(word())));
    let key = word();
    let (act, value) = (word(), word());
    let bytes = value.as_bytes().to_vec();
    let act = match act {
        "insert" => RecordAction::Insert { value: bytes, expiry: Expiry::Never },
        "append" => RecordAction::Append { values: vec![bytes] },
        "increment" => RecordAction::Increment { delta: value.parse().unwrap() },
        "remove" => RecordAction::Remove,
        "lookup" => RecordAction::Lookup,
        other => panic!("no act: {other}"),
    };
    let end = match word() {
        "done" => {
            OperationEnd::Done(Reply::Done { version: Timestamp(number(word())), number: number(word()) })
        }
        "counter" => OperationEnd::Done(Reply::Counter {
            version: Timestamp(number(word())),
            value: word().parse().unwrap(),
        }),
        "value" => {
            let (version, bytes) = (Timestamp(number(word())), word().as_bytes().to_vec());
            OperationEnd::Done(Reply::Value { version, length: bytes.len() as u64, bytes: bytes.into() })
        }
        "list" => {
            let (version, length, first) = (Timestamp(number(word())), number(word()), number(word()));
            let values = word().split(',').map(|value| value.as_bytes().to_vec().into()).collect();
            OperationEnd::Done(Reply::List { version, length, first, values })
        }
        "absent" => OperationEnd::Failed(Failure::NotFound),
        "unknown" => OperationEnd::Unknown,
        // The checkers do not distinguish these errors.
        "refused" => OperationEnd::NotDone(SessionError::Closed),
        other => panic!("no end: {other}"),
    };
    // Each key counts as a partition of its own; versions within a key rise all the same.
    let partition = PartitionId(zerohop_wire::checksum::crc32c(key.as_bytes()));
    let operation = RecordCall::new(key.as_bytes(), act);
    ClientCall {
        client: Some(client as usize),
        keyspace: KEYSPACE,
        partition,
        operation,
        invoked,
        deadline: Time(invoked.0 + DEADLINE_US),
        returned: Some(returned),
        end,
        clock_ms: (0, u64::MAX),
    }
}

/// All calls of a run, in which no write may be lost, for the checkers.
pub(crate) fn history(mut calls: Vec<ClientCall>) -> RunHistory {
    calls.sort_by_key(|call| call.invoked);
    let ended = calls.iter().filter_map(|call| call.returned).max().unwrap_or(Time(0));
    let durability = vec![(Time(0), Durability::Sync)];
    let keyspaces = vec![KeyspaceHistory { id: KEYSPACE, durability, dropped: None }];
    RunHistory { calls, is_cluster: true, keyspaces, ended, ..RunHistory::default() }
}

/// A number that is unique within this run.
pub(crate) fn fresh(process: u64) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    process * 100_000_000 + NEXT.fetch_add(1, Ordering::Relaxed)
}
