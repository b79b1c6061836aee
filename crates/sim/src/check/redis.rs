//! Redis keyspaces: by a model of Redis, the commands on each group of keys have an order with these replies. It
//! respects real time, and for each connection the order of its commands. A value that a refused command would have
//! written is never seen, and none is seen twice. After all faults every command is done.
//!
//! The search is that of [`super::call_order`], with a state of three keys. A command whose outcome is
//! unknown may take effect at any time after it was sent, once or not at all.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_base::time::Time;
use zerohop_wire::ids::KeyspaceId;

use super::Violation;
use super::call_order::{OrderedCall, StuckOrder, search};
use crate::history::RunHistory;
use crate::redis::{
    MANY_VALUES, RedisCall, RedisCommand, RedisEnd, RedisKey, RedisStep, StepReply, long_bytes, many_tokens,
    token_bytes,
};

const CHECKER: &str = "redis";

/// The keys of a group, as Redis has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct RedisModel {
    text: Option<Vec<u8>>,
    counter: Option<i64>,
    list: Vec<u64>,
    /// The state of the text since each `WATCH` that is open, by the place of its command.
    watches: BTreeMap<usize, WatchedText>,
}

/// The text since a `WATCH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum WatchedText {
    /// There was none then. It counts as unchanged if there is none again.
    Absent,
    Unchanged,
    Changed,
}

impl RedisModel {
    fn watch(&mut self, place: usize) {
        let found = if self.text.is_some() { WatchedText::Unchanged } else { WatchedText::Absent };
        self.watches.insert(place, found);
    }

    /// Whether the text has changed since the `WATCH` of this command, which is over.
    fn end_watch(&mut self, place: usize) -> bool {
        match self.watches.remove(&place) {
            Some(WatchedText::Absent) => self.text.is_some(),
            Some(WatchedText::Changed) => true,
            Some(WatchedText::Unchanged) | None => false,
        }
    }

    fn apply(&mut self, step: RedisStep) -> StepReply {
        let is_change = step.key() == RedisKey::Text
            && step.is_write()
            && (step != RedisStep::GetDel || self.text.is_some());
        if is_change {
            let unchanged = self.watches.values_mut().filter(|one| **one == WatchedText::Unchanged);
            unchanged.for_each(|one| *one = WatchedText::Changed);
        }
        let bulk = |found: Option<Vec<u8>>| found.map_or(StepReply::Nil, StepReply::Bytes);
        match step {
            RedisStep::Set(token) => {
                self.text = Some(token_bytes(token));
                StepReply::Ok
            }
            RedisStep::SetLong(token) => {
                self.text = Some(long_bytes(token));
                StepReply::Ok
            }
            RedisStep::Append(token) => {
                let text = self.text.get_or_insert_default();
                text.extend(token_bytes(token));
                StepReply::Number(text.len() as i64)
            }
            RedisStep::Get => bulk(self.text.clone()),
            RedisStep::GetDel => bulk(self.text.take()),
            RedisStep::Incr => {
                let counter = self.counter.get_or_insert_default();
                *counter += 1;
                StepReply::Number(*counter)
            }
            RedisStep::SetCounter(counter) => {
                self.counter = Some(counter);
                StepReply::Ok
            }
            RedisStep::GetCounter => bulk(self.counter.map(|counter| counter.to_string().into_bytes())),
            RedisStep::Push(token) => {
                self.list.push(token);
                StepReply::Number(self.list.len() as i64)
            }
            RedisStep::PushMany(first) => {
                self.list.extend(many_tokens(first));
                StepReply::Number(self.list.len() as i64)
            }
            RedisStep::Range => StepReply::List(self.list.iter().map(|token| token_bytes(*token)).collect()),
            RedisStep::DelList => StepReply::Number(i64::from(!std::mem::take(&mut self.list).is_empty())),
        }
    }

