//! The plain blob: its calls have an order with these answers by a model of a blob, in real time.
//!
//! A removal in steps first makes the blob empty, and may end there if its client dies: then the blob is an empty one. Each such
//! removal therefore counts as up to [`CUTS`] calls that may empty the blob, and the removal itself.

use zerohop_base::time::Time;
use zerohop_wire::ids::KeyspaceId;

use super::Violation;
use super::call_order::{OrderedCall, StuckOrder, search};
use crate::history::RunHistory;
use crate::plain_blobs::{
    PLAIN_CHUNK_BYTES, PLAIN_CHUNKS, PlainBlobAct, PlainBlobCall, PlainBlobEnd, PlainBlobReply,
};
use crate::workload::tokens::TOKEN_BYTES;

const CHECKER: &str = "plain blobs";

/// How often a removal in steps may empty the blob: it begins again if another client writes in between.
const CUTS: usize = 3;

/// A blob that exists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct ModelledBlob {
    attributes: u64,
    size: u64,
    chunks: [u64; PLAIN_CHUNKS],
}

impl ModelledBlob {
    fn truncate(&mut self, size: u64) {
        self.size = size;
        for (start, value) in (0..).step_by(PLAIN_CHUNK_BYTES as usize).zip(&mut self.chunks) {
            if size <= start {
                *value = 0;
            }
        }
    }
}

/// A call, as the search uses it.
struct CheckedPlainCall<'h> {
    call: &'h PlainBlobCall,
    /// It stands for the first step of a removal.
    is_cut: bool,
    required: bool,
    until: Time,
}

impl OrderedCall for CheckedPlainCall<'_> {
    type State = Option<ModelledBlob>;

    fn invoked(&self) -> Time {
        self.call.invoked
    }

    fn until(&self) -> Time {
        self.until
    }

    fn is_required(&self) -> bool {
        self.required
    }

    fn behind(&self) -> &[usize] {
        &[]
    }

    fn is_read(&self) -> bool {
        !self.is_cut && !self.call.act.is_write()
    }

    fn after(&self, state: &Option<ModelledBlob>) -> Option<Option<ModelledBlob>> {
        if self.is_cut {
            let mut blob = state.clone().filter(|blob| blob.size > 0)?;
            blob.truncate(0);
            return Some(Some(blob));
        }
        let (next, reply) = apply(self.call.act, state.clone());
        match &self.call.end {
            PlainBlobEnd::Answered(answer) if self.required => (*answer == reply).then_some(next),
            _ => Some(next),
        }
    }
}

/// The state after a call, and its answer.
fn apply(act: PlainBlobAct, state: Option<ModelledBlob>) -> (Option<ModelledBlob>, PlainBlobReply) {
    let changed = |state: Option<ModelledBlob>, change: &dyn Fn(&mut ModelledBlob)| match state {
        None => (None, PlainBlobReply::Absent),
        Some(mut blob) => {
            change(&mut blob);
            (Some(blob), PlainBlobReply::Done)
        }
    };
    match act {
        PlainBlobAct::Create { .. } if state.is_some() => (state, PlainBlobReply::Exists),
        PlainBlobAct::Create { value } => {
            (Some(ModelledBlob { attributes: value, ..ModelledBlob::default() }), PlainBlobReply::Done)
        }
        PlainBlobAct::Describe { value } => changed(state, &|blob| blob.attributes = value),
        PlainBlobAct::Truncate { size, .. } => changed(state, &|blob| blob.truncate(size)),
        PlainBlobAct::Write { chunk, value } => changed(state, &|blob| {
            blob.size = blob.size.max(chunk as u64 * PLAIN_CHUNK_BYTES + TOKEN_BYTES as u64);
            blob.chunks[chunk] = value;
        }),
        PlainBlobAct::Stat => {
            let reply = state.as_ref().map_or(PlainBlobReply::Absent, |blob| PlainBlobReply::Header {
                attributes: blob.attributes,
                size: blob.size,
            });
            (state, reply)
        }
        PlainBlobAct::Read => {
            let reply = state.as_ref().map_or(PlainBlobReply::Absent, |blob| PlainBlobReply::Contents {
                size: blob.size,
                chunks: blob.chunks,
            });
            (state, reply)
        }
        PlainBlobAct::Remove { .. } => changed_to_none(state),
    }
}

