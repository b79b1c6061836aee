//! Scans: a key that exists during the whole scan is returned exactly once, from whichever
//! instances the pages come. A page is a read of all its keys: it has no key that was absent during
//! the whole time between request and answer. A scan of a range has only keys within its bounds, in order, and each value is
//! one that the record had at the time of the page.
//!
//! Uncertain cases are accepted: a write of unknown outcome may take effect at any later time, and
//! records with an expiry may be gone. If a partition goes on without all acknowledged writes, only
//! those count that had to survive ([`Loss`]).

use std::collections::BTreeMap;

use zerohop_base::time::Time;
use zerohop_wire::ids::KeyspaceId;
use zerohop_wire::messages::Expiry;

use super::Violation;
use crate::history::{ClientCall, Loss, OperationEnd, RunHistory, Scan, ScanPage};
use crate::workload::operation::RecordAction;
use crate::workload::tokens::display_bytes;

pub(super) fn check(history: &RunHistory, violations: &mut Vec<Violation>) {
    let mut keys: BTreeMap<KeyspaceId, BTreeMap<&[u8], KeyWrites<'_>>> = BTreeMap::new();
    for call in history.calls.iter().filter(|call| call.operation.is_write() && may_be_done(call)) {
        let key = keys.entry(call.keyspace).or_default().entry(&call.operation.key);
        let losses = || {
            let of_it = |loss: &&Loss| (loss.keyspace, loss.partition) == (call.keyspace, call.partition);
            history.losses.iter().filter(of_it).collect()
        };
        key.or_insert_with(|| KeyWrites { writes: Vec::new(), losses: losses() }).writes.push(call);
    }
    let nothing = BTreeMap::new();
    for scan in &history.scans {
        let keys = keys.get(&scan.keyspace).unwrap_or(&nothing);
        let mut wrong = |key: &[u8], what: String| {
            violations.push(Violation {
                checker: "scan",
                what: format!("{} {what}{}", display_bytes(key), ScanReport(scan, key, keys.get(key))),
            });
        };
        let mut returned: BTreeMap<&[u8], (&ScanPage, Time)> = BTreeMap::new();
        let mut last: Option<&[u8]> = None;
        for page in &scan.pages {
            let Some(at) = page.answered_at else { continue };
            for key in page.keys.iter().map(|key| &**key) {
                let known = keys.get(key);
                if !scan.range.contains(key) {
                    wrong(key, "is listed, and is not in the range".to_owned());
                }
                if let Some(before) = last.filter(|before| !scan.range.may_follow(before, key)) {
                    wrong(key, format!("is listed behind {}, out of order", display_bytes(before)));
                }
                last = Some(key);
                if let (Some(value), Some(known)) = (page.values.get(key), known)
                    && let Some(why) = known.why_not(value, page.requested_at, at)
                {
                    wrong(key, format!("is listed with {}, which {why}", display_bytes(value)));
                }
                match known {
                    None => wrong(key, "is listed and was never written".to_owned()),
                    Some(known) if known.writes.iter().all(|call| call.invoked > at) => {
                        wrong(key, "is listed before it was written".to_owned());
                    }
                    Some(known) if known.is_absent(page.requested_at, at) => {
                        wrong(key, format!("is listed at {}, though it was removed before", at.0));
                    }
                    Some(_) => {}
                }
                let Some((before, _)) = returned.insert(key, (page, at)) else { continue };
                let is_there = known.is_some_and(|known| {
                    known.stays(before.requested_at, at) || known.is_there(scan.begin, at)
                });
                if is_there {
                    wrong(key, "is listed twice, though it was there all the while".to_owned());
                }
            }
        }
        // Nothing is guaranteed about keys of a keyspace that is dropped meanwhile.
        let dropped = history.keyspace(scan.keyspace).and_then(|known| known.dropped);
        let Some(end) = scan.end.filter(|end| dropped.is_none_or(|dropped| dropped > *end)) else { continue };
        for (key, known) in keys {
            let is_wanted = scan.range.contains(key) && !returned.contains_key(key);
            if is_wanted && known.is_there(scan.begin, end) {
                wrong(key, "is not listed, though it was there all the while".to_owned());
            }
        }
    }
}

/// The writes to a key, and the losses of its partition.
struct KeyWrites<'h> {
    /// Writes that may have taken effect.
    writes: Vec<&'h ClientCall>,
    losses: Vec<&'h Loss>,
}