    /// Whether a step may get this reply in this state: the costly ones are excluded without a copy of the state.
    fn may_fit(&self, step: RedisStep, reply: &StepReply) -> bool {
        let is_text = |requested: &StepReply| match (requested, &self.text) {
            (StepReply::Bytes(bytes), Some(text)) => bytes == text,
            (StepReply::Nil, None) => true,
            _ => false,
        };
        let number = |length: usize| *reply == StepReply::Number(length as i64);
        match step {
            RedisStep::Get | RedisStep::GetDel => is_text(reply),
            RedisStep::Append(token) => {
                number(self.text.as_ref().map_or(0, Vec::len) + token_bytes(token).len())
            }
            RedisStep::Incr => *reply == StepReply::Number(self.counter.unwrap_or(0) + 1),
            RedisStep::Push(_) => number(self.list.len() + 1),
            RedisStep::PushMany(_) => number(self.list.len() + MANY_VALUES as usize),
            RedisStep::Range => match reply {
                StepReply::List(values) => {
                    values.len() == self.list.len()
                        && values
                            .last()
                            .zip(self.list.last())
                            .is_none_or(|(value, token)| *value == token_bytes(*token))
                }
                _ => false,
            },
            RedisStep::Set(_)
            | RedisStep::SetLong(_)
            | RedisStep::SetCounter(_)
            | RedisStep::GetCounter
            | RedisStep::DelList => true,
        }
    }

    /// The state after a call with its replies, if they fit. Without replies any fit.
    fn after(&self, call: &RedisCall, replies: Option<&[StepReply]>) -> Option<RedisModel> {
        if let RedisCommand::Wait { token, .. } = call.command {
            let holds = self.text.as_ref().is_some_and(|text| *text == token_bytes(token));
            let fits = replies.is_none_or(|replies| *replies == [StepReply::Number(i64::from(holds))]);
            return fits.then(|| self.clone());
        }
        if let (Some(step), Some(Some(reply))) = (call.command.steps().first(), replies.map(<[_]>::first))
            && !self.may_fit(*step, reply)
        {
            return None;
        }
        let mut next = self.clone();
        if call.command == RedisCommand::DelAll {
            let (had_text, had_counter) = (next.text.is_some(), next.counter.take().is_some());
            next.apply(RedisStep::GetDel);
            let had_list = next.apply(RedisStep::DelList) == StepReply::Number(1);
            let count = i64::from(had_text) + i64::from(had_counter) + i64::from(had_list);
            return replies.is_none_or(|replies| *replies == [StepReply::Number(count)]).then_some(next);
        }
        for (at, step) in call.command.steps().iter().enumerate() {
            let reply = next.apply(*step);
            if replies.is_some_and(|replies| replies.get(at) != Some(&reply)) {
                return None;
            }
        }
        Some(next)
    }
}

/// A call, as the search uses it.
struct CheckedCommand<'h> {
    call: &'h RedisCall,
    part: CommandPart,
    /// Its replies must be those of the model.
    required: bool,
    until: Time,
    /// Its place among all.
    place: usize,
    /// Calls of its connection that come before it.
    behind: Vec<usize>,
}

/// The part of a command that has its place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandPart {
    Whole,
    /// The `WATCH` of the command at the next place.
    Watch,
    /// The `EXEC` of a `WATCH` at this place.
    Exec(usize),
}

impl OrderedCall for CheckedCommand<'_> {
    type State = RedisModel;

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
        &self.behind
    }

    fn is_read(&self) -> bool {
        self.part == CommandPart::Whole && !self.call.command.is_write()
    }

    fn after(&self, state: &RedisModel) -> Option<RedisModel> {
        if self.part == CommandPart::Whole {
            let (RedisEnd::Done(replies) | RedisEnd::Unwatched(replies)) = &self.call.end else {
                return state.after(self.call, None);
            };
            return state.after(self.call, self.required.then_some(&replies[..]));
        }
        let mut state = state.clone();
        let is_changed = match self.part {
            CommandPart::Watch => {
                state.watch(self.place);
                return Some(state);
            }
            CommandPart::Exec(watch) => state.end_watch(watch),
            CommandPart::Whole => false,
        };
        let replies = match &self.call.end {
            RedisEnd::Aborted => return is_changed.then_some(state),
            RedisEnd::Done(replies) | RedisEnd::Unwatched(replies) if self.required => Some(&replies[..]),
            _ => None,
        };
        if is_changed { None } else { state.after(self.call, replies) }
    }
}

