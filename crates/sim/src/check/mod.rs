//! The invariants of every history. A checker uses only the requests and answers of clients, and
//! the faults that the world injected; it does not know how the node works.
//!
//! ```text
//!   sections ──> linear    each record's calls have an order with these answers by the
//!                          specification (model); after a loss, the state is that after some
//!                          prefix of the order with all calls that had to survive (lossy: of a
//!                          cluster)
//!   once                   a token occurs in a record at most once; that of a refused write, never
//!   written                only written values are returned
//!   order                  versions rise from one write to the next
//!   serial ──> cycles      an order of transactions explains every read and respects real time;
//!                          the sum of all accounts stays the same
//!   snapshot               a snapshot never changes and has nothing later than its timestamp
//!   lives                  a blob exists from its creation to its removal
//!   plain blobs            calls on a blob have an order by a model of it
//!   redis                  commands of Redis clients have an order by a model of Redis
//!   scan, progress         a scan returns each lasting key once; calls end by their deadline, and
//!                          succeed once faults have ended
//! ```

mod blob_lifetimes;
mod call_order;
mod linear;
mod lossy;
mod model;
mod named_section;
mod once;
mod order;
mod plain_blobs;
mod progress;
mod redis;
mod redis_listings;
mod scans;
mod sections;
mod serial;
mod snapshots;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_blobs;
mod written;

use std::fmt;

use crate::history::RunHistory;
use linear::SearchVerdict;

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The checker that found it.
    pub checker: &'static str,
    /// The finding, with the calls that show it.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.checker, self.what)
    }
}

/// The results of the checkers for a history.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Violated invariants.
    pub violations: Vec<Violation>,
    /// Sections whose search was abandoned without a result.
    pub undecided: usize,
    /// Sections searched.
    pub sections: usize,
    /// Transactions that were checked, with single operations on their records.
    pub transactions: usize,
}

/// Runs all checkers.
#[must_use]
pub fn check(history: &RunHistory) -> Findings {
    let mut findings = Findings::default();
    progress::check(history, &mut findings.violations);
    once::check(history, &mut findings.violations);
    written::check(history, &mut findings.violations);
    order::check(history, &mut findings.violations);
    scans::check(history, &mut findings.violations);
    let (searched, abandoned) = redis::check(history, &mut findings.violations);
    redis_listings::check(history, &mut findings.violations);
    let (blobs, blobs_abandoned) = plain_blobs::check(history, &mut findings.violations);
    (findings.sections, findings.undecided) = (searched + blobs, abandoned + blobs_abandoned);
    findings.transactions = serial::check(history, &mut findings.violations);
    for named in sections::sections(history) {
        findings.sections += 1;
        match linear::check(&named.start, &named.sections) {
            SearchVerdict::Linearizable => {}
            SearchVerdict::GaveUp => findings.undecided += 1,
            SearchVerdict::Not(dead) => findings.violations.push(not_linearizable(&named, &dead)),
        }
    }
    findings
}

/// Calls shown before and after the place where an order ends.
const SHOWN_BEFORE: usize = 12;
const SHOWN_AFTER: usize = 20;

fn not_linearizable(named: &named_section::NamedSection<'_>, dead: &linear::DeadEnd) -> Violation {
    use fmt::Write as _;
    let mut what = format!("record {} of keyspace {} ", String::from_utf8_lossy(named.key), named.keyspace);
    let section = &named.sections[dead.at];
    let items = &section.items;
    let section = match named.outage {
        Some(outage) => format!(
            "has no order of its calls that leads to what was found after the crash at {}: {:?}",
            outage.down.0, section.end
        ),
        None if named.sections.len() > 1 => format!(
            "has no order of its calls in which they could have been answered so, with what {} losses may have taken; \
             stuck before the one numbered {}",
            named.sections.len() - 1,
            dead.at
        ),
        None => "has no order of its calls in which they could have been answered so".to_owned(),
    };
    let mut line = |text: fmt::Arguments<'_>| {
        let written = writeln!(what, "{text}");
        debug_assert!(written.is_ok(), "a string takes what is written");
    };
    line(format_args!("{section}"));
    line(format_args!(
        "  it began as {:?}; the longest order, of {} calls, ends with",
        named.start,
        dead.order.len()
    ));
    for at in dead.order.iter().skip(dead.order.len().saturating_sub(SHOWN_BEFORE)) {
        line(format_args!("    {}", items[*at].call));
    }
    line(format_args!("  and leaves {:?}; what could not follow:", dead.state));
    let left = (0..items.len()).filter(|at| !dead.order.contains(at));
    for at in left.take(SHOWN_AFTER) {
        let note = match (items[at].required, items[at].survives) {
            (false, _) => " (may have been done)",
            (true, true) => " (must have survived)",
            (true, false) => "",
        };
        line(format_args!("    {}{note}", items[at].call));
    }
    Violation { checker: "linear", what }
}
