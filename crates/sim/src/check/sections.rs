//! Splits a history into parts that are checked separately: one record each, between two losses.
//!
//! A keyspace loses nothing while it is `sync`, so its records have one section each and a restart
//! is only a pause. Under `interval` and `memory` a crash may remove the end of a partition's log.
//! The state after the restart must be that after some prefix of the log, and the same prefix for
//! all records of the partition. Versions show its end: every write with a version up to the
//! highest that was found must still be there.

use std::collections::BTreeMap;
use std::rc::Rc;

use zerohop_base::time::Time;
use zerohop_placement::Durability;
use zerohop_session::Reply;
use zerohop_wire::ids::{KeyspaceId, PartitionId, Timestamp};

use super::linear::{CheckedCall, Section, SectionEnd, made_version};
use super::lossy;
use super::model::{ModelledRecord, OracleRecord};
use super::named_section::NamedSection;
use crate::history::{ClientCall, KeyspaceHistory, OperationEnd, Outage, RunHistory};
use crate::limits::{CLOCK_RATE_MIN, CLOCK_RATE_TRUE, INTERVAL_MARGIN_US};
use crate::workload::operation::RecordAction;

/// All sections of a history.
pub(crate) fn sections(history: &RunHistory) -> Vec<NamedSection<'_>> {
    let mut by_key: BTreeMap<(KeyspaceId, &[u8]), Vec<&ClientCall>> = BTreeMap::new();
    for call in &history.calls {
        by_key.entry((call.keyspace, &call.operation.key)).or_default().push(call);
    }
    let mut all = Vec::new();
    let newest = newest_found(history);
    for ((keyspace, key), calls) in by_key {
        let Some(known) = history.keyspace(keyspace) else { continue };
        if history.is_cluster {
            all.push(lossy::named(history, (keyspace, key), &calls));
            continue;
        }
        let losses: Vec<Outage> =
            history.outages.iter().filter(|outage| loses(known, outage)).copied().collect();
        let mut start = ModelledRecord::None;
        let mut from = None;
        for outage in losses.iter().map(Some).chain([None]) {
            let found = outage.map(|outage| found_at(&calls, outage.up));
            if let (None, Some(from), Some(found)) = (&start, from, &found)
                && history.clocks_were_set
                && had_expired(&calls, from, found)
            {
                start = found.clone();
            }
            let cutter = SectionCutter { history, known, newest: &newest, from, outage };
            let items = calls.iter().filter_map(|call| cutter.item(call)).collect();
            let end = found.clone().map_or(SectionEnd::OfAll, SectionEnd::Found);
            let sections = vec![Section { items, end }];
            all.push(NamedSection { keyspace, key, outage: outage.copied(), start: start.clone(), sections });
            start = found.unwrap_or_default();
            from = outage.map(|outage| outage.up);
        }
    }
    all
}

/// Whether an outage may remove the end of a keyspace's logs.
fn loses(keyspace: &KeyspaceHistory, outage: &Outage) -> bool {
    let created = keyspace.durability.first().is_none_or(|(since, _)| *since <= outage.down);
    let there = created && keyspace.dropped.is_none_or(|dropped| dropped > outage.up);
    there
        && match keyspace.durability_at(outage.down) {
            Durability::Memory => true,
            Durability::Interval { .. } => !outage.clean,
            Durability::Sync => false,
        }
}

struct SectionCutter<'c> {
    history: &'c RunHistory,
    known: &'c KeyspaceHistory,
    newest: &'c BTreeMap<(KeyspaceId, PartitionId, Time), Timestamp>,
    /// The start of the section.
    from: Option<Time>,
    /// The loss at its end.
    outage: Option<&'c Outage>,
}