impl KeyWrites<'_> {
    /// Whether the key existed from one time to another: its write was acknowledged before, and
    /// everything that may remove it came before that write or comes afterwards.
    fn is_there(&self, from: Time, to: Time) -> bool {
        let takes_away = self.writes.iter().filter(|call| call.invoked <= to && may_remove(call));
        let until = takes_away.map(|call| done_by(call)).max().unwrap_or(Time(0));
        let ever_expires = self.writes.iter().any(|call| call.invoked <= to && expires(call));
        self.writes.iter().any(|call| {
            creates(call, ever_expires)
                && done_by(call) < from
                && call.invoked > until
                && self.losses.iter().all(|loss| loss.up > to || survives(call, loss))
        })
    }

    /// Why a value cannot be the record's at any time of an interval, if it is known. Only of keys that are written by inserts
    /// alone, whose values are all different.
    fn why_not(&self, value: &[u8], from: Time, to: Time) -> Option<&'static str> {
        let is_simple = |call: &&ClientCall| {
            matches!(call.operation.act, RecordAction::Insert { .. } | RecordAction::Remove)
        };
        if !self.writes.iter().all(is_simple) {
            return None;
        }
        let writes_it = |call: &&&ClientCall| matches!(&call.operation.act, RecordAction::Insert { value: one, .. } if one == value);
        let Some(write) = self.writes.iter().find(writes_it) else { return Some("was never written") };
        if write.invoked > to {
            return Some("was written later");
        }
        let replaces = |call: &&&ClientCall| {
            matches!(call.end, OperationEnd::Done(_))
                && call.invoked > done_by(write)
                && done_by(call) < from
                && self.losses.iter().all(|loss| loss.up > to || survives(call, loss))
        };
        self.writes.iter().any(|call| replaces(&call)).then_some("was replaced before")
    }

    /// Whether the key exists during the whole interval if it exists at some time in it.
    fn stays(&self, from: Time, to: Time) -> bool {
        let takes_away = |call: &&ClientCall| {
            call.invoked <= to && (expires(call) || may_remove(call) && done_by(call) >= from)
        };
        let is_lost = |loss: &&Loss| loss.up >= from && loss.down <= to;
        !self.writes.iter().any(takes_away) && !self.losses.iter().any(is_lost)
    }

    /// Whether the key was absent from one time to another: its removal was acknowledged before,
    /// and everything that may create it came before that removal or comes afterwards.
    fn is_absent(&self, from: Time, to: Time) -> bool {
        let creations = self.writes.iter().filter(|call| call.invoked <= to && may_create(call));
        let until = creations.map(|call| done_by(call)).max().unwrap_or(Time(0));
        self.writes.iter().any(|call| {
            removes(call)
                && done_by(call) < from
                && call.invoked > until
                && self.losses.iter().all(|loss| loss.up > to || survives(call, loss))
        })
    }
}

/// The latest time at which a write takes effect, if it does.
fn done_by(call: &ClientCall) -> Time {
    call.returned.filter(|_| call.end.is_definite()).unwrap_or(Time::NEVER)
}

fn may_be_done(call: &ClientCall) -> bool {
    matches!(call.end, OperationEnd::Done(_) | OperationEnd::Open | OperationEnd::Unknown)
}

/// Whether a write survives a loss.
fn survives(call: &ClientCall, loss: &Loss) -> bool {
    call.invoked > loss.down || done_by(call) <= loss.survives_until
}

/// Whether the record may be absent some time after the call.
fn may_remove(call: &ClientCall) -> bool {
    removes_if_done(call) || expires(call) || matches!(call.operation.act, RecordAction::Trim { .. })
}

fn removes_if_done(call: &ClientCall) -> bool {
    matches!(
        call.operation.act,
        RecordAction::Remove | RecordAction::Take | RecordAction::CompareSwap { new: None, .. }
    )
}

fn removes(call: &ClientCall) -> bool {
    removes_if_done(call) && matches!(call.end, OperationEnd::Done(_))
}

fn expires(call: &ClientCall) -> bool {
    match &call.operation.act {
        RecordAction::Insert { expiry, .. } | RecordAction::Expire { expiry } => *expiry != Expiry::Never,
        _ => false,
    }
}