/// Checks the Redis calls of a history. Returns how many groups were searched, and of how many the
/// search was abandoned.
pub(super) fn check(history: &RunHistory, violations: &mut Vec<Violation>) -> (usize, usize) {
    let mut groups: BTreeMap<(KeyspaceId, usize), Vec<&RedisCall>> = BTreeMap::new();
    let of_groups = |call: &&RedisCall| !matches!(call.command, RedisCommand::Listing(_));
    for call in history.redis.calls.iter().filter(of_groups) {
        groups.entry((call.keyspace, call.group)).or_default().push(call);
    }
    let (mut searched, mut abandoned) = (0, 0);
    for ((keyspace, group), calls) in groups {
        let dropped = history.keyspace(keyspace).and_then(|known| known.dropped);
        let mut report = |what: String| {
            violations
                .push(Violation { checker: CHECKER, what: format!("{keyspace} group {group}: {what}") });
        };
        let losses = history.losses.iter().filter(|loss| loss.keyspace == keyspace);
        let lost = losses.map(|loss| loss.survives_until.min(loss.down)).chain(dropped).min();
        check_tokens(&calls, lost.unwrap_or(Time::NEVER), &mut report);
        if dropped.is_none() && history.corrupt.iter().all(|(corrupt, _)| *corrupt != keyspace) {
            check_progress(history, &calls, &mut report);
        }
        searched += 1;
        let items = items(&calls, lost.unwrap_or(Time::NEVER), history.redis.apart.contains(&group));
        match search(&items) {
            Ok(true) => {}
            Ok(false) => abandoned += 1,
            Err(dead) => report(not_linearizable(&items, &dead)),
        }
    }
    (searched, abandoned)
}

fn check_progress(history: &RunHistory, calls: &[&RedisCall], report: &mut impl FnMut(String)) {
    // Before, balancing and splits after the faults can outlast a client's time-out.
    let Some(last) = history.redis.last else { return };
    for call in calls.iter().filter(|call| call.invoked >= last) {
        let is_apart = history.redis.apart.contains(&call.group);
        let is_done = matches!(call.end, RedisEnd::Done(_) | RedisEnd::Aborted | RedisEnd::Unwatched(_));
        if !(is_done || is_apart && matches!(call.end, RedisEnd::NotDone(_))) {
            report(format!("all is well, but this is not done\n    {call}"));
        }
    }
}

fn check_tokens(calls: &[&RedisCall], lost: Time, report: &mut impl FnMut(String)) {
    let denied = calls.iter().filter(|call| matches!(call.end, RedisEnd::NotDone(_) | RedisEnd::Aborted));
    let denied = denied.filter(|call| call.returned.is_some_and(|at| at < lost));
    let denied: BTreeMap<Vec<u8>, &&RedisCall> = denied
        .flat_map(|call| {
            call.command.steps().iter().flat_map(|step| step.values()).map(move |value| (value, call))
        })
        .collect();
    for call in calls {
        let (RedisEnd::Done(replies) | RedisEnd::Unwatched(replies)) = &call.end else { continue };
        for reply in replies {
            let tokens: Vec<Vec<u8>> = match reply {
                StepReply::Bytes(bytes) => {
                    bytes.split_inclusive(|byte| *byte == b'>').map(<[u8]>::to_vec).collect()
                }
                StepReply::List(values) => values.clone(),
                _ => continue,
            };
            let mut seen = BTreeSet::new();
            for token in tokens {
                let shown = format!("{:.40}", String::from_utf8_lossy(&token));
                if let Some(denied) = denied.get(&token) {
                    report(format!(
                        "{shown} was seen though its command was not done\n    {denied}\n    {call}"
                    ));
                }
                if !seen.insert(token) {
                    report(format!("{shown} stands twice in one record\n    {call}"));
                }
            }
        }
    }
}

