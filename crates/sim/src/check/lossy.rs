//! Splits the calls on a record of a cluster where its partition may have lost the end of its log.
//!
//! A group with a remaining in-sync member loses nothing, so most records have one section. If all
//! such members are gone, the group goes on with the log of one of them ([`Loss`]), which is a
//! prefix of the log. It must have at least what was acknowledged early enough, and everything
//! before an entry that is observed later.

use zerohop_base::time::Time;
use zerohop_session::Reply;
use zerohop_wire::Failure;
use zerohop_wire::ids::{KeyspaceId, Timestamp};

use super::linear::{CheckedCall, Section, SectionEnd, made_version};
use super::named_section::NamedSection;
use crate::history::{ClientCall, Loss, OperationEnd, RunHistory};

/// The calls on one record.
pub(super) fn named<'h>(
    history: &'h RunHistory,
    (keyspace, key): (KeyspaceId, &'h [u8]),
    calls: &[&'h ClientCall],
) -> NamedSection<'h> {
    let partition = calls.first().map(|call| call.partition).unwrap_or_default();
    let losses: Vec<&Loss> = history
        .losses
        .iter()
        .filter(|loss| (loss.keyspace, loss.partition) == (keyspace, partition))
        .collect();
    let mut sections = Vec::new();
    let mut before = None;
    for loss in losses.iter().map(|loss| Some(*loss)).chain([None]) {
        let newest = loss.and_then(|loss| newest_after(history, loss));
        let cutter = LossCutter { losses: &losses, before, loss, newest };
        let items = calls.iter().filter_map(|call| cutter.item(call)).collect();
        // A log of which nothing had to survive may be shorter than what an earlier loss had left
        // of it.
        let keeps_nothing = |loss: &Loss| {
            newest.is_none() && before.is_some_and(|before: &Loss| loss.survives_until <= before.down)
        };
        let end = match loss {
            Some(loss) if keeps_nothing(loss) => SectionEnd::Anything,
            Some(_) => SectionEnd::Unknown,
            None => SectionEnd::OfAll,
        };
        sections.push(Section { items, end });
        before = loss;
    }
    NamedSection { keyspace, key, outage: None, start: None, sections }
}

struct LossCutter<'c> {
    losses: &'c [&'c Loss],
    /// The losses at the start and at the end of the section.
    before: Option<&'c Loss>,
    loss: Option<&'c Loss>,
    /// The newest version from before the loss at its end that is observed after it.
    newest: Option<Timestamp>,
}

impl LossCutter<'_> {
    /// The call as an item of this section, if it belongs to it.
    fn item<'h>(&self, call: &'h ClientCall) -> Option<CheckedCall<'h>> {
        let matters = match &call.end {
            OperationEnd::Done(_) | OperationEnd::Failed(_) => true,
            OperationEnd::Open | OperationEnd::Unknown => call.operation.is_write(),
            OperationEnd::NotDone(_) => false,
        };
        let returned = call.returned.unwrap_or(Time::NEVER);
        // Requests name epochs, and a group that has lost something goes on in another epoch.
        let until = match call.end.is_definite() {
            true => returned,
            false => {
                self.losses.iter().map(|loss| loss.down).find(|down| *down >= returned).unwrap_or(Time::NEVER)
            }
        };
        let began_here = self.before.is_none_or(|loss| call.invoked >= loss.down);
        let ended_here = self.loss.is_none_or(|loss| returned <= loss.down);
        let is_past = self.before.is_some_and(|loss| until < loss.down);
        let is_future = self.loss.is_some_and(|loss| call.invoked > loss.down);
        if !matters || is_past || is_future {
            return None;
        }
        let required = call.end.is_definite() && began_here && ended_here;
        if !required && !call.operation.is_write() {
            return None;
        }
        let is_old = self.loss.is_some_and(|loss| returned <= loss.survives_until);
        let is_before_one_seen =
            self.newest.is_some() && made_version(call).is_some_and(|made| Some(made) <= self.newest);
        Some(CheckedCall { call, until, required, survives: required && (is_old || is_before_one_seen) })
    }
}

/// The newest version that was made before a loss and is observed after it, in any record of the
/// partition: a log loses its end, never entries in its middle.
fn newest_after(history: &RunHistory, loss: &Loss) -> Option<Timestamp> {
    let of_it = |call: &&ClientCall| (call.keyspace, call.partition) == (loss.keyspace, loss.partition);
    let made: std::collections::BTreeSet<Timestamp> = history
        .calls
        .iter()
        .filter(of_it)
        .filter(|call| call.returned.is_some_and(|returned| returned <= loss.down))
        .filter_map(made_version)
        .collect();
    let seen =
        history.calls.iter().filter(of_it).filter(|call| call.invoked >= loss.up).filter_map(version_seen);
    seen.filter(|version| made.contains(version)).max()
}

/// The version of the record that an answer shows.
fn version_seen(call: &ClientCall) -> Option<Timestamp> {
    match &call.end {
        OperationEnd::Done(
            Reply::Value { version, .. } | Reply::List { version, .. } | Reply::Info { version, .. },
        ) => Some(*version),
        OperationEnd::Failed(
            Failure::ConditionFailed { version, .. }
            | Failure::CompareFailed { version, .. }
            | Failure::TimedOut { version },
        ) => Some(*version),
        _ => None,
    }
}