/// Whether the record exists after the call with certainty. Only an insert resets an earlier
/// expiry.
fn creates(call: &ClientCall, ever_expires: bool) -> bool {
    let does = match &call.operation.act {
        RecordAction::Insert { expiry, .. } => *expiry == Expiry::Never,
        RecordAction::Append { .. } | RecordAction::Extend { .. } | RecordAction::Increment { .. } => {
            !ever_expires
        }
        RecordAction::CompareSwap { new: Some(_), .. } => !ever_expires,
        _ => false,
    };
    does && matches!(call.end, OperationEnd::Done(_))
}

fn may_create(call: &ClientCall) -> bool {
    !removes_if_done(call)
        && !matches!(call.operation.act, RecordAction::Expire { .. } | RecordAction::Trim { .. })
}

/// Number of writes of the key that are shown, the last ones.
const SHOWN: usize = 12;

/// A scan and the writes to one key, for display.
struct ScanReport<'h>(&'h Scan, &'h [u8], Option<&'h KeyWrites<'h>>);

impl std::fmt::Display for ScanReport<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ScanReport(scan, key, known) = self;
        let end = scan.end.map(|end| end.0);
        write!(f, "\n    c{} scans {} [{} .. {end:?}]", scan.client, scan.keyspace, scan.begin.0)?;
        for page in &scan.pages {
            let has_it = page.keys.iter().any(|one| **one == **key);
            write!(f, "\n    {}page {page}", if has_it { "* " } else { "" })?;
        }
        let Some(known) = known else { return Ok(()) };
        for loss in &known.losses {
            write!(f, "\n    {loss:?}")?;
        }
        let matters = |call: &&&ClientCall| scan.end.is_none_or(|end| call.invoked <= end);
        let writes: Vec<&&ClientCall> = known.writes.iter().filter(matters).collect();
        writes.iter().skip(writes.len().saturating_sub(SHOWN)).try_for_each(|call| write!(f, "\n    {call}"))
    }
}

#[cfg(test)]
mod tests {
    use zerohop_placement::Durability;
    use zerohop_session::Reply;
    use zerohop_wire::ids::{PartitionId, Timestamp};

    use super::*;
    use crate::history::{KeyspaceHistory, ScannedRange};
    use crate::workload::operation::RecordCall;

    const KEYSPACE: KeyspaceId = KeyspaceId(1);

    #[derive(Default)]
    struct ScanHistory(RunHistory);

    fn insert() -> RecordAction {
        RecordAction::Insert { value: b"v".to_vec(), expiry: Expiry::Never }
    }

    fn done() -> OperationEnd {
        OperationEnd::Done(Reply::Done { version: Timestamp(1), number: 1 })
    }

    impl ScanHistory {
        fn call(
            mut self,
            key: &str,
            from: u64,
            to: Option<u64>,
            act: RecordAction,
            end: OperationEnd,
        ) -> ScanHistory {
            self.0.calls.push(ClientCall {
                client: Some(0),
                keyspace: KEYSPACE,
                partition: PartitionId(0),
                operation: RecordCall::new(key.as_bytes(), act),
                invoked: Time(from),
                deadline: Time::NEVER,
                returned: to.map(Time),
                end,
                clock_ms: (0, u64::MAX),
            });
            self
        }

        fn insert(self, key: &str, from: u64, to: u64) -> ScanHistory {
            self.call(key, from, Some(to), insert(), done())
        }

        fn remove(self, key: &str, from: u64, to: u64) -> ScanHistory {
            self.call(key, from, Some(to), RecordAction::Remove, done())
        }

        /// A scan with pages of equal length in time, the first requested at 100.
        fn scan(mut self, pages: &[&[&str]]) -> ScanHistory {
            let page = |(at, keys): (u64, &&[&str])| ScanPage {
                requested_at: Time(100 + at * 10),
                answered_at: Some(Time(110 + at * 10)),
                keys: keys.iter().map(|key| key.as_bytes().into()).collect(),
                values: BTreeMap::new(),
            };
            let pages: Vec<ScanPage> = (0..).zip(pages).map(page).collect();
            let end = pages.last().and_then(|page| page.answered_at);
            let range = ScannedRange::default();
            self.0.scans.push(Scan { client: 0, keyspace: KEYSPACE, range, begin: Time(100), end, pages });
            self
        }