fn items<'h>(calls: &[&'h RedisCall], lost: Time, is_apart: bool) -> Vec<CheckedCommand<'h>> {
    let mut items: Vec<CheckedCommand<'h>> = Vec::new();
    // The last call of each connection on each key.
    let mut last: BTreeMap<(u64, RedisKey), usize> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.invoked < lost) {
        let returned = call.returned.unwrap_or(Time::NEVER);
        let is_known = matches!(call.end, RedisEnd::Done(_) | RedisEnd::Aborted | RedisEnd::Unwatched(_));
        let required = is_known && returned <= lost;
        let may_be_done =
            call.command.is_write() && !matches!(call.end, RedisEnd::NotDone(_) | RedisEnd::Aborted);
        let matters = required || may_be_done;
        if !matters || matches!(call.command, RedisCommand::Ping(_)) {
            continue;
        }
        // It is unknown whether the keyspace still had what was watched.
        let is_watched = required
            && matches!(call.command, RedisCommand::Watched(_))
            && !matches!(call.end, RedisEnd::Unwatched(_));
        let mut behind = Vec::new();
        if required && !matches!(call.command, RedisCommand::Wait { .. }) {
            let watched = is_watched.then_some(RedisKey::Text);
            let all: &[RedisKey] = if call.command == RedisCommand::DelAll { &RedisKey::ALL } else { &[] };
            let own = call.command.steps().iter().map(|step| step.key()).chain(watched);
            let own = own.chain(all.iter().copied());
            let whole = items.len() + usize::from(is_watched);
            // Keys of one partition: one order for all of them.
            let keys: BTreeSet<RedisKey> = if is_apart { own.collect() } else { RedisKey::ALL.into() };
            for key in keys {
                behind.extend(last.insert((call.connection, key), whole));
            }
        }
        let until = if required { returned } else { Time::NEVER };
        let mut part = CommandPart::Whole;
        if is_watched {
            let (place, behind) = (items.len(), std::mem::take(&mut behind));
            let until = call.watched.unwrap_or(until);
            items.push(CheckedCommand { call, part: CommandPart::Watch, required, until, place, behind });
            part = CommandPart::Exec(place);
        }
        if let CommandPart::Exec(watch) = part {
            behind.push(watch);
        }
        let place = items.len();
        items.push(CheckedCommand { call, part, required, until, place, behind });
    }
    items
}

/// Calls shown before and after the place where an order ends.
const SHOWN_BEFORE: usize = 8;
const SHOWN_AFTER: usize = 12;