fn changed_to_none(state: Option<ModelledBlob>) -> (Option<ModelledBlob>, PlainBlobReply) {
    (None, if state.is_some() { PlainBlobReply::Done } else { PlainBlobReply::Absent })
}

/// Checks the calls. Returns how many blobs were searched, and of how many the search was abandoned.
pub(super) fn check(history: &RunHistory, violations: &mut Vec<Violation>) -> (usize, usize) {
    let Some(keyspace) = history.plain_blobs.first().map(|call| call.keyspace) else { return (0, 0) };
    let mut report = |what: String| violations.push(Violation { checker: CHECKER, what });
    let lost = lost_at(history, keyspace);
    let is_sound = lost == Time::NEVER && history.corrupt.is_empty();
    for call in &history.plain_blobs {
        if matches!(call.end, PlainBlobEnd::Impossible(_)) && call.invoked < lost {
            report(format!("this cannot be\n    {call}"));
        }
        let is_ahead = call.end == PlainBlobEnd::ClockAhead && history.clocks_were_set;
        if call.must_end && is_sound && !is_ahead && !matches!(call.end, PlainBlobEnd::Answered(_)) {
            report(format!("all is well, but this is not answered\n    {call}"));
        }
    }
    let items = items(&history.plain_blobs, lost);
    match search(&items) {
        Ok(true) => (1, 0),
        Ok(false) => (1, 1),
        Err(dead) => {
            report(not_linearizable(&items, &dead));
            (1, 0)
        }
    }
}

/// From then on the keyspace may lack what was acknowledged.
fn lost_at(history: &RunHistory, keyspace: KeyspaceId) -> Time {
    let dropped = history.keyspace(keyspace).and_then(|known| known.dropped);
    let losses = history.losses.iter().filter(|loss| loss.keyspace == keyspace);
    losses.map(|loss| loss.survives_until.min(loss.down)).chain(dropped).min().unwrap_or(Time::NEVER)
}

fn items(calls: &[PlainBlobCall], lost: Time) -> Vec<CheckedPlainCall<'_>> {
    let mut items = Vec::new();
    for call in calls.iter().filter(|call| call.invoked < lost) {
        let returned = call.returned.unwrap_or(Time::NEVER);
        let required = matches!(call.end, PlainBlobEnd::Answered(_)) && returned <= lost;
        let is_effective = !matches!(
            call.end,
            PlainBlobEnd::NotDone(_) | PlainBlobEnd::ClockAhead | PlainBlobEnd::Impossible(_)
        );
        if !is_effective {
            continue;
        }
        let until = if required { returned } else { Time::NEVER };
        if matches!(call.act, PlainBlobAct::Remove { in_steps: true }) {
            let cut = || CheckedPlainCall { call, is_cut: true, required: false, until };
            items.extend((0..CUTS).map(|_| cut()));
        }
        if required || call.act.is_write() {
            items.push(CheckedPlainCall { call, is_cut: false, required, until });
        }
    }
    items
}

/// Calls shown before and after the place where an order ends.
const SHOWN_BEFORE: usize = 10;
const SHOWN_AFTER: usize = 12;