impl SectionCutter<'_> {
    /// The call as an item of this section, if it belongs to it.
    fn item<'h>(&self, call: &'h ClientCall) -> Option<CheckedCall<'h>> {
        if call.client.is_none() && self.is_a_bound(call.invoked) {
            // The state found there is the start of one section and the end of another.
            return None;
        }
        let matters = match &call.end {
            OperationEnd::Done(_) | OperationEnd::Failed(_) => true,
            OperationEnd::Open | OperationEnd::Unknown => call.operation.is_write(),
            OperationEnd::NotDone(_) => false,
        };
        // A request takes no effect after the process that received it has ended: later processes
        // refuse its epoch.
        let returned = call.returned.unwrap_or(Time::NEVER);
        let until = match call.end.is_definite() {
            true => returned,
            false => self
                .history
                .outages
                .iter()
                .find(|outage| outage.down >= returned)
                .map_or(Time::NEVER, |o| o.down),
        };
        let began_here = self.from.is_none_or(|from| call.invoked >= from);
        let ended_here = self.outage.is_none_or(|outage| returned <= outage.down);
        let is_past = self.from.is_some_and(|from| until < from);
        let is_future = self.outage.is_some_and(|outage| call.invoked > outage.down);
        if !matters || is_past || is_future {
            return None;
        }
        let required = call.end.is_definite() && began_here && ended_here;
        if !required && !call.operation.is_write() {
            return None;
        }
        Some(CheckedCall { call, until, required, survives: required && self.survives(call, returned) })
    }

    fn is_a_bound(&self, at: Time) -> bool {
        self.history.outages.iter().any(|outage| outage.up == at && loses(self.known, outage))
    }

    /// Whether the state after the loss must show this call.
    fn survives(&self, call: &ClientCall, returned: Time) -> bool {
        let Some(outage) = self.outage else { return false };
        let place = (call.keyspace, call.partition, outage.up);
        let is_before_one_found = made_version(call)
            .is_some_and(|made| self.newest.get(&place).is_some_and(|newest| made <= *newest));
        let was_synced = match self.known.durability_at(returned) {
            Durability::Sync => true,
            Durability::Interval { ms } => {
                // The node measures the interval by its own clock, which may run slow.
                let slow = if self.history.clocks_were_set { CLOCK_RATE_MIN } else { CLOCK_RATE_TRUE };
                let bound = u64::from(ms) * 1000 * CLOCK_RATE_TRUE / slow + INTERVAL_MARGIN_US;
                returned.after_us(bound) <= outage.down.min(outage.sound_until)
            }
            Durability::Memory => false,
        };
        is_before_one_found || was_synced
    }
}

/// The highest version found in a partition after each outage, by the time of the restart.
fn newest_found(history: &RunHistory) -> BTreeMap<(KeyspaceId, PartitionId, Time), Timestamp> {
    let mut newest = BTreeMap::new();
    for call in history.calls.iter().filter(|call| call.client.is_none()) {
        let version = match &call.end {
            OperationEnd::Done(Reply::Value { version, .. } | Reply::List { version, .. }) => *version,
            _ => continue,
        };
        let place = newest.entry((call.keyspace, call.partition, call.invoked)).or_insert(version);
        *place = version.max(*place);
    }
    newest
}

/// Whether the record found after the loss was in the log already when the section began, and had
/// been absent only because its deadline had passed by the clock. If the clock is set back and the
/// entry of its removal is lost, the record is there again.
fn had_expired(calls: &[&ClientCall], from: Time, found: &ModelledRecord) -> bool {
    let Some(record) = found else { return false };
    let Some((deadline, _)) = record.deadline else { return false };
    let audited = calls.iter().find(|call| call.client.is_none() && call.invoked == from);
    audited.is_some_and(|audit| audit.clock_ms.1 >= deadline)
        && calls.iter().any(|call| call.invoked < from && made_version(call) == record.version)
}

/// The state of a record that was found after a restart.
fn found_at(calls: &[&ClientCall], up: Time) -> ModelledRecord {
    let audits = || calls.iter().filter(|call| call.client.is_none() && call.invoked == up);
    let record_in = |call: &&ClientCall| match (&call.operation.act, &call.end) {
        (RecordAction::Lookup, OperationEnd::Done(reply)) => OracleRecord::from_reply(reply),
        _ => None,
    };
    let record = audits().find_map(record_in)?;
    let deadline = audits().find_map(|call| match &call.end {
        OperationEnd::Done(Reply::Info { expires_at_ms, .. }) => *expires_at_ms,
        _ => None,
    });
    Some(Rc::new(OracleRecord { deadline: deadline.map(|at| (at, at)), ..record }))
}