        fn within(mut self, from: &str, to: &str, is_reverse: bool) -> ScanHistory {
            let to = (!to.is_empty()).then(|| to.as_bytes().into());
            let range = ScannedRange { from: from.as_bytes().into(), to, is_ordered: true, is_reverse };
            self.0.scans.last_mut().expect("has a scan").range = range;
            self
        }

        fn value(mut self, page: usize, key: &str, value: &str) -> ScanHistory {
            let pages = &mut self.0.scans.last_mut().expect("has a scan").pages;
            pages[page].values.insert(key.as_bytes().into(), value.as_bytes().to_vec());
            self
        }

        fn loses(mut self, at: u64, survives_until: u64) -> ScanHistory {
            self.0.losses.push(Loss {
                keyspace: KEYSPACE,
                partition: PartitionId(0),
                partitions: 1,
                down: Time(at),
                up: Time(at),
                survives_until: Time(survives_until),
                keeps_timestamp_bound: true,
            });
            self
        }

        fn dropped(mut self, at: u64) -> ScanHistory {
            let durability = vec![(Time(0), Durability::Sync)];
            let dropped = Some(Time(at));
            self.0.keyspaces.push(KeyspaceHistory { id: KEYSPACE, durability, dropped });
            self
        }

        #[track_caller]
        fn shows(&self, expected: &[&str]) {
            let mut violations = Vec::new();
            check(&self.0, &mut violations);
            let matches = violations.len() == expected.len()
                && violations.iter().zip(expected).all(|(one, expected)| one.what.contains(expected));
            assert!(matches, "{violations:#?}");
        }
    }

    const GONE: &str = "is not listed";
    const TWICE: &str = "is listed twice";

    #[test]
    fn scan_must_return_continuously_present_key_once() {
        let there = || ScanHistory::default().insert("a", 1, 2).insert("b", 1, 2);
        there().scan(&[&["a"], &["b"]]).shows(&[]);
        there().scan(&[&["a"], &[]]).shows(&[GONE]);
        there().scan(&[&["a"], &["b", "a"]]).shows(&[TWICE]);
        there().scan(&[&["a", "b", "a"]]).shows(&[TWICE]);
    }

    #[test]
    fn key_possibly_removed_during_scan_may_be_absent_or_repeated() {
        let there = || ScanHistory::default().insert("a", 1, 2);
        there().remove("a", 105, 106).scan(&[&[], &[]]).shows(&[]);
        there().call("a", 50, None, RecordAction::Remove, OperationEnd::Unknown).scan(&[&[], &[]]).shows(&[]);
        there().remove("a", 111, 112).insert("a", 113, 114).scan(&[&["a"], &["a"]]).shows(&[]);
        there()
            .call("a", 50, None, RecordAction::Remove, OperationEnd::Unknown)
            .scan(&[&["a"], &["a"]])
            .shows(&[]);
        // A key that was written again during the scan, and one that is created after it.
        ScanHistory::default()
            .remove("a", 1, 3)
            .insert("a", 4, 6)
            .remove("a", 121, 122)
            .scan(&[&[], &[]])
            .shows(&[GONE]);
        // A write without effect.
        let refused = OperationEnd::NotDone(zerohop_session::SessionError::NoOwner { redirects: 1 });
        there().call("a", 50, Some(60), RecordAction::Remove, refused).scan(&[&[], &[]]).shows(&[GONE]);
    }

    #[test]
    fn key_inserted_during_scan_may_appear_at_most_once() {
        ScanHistory::default().insert("a", 99, 101).scan(&[&[], &[]]).shows(&[]);
        ScanHistory::default().insert("a", 99, 101).scan(&[&["a"], &[]]).shows(&[]);
        ScanHistory::default().insert("a", 99, 101).scan(&[&["a"], &["a"]]).shows(&[TWICE]);
        ScanHistory::default()
            .call("a", 9, None, insert(), OperationEnd::Unknown)
            .scan(&[&[], &[]])
            .shows(&[]);
    }

    #[test]
    fn expiring_record_may_be_absent() {
        let soon = || RecordAction::Insert { value: b"v".to_vec(), expiry: Expiry::AfterMs(1) };
        let extend = || RecordAction::Extend { bytes: b"v".to_vec() };
        let expires = || ScanHistory::default().call("a", 1, Some(2), soon(), done());
        expires().scan(&[&[], &[]]).shows(&[]);
        expires().call("a", 3, Some(4), extend(), done()).scan(&[&[], &[]]).shows(&[]);
        expires().insert("a", 3, 4).scan(&[&[], &[]]).shows(&[GONE]);
        ScanHistory::default().call("a", 3, Some(4), extend(), done()).scan(&[&[], &[]]).shows(&[GONE]);
    }