fn not_linearizable(items: &[CheckedCommand<'_>], dead: &StuckOrder<RedisModel>) -> String {
    let mut what = format!(
        "its commands have no order in which they could have been replied to so; the longest, of {} commands, ends with",
        dead.order.len()
    );
    for at in dead.order.iter().skip(dead.order.len().saturating_sub(SHOWN_BEFORE)) {
        what.push_str(&format!("\n    {}", items[*at].call));
    }
    let RedisModel { text, counter, list, .. } = &dead.state;
    let text = text.as_ref().map(|text| String::from_utf8_lossy(text).into_owned());
    what.push_str(&format!(
        "\n  and leaves {text:?} {counter:?} and {} values; what could not follow:",
        list.len()
    ));
    let left = (0..items.len()).filter(|at| !dead.order.contains(at));
    for at in left.take(SHOWN_AFTER) {
        let note = if items[at].required { "" } else { " (may have been done)" };
        what.push_str(&format!("\n    {}{note}", items[at].call));
    }
    what
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::RedisHistory;

    fn call(connection: u64, (from, to): (u64, u64), step: RedisStep, end: RedisEnd) -> RedisCall {
        RedisCall {
            client: 0,
            connection,
            keyspace: KeyspaceId(1),
            group: 0,
            command: RedisCommand::One(step),
            invoked: Time(from),
            watched: None,
            returned: Some(Time(to)),
            end,
        }
    }

    fn number(number: i64) -> RedisEnd {
        RedisEnd::Done(vec![StepReply::Number(number)])
    }

    fn findings(calls: Vec<RedisCall>) -> Vec<Violation> {
        let history =
            RunHistory { redis: RedisHistory { calls, ..RedisHistory::default() }, ..RunHistory::default() };
        let mut violations = Vec::new();
        check(&history, &mut violations);
        violations
    }

    #[test]
    fn replies_of_one_connection_keep_the_order_of_commands() {
        let both = |first, second| {
            let incr = |end| call(1, (1, 9), RedisStep::Incr, end);
            findings(vec![incr(number(first)), incr(number(second))])
        };
        assert!(both(1, 2).is_empty());
        assert_eq!(both(2, 1).len(), 1);
    }

    #[test]
    fn watch_sees_the_text_before_its_reply() {
        let with = |watched: u64| {
            let command = RedisCommand::Watched(vec![RedisStep::Incr]);
            let watched = RedisCall {
                command,
                watched: Some(Time(watched)),
                ..call(2, (3, 9), RedisStep::Incr, number(2))
            };
            let first = call(1, (1, 2), RedisStep::Set(1), RedisEnd::Done(vec![StepReply::Ok]));
            let second = call(1, (6, 7), RedisStep::Set(2), RedisEnd::Done(vec![StepReply::Ok]));
            // It shows that `EXEC` came after the change.
            let third = call(1, (7, 8), RedisStep::Incr, number(1));
            findings(vec![first, watched, second, third]).len()
        };
        assert_eq!((with(5), with(8)), (1, 0));
    }

    #[test]
    fn removal_of_all_keys_counts_those_that_were_there() {
        let with = |count| {
            let removal = RedisCall {
                command: RedisCommand::DelAll,
                ..call(1, (3, 4), RedisStep::Incr, number(count))
            };
            let after = call(1, (5, 6), RedisStep::Incr, number(1));
            findings(vec![call(1, (1, 2), RedisStep::Incr, number(1)), removal, after]).len()
        };
        assert_eq!((with(1), with(2)), (0, 1));
    }

    #[test]
    fn watched_transaction_runs_if_the_text_is_unchanged_and_only_then() {
        let with = |set: (u64, u64), end: RedisEnd| {
            let command = RedisCommand::Watched(vec![RedisStep::Incr]);
            let watched = RedisCall { command, ..call(2, (3, 9), RedisStep::Incr, end) };
            let first = call(1, (1, 2), RedisStep::Set(1), RedisEnd::Done(vec![StepReply::Ok]));
            let second = call(1, set, RedisStep::Set(2), RedisEnd::Done(vec![StepReply::Ok]));
            let mut all = vec![first, watched, second];
            all.sort_by_key(|call| call.invoked);
            findings(all).len()
        };
        for (set, runs, aborts) in [((5, 6), 0, 0), ((20, 21), 0, 1)] {
            assert_eq!(with(set, number(1)), runs, "{set:?}");
            assert_eq!(with(set, RedisEnd::Aborted), aborts, "{set:?}");
        }
        // `WATCH` comes before `EXEC`, so a text that was set before both does not abort.
        let command = RedisCommand::Watched(vec![RedisStep::Get]);
        let get = RedisEnd::Done(vec![StepReply::Bytes(token_bytes(1))]);
        let seen = |to| {
            let set = call(1, (1, 2), RedisStep::Set(1), RedisEnd::Done(vec![StepReply::Ok]));
            let other = call(1, (4, 5), RedisStep::Set(2), RedisEnd::Done(vec![StepReply::Ok]));
            let watched =
                RedisCall { command: command.clone(), ..call(2, (3, to), RedisStep::Get, get.clone()) };
            let mut all = vec![set, other, watched];
            all.sort_by_key(|call| call.invoked);
            findings(all).len()
        };
        assert_eq!(seen(9), 0);
        let late = RedisCall { invoked: Time(6), ..call(2, (6, 9), RedisStep::Get, get.clone()) };
        let late = RedisCall { command: command.clone(), ..late };
        let set = call(1, (1, 2), RedisStep::Set(1), RedisEnd::Done(vec![StepReply::Ok]));
        let other = call(1, (4, 5), RedisStep::Set(2), RedisEnd::Done(vec![StepReply::Ok]));
        assert_eq!(findings(vec![set, other, late]).len(), 1);
    }

    #[test]
    fn unknown_commands_count_once_or_never() {
        let with = |last| {
            findings(vec![
                call(1, (1, 2), RedisStep::Incr, number(1)),
                call(1, (3, 4), RedisStep::Incr, RedisEnd::Unknown),
                call(2, (5, 6), RedisStep::Incr, number(last)),
            ])
        };
        assert!(with(2).is_empty() && with(3).is_empty());
        assert_eq!(with(4).len(), 1);
        assert_eq!(with(1).len(), 1);
    }

    #[test]
    fn refused_and_repeated_values_are_found() {
        let list = |tokens: &[u64]| {
            RedisEnd::Done(vec![StepReply::List(tokens.iter().map(|token| token_bytes(*token)).collect())])
        };
        let refused = call(1, (1, 2), RedisStep::Push(7), RedisEnd::NotDone("TRYAGAIN".to_owned()));
        let seen = findings(vec![refused, call(1, (3, 4), RedisStep::Range, list(&[7]))]);
        assert!(seen.iter().any(|one| one.what.contains("not done")), "{seen:?}");
        let pushed = call(1, (1, 2), RedisStep::Push(7), number(1));
        let twice = findings(vec![pushed, call(1, (3, 4), RedisStep::Range, list(&[7, 7]))]);
        assert!(twice.iter().any(|one| one.what.contains("twice")), "{twice:?}");
    }
}