fn not_linearizable(items: &[CheckedPlainCall<'_>], dead: &StuckOrder<Option<ModelledBlob>>) -> String {
    let mut what = format!(
        "its calls have no order in which they could have been answered so; the longest, of {} calls, ends with",
        dead.order.len()
    );
    let show = |item: &CheckedPlainCall<'_>| match (item.is_cut, item.required) {
        (true, _) => format!("\n    {} (its first step)", item.call),
        (false, true) => format!("\n    {}", item.call),
        (false, false) => format!("\n    {} (may have been done)", item.call),
    };
    for at in dead.order.iter().skip(dead.order.len().saturating_sub(SHOWN_BEFORE)) {
        what.push_str(&show(&items[*at]));
    }
    what.push_str(&format!("\n  and leaves {:?}; what could not follow:", dead.state));
    let left = (0..items.len()).filter(|at| !dead.order.contains(at) && !items[*at].is_cut);
    left.take(SHOWN_AFTER).for_each(|at| what.push_str(&show(&items[at])));
    what
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call((from, to): (u64, u64), act: PlainBlobAct, reply: PlainBlobReply) -> PlainBlobCall {
        PlainBlobCall {
            client: 0,
            keyspace: KeyspaceId(1),
            act,
            invoked: Time(from),
            returned: Some(Time(to)),
            end: PlainBlobEnd::Answered(reply),
            must_end: false,
        }
    }

    fn findings(calls: Vec<PlainBlobCall>) -> Vec<Violation> {
        let history = RunHistory { plain_blobs: calls, ..RunHistory::default() };
        let mut violations = Vec::new();
        check(&history, &mut violations);
        violations
    }

    /// A blob with 7 in its attributes, and 8 in its second chunk.
    fn made() -> Vec<PlainBlobCall> {
        let written = PlainBlobAct::Write { chunk: 1, value: 8 };
        vec![
            call((1, 2), PlainBlobAct::Create { value: 7 }, PlainBlobReply::Done),
            call((3, 4), written, PlainBlobReply::Done),
        ]
    }

    fn truncation(size: u64) -> PlainBlobAct {
        PlainBlobAct::Truncate { size, in_steps: false }
    }

    fn contents(size: u64, second: u64) -> PlainBlobReply {
        PlainBlobReply::Contents { size, chunks: [0, second, 0, 0] }
    }

    #[test]
    fn truncated_bytes_are_gone_for_good() {
        let with = |second| {
            let mut calls = made();
            calls.push(call((5, 6), truncation(2_048), PlainBlobReply::Done));
            calls.push(call((7, 8), truncation(8_192), PlainBlobReply::Done));
            calls.push(call((9, 10), PlainBlobAct::Read, contents(8_192, second)));
            findings(calls)
        };
        assert_eq!(with(0), []);
        assert_eq!(with(8).len(), 1);
    }

    #[test]
    fn attributes_and_existence_are_those_of_the_last_call() {
        let with = |act, reply| {
            let mut calls = made();
            calls.push(call((5, 6), act, reply));
            findings(calls).len()
        };
        let header = |attributes| PlainBlobReply::Header { attributes, size: 4_108 };
        assert_eq!(with(PlainBlobAct::Stat, header(7)), 0);
        assert_eq!(with(PlainBlobAct::Stat, header(9)), 1);
        assert_eq!(with(PlainBlobAct::Create { value: 9 }, PlainBlobReply::Exists), 0);
        assert_eq!(with(PlainBlobAct::Create { value: 9 }, PlainBlobReply::Done), 1);
        assert_eq!(with(PlainBlobAct::Describe { value: 9 }, PlainBlobReply::Absent), 1);
        assert_eq!(with(PlainBlobAct::Remove { in_steps: false }, PlainBlobReply::Absent), 1);
    }

    #[test]
    fn removal_cut_short_leaves_the_blob_whole_or_empty_or_none() {
        let with = |in_steps, reply| {
            let mut calls = made();
            let removal = call((5, 6), PlainBlobAct::Remove { in_steps }, PlainBlobReply::Done);
            calls.push(PlainBlobCall { end: PlainBlobEnd::Unknown, ..removal });
            calls.push(call((7, 8), PlainBlobAct::Read, reply));
            findings(calls).len()
        };
        for reply in [contents(4_108, 8), contents(0, 0), PlainBlobReply::Absent] {
            assert_eq!(with(true, reply), 0, "{reply:?}");
        }
        assert_eq!(with(false, contents(0, 0)), 1);
        assert_eq!(with(true, contents(4_108, 0)), 1);
    }

    #[test]
    fn call_after_all_faults_must_be_answered() {
        let mut calls = made();
        let last = call((5, 6), PlainBlobAct::Stat, PlainBlobReply::Absent);
        let end = PlainBlobEnd::NotDone("the deadline".to_owned());
        calls.push(PlainBlobCall { end, must_end: true, ..last });
        assert_eq!(findings(calls).len(), 1);
    }
}