    #[test]
    fn page_may_show_only_keys_present_during_its_request() {
        ScanHistory::default().scan(&[&["a"]]).shows(&["never written"]);
        ScanHistory::default().insert("a", 111, 112).scan(&[&["a"]]).shows(&["before it was written"]);
        ScanHistory::default().insert("a", 109, 112).scan(&[&["a"]]).shows(&[]);
        let removed = || ScanHistory::default().insert("a", 1, 2).remove("a", 3, 4);
        removed().scan(&[&["a"]]).shows(&["removed before"]);
        removed().insert("a", 109, 112).scan(&[&["a"]]).shows(&[]);
        removed().call("a", 2, None, insert(), OperationEnd::Unknown).scan(&[&["a"]]).shows(&[]);
        ScanHistory::default().insert("a", 1, 2).remove("a", 3, 101).scan(&[&["a"]]).shows(&[]);
        // The key was gone when the second page was requested.
        ScanHistory::default()
            .insert("a", 1, 2)
            .remove("a", 3, 101)
            .scan(&[&[], &["a"]])
            .shows(&["removed before"]);
    }

    #[test]
    fn possibly_lost_record_may_be_absent() {
        let there = || ScanHistory::default().insert("a", 10, 20);
        there().loses(50, 19).scan(&[&[]]).shows(&[]);
        there().loses(50, 20).scan(&[&[]]).shows(&[GONE]);
        there().loses(5, 1).scan(&[&[]]).shows(&[GONE]);
        there().loses(200, 1).scan(&[&[]]).shows(&[GONE]);
        // A removal that was lost, so that the key exists again.
        there().remove("a", 30, 40).loses(50, 25).scan(&[&["a"]]).shows(&[]);
        there().remove("a", 30, 40).loses(50, 40).scan(&[&["a"]]).shows(&["removed before"]);
    }

    #[test]
    fn range_has_its_keys_in_order_and_no_other() {
        let there = || ["a", "b", "c"].iter().fold(ScanHistory::default(), |all, key| all.insert(key, 1, 2));
        there().scan(&[&["a"], &["b", "c"]]).within("", "", false).shows(&[]);
        there().scan(&[&["a"], &["b"]]).within("", "c", false).shows(&[]);
        there().scan(&[&["c"], &["b"]]).within("b", "", true).shows(&[]);
        there().scan(&[&["b"]]).within("b", "", false).shows(&[GONE]);
        there().scan(&[&["a", "b", "c"]]).within("", "c", false).shows(&["not in the range"]);
        there().scan(&[&["b"], &["a", "c"]]).within("", "", false).shows(&["out of order"]);
        there().scan(&[&["a", "b", "c"]]).within("", "", true).shows(&["out of order", "out of order"]);
    }

    #[test]
    fn value_is_one_of_the_time_of_its_page() {
        let write = |history: ScanHistory, value: &str, from, to| {
            let act = RecordAction::Insert { value: value.into(), expiry: Expiry::Never };
            history.call("a", from, Some(to), act, done())
        };
        let twice = || write(write(ScanHistory::default(), "one", 1, 2), "two", 3, 4);
        twice().scan(&[&["a"]]).value(0, "a", "two").shows(&[]);
        twice().scan(&[&["a"]]).value(0, "a", "one").shows(&["replaced before"]);
        twice().scan(&[&["a"]]).value(0, "a", "three").shows(&["never written"]);
        let during = || write(write(ScanHistory::default(), "one", 1, 2), "two", 101, 102);
        during().scan(&[&["a"]]).value(0, "a", "one").shows(&[]);
        during().scan(&[&["a"], &[]]).value(0, "a", "two").shows(&[]);
        write(twice(), "three", 111, 112).scan(&[&["a"]]).value(0, "a", "three").shows(&["written later"]);
    }

    #[test]
    fn scan_of_dropped_keyspace_may_be_empty() {
        ScanHistory::default().insert("a", 1, 2).dropped(105).scan(&[&[]]).shows(&[]);
        ScanHistory::default().insert("a", 1, 2).dropped(300).scan(&[&[]]).shows(&[GONE]);
    }
}
