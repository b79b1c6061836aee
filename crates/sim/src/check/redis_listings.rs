//! Commands of Redis clients over a whole keyspace, each key for itself. What surely existed during the whole command
//! is listed: by `KEYS` once, by a whole traversal with `SCAN` at least once. What cannot have existed during the
//! command, or during the page, is not. `DBSIZE` is between the numbers of both. After all faults these commands are done.

use std::collections::BTreeMap;

use zerohop_base::time::Time;
use zerohop_wire::ids::KeyspaceId;

use super::Violation;
use crate::history::RunHistory;
use crate::redis::{KeyspaceListing, RedisCall, RedisCommand, RedisEnd, RedisKey, StepReply};

const CHECKER: &str = "redis listings";

/// What a call may have done to a key, or has shown of it.
#[derive(Clone, Copy, Debug)]
struct KeyEvent<'h> {
    call: &'h RedisCall,
    /// Its place among all calls.
    place: usize,
    /// It may have written the key.
    may_add: bool,
    /// It may have removed the key.
    may_remove: bool,
    /// Whether the key existed at the end of the call, if that is known.
    leaves: Option<bool>,
}

impl KeyEvent<'_> {
    /// Whether it is over before another call takes effect.
    fn is_before(&self, other: &RedisCall, place: usize) -> bool {
        is_before((self.call, self.place), (other, place))
    }
}

/// The replies of a command that is done.
fn replies(call: &RedisCall) -> Option<&[StepReply]> {
    match &call.end {
        RedisEnd::Done(replies) | RedisEnd::Unwatched(replies) => Some(replies),
        _ => None,
    }
}

/// Whether a call is over before another one takes effect: it has returned, or both have a reply and stand in this
/// order on one connection.
fn is_before((one, place): (&RedisCall, usize), (other, other_place): (&RedisCall, usize)) -> bool {
    let is_done = |call: &RedisCall| replies(call).is_some();
    let has_returned = is_done(one) && one.returned.is_some_and(|at| at <= other.invoked);
    has_returned
        || is_done(one) && is_done(other) && one.connection == other.connection && place < other_place
}

/// The calls that matter to a key.
fn events_of<'h>(calls: &[(usize, &'h RedisCall)], key: RedisKey) -> Vec<KeyEvent<'h>> {
    let mut events = Vec::new();
    for (place, call) in calls {
        let is_done = replies(call).is_some();
        if !is_done && matches!(call.end, RedisEnd::NotDone(_) | RedisEnd::Aborted) {
            continue;
        }
        let is_removal_of_all = call.command == RedisCommand::DelAll;
        let steps = call.command.steps().iter().enumerate().filter(|(_, step)| step.key() == key);
        let (mut may_add, mut may_remove) = (false, is_removal_of_all);
        let mut leaves = (is_removal_of_all && is_done).then_some(false);
        for (at, step) in steps {
            may_add |= step.is_write() && !step.is_removal();
            may_remove |= step.is_removal();
            let reply = replies(call).and_then(|replies| replies.get(at));
            leaves = reply.and_then(|reply| step.leaves_key(reply));
        }
        if may_add || may_remove || leaves.is_some() {
            events.push(KeyEvent { call, place: *place, may_add, may_remove, leaves });
        }
    }
    events
}

/// The first and the last call of a listing, with their places.
type ListingSpan<'h> = [(&'h RedisCall, usize); 2];

/// What surely existed from the first call to the last, by the evidence of this event.
fn proof<'e, 'h>(events: &'e [KeyEvent<'h>], [first, last]: ListingSpan<'_>) -> Option<&'e KeyEvent<'h>> {
    events.iter().find(|seen| {
        seen.leaves == Some(true)
            && seen.is_before(first.0, first.1)
            && events.iter().all(|other| {
                other.place == seen.place
                    || !other.may_remove
                    || other.is_before(seen.call, seen.place)
                    || is_before(last, (other.call, other.place))
            })
    })
}

/// Whether a key may have existed at some time of a call.
fn may_exist(events: &[KeyEvent<'_>], (call, place): (&RedisCall, usize)) -> bool {
    let is_in_time = |event: &&KeyEvent<'_>| !is_before((call, place), (event.call, event.place));
    let absences =
        || events.iter().filter(|event| event.leaves == Some(false) && event.is_before(call, place));
    events
        .iter()
        .filter(|event| event.may_add || event.leaves == Some(true))
        .filter(is_in_time)
        .any(|added| !absences().any(|absence| added.is_before(absence.call, absence.place)))
}

/// A page of a traversal: the place of its call, the call, and what keys it asks for.
type TraversalPage<'h> = (usize, &'h RedisCall, Option<RedisKey>);

/// The calls of one keyspace.
struct KeyspaceContents<'h> {
    /// The events of each key, by its name.
    keys: BTreeMap<&'h [u8], (RedisKey, Vec<KeyEvent<'h>>)>,
    listings: Vec<(usize, &'h RedisCall, KeyspaceListing)>,
}

/// Checks the commands over whole keyspaces.
pub(super) fn check(history: &RunHistory, violations: &mut Vec<Violation>) {
    for (keyspace, names) in &history.redis.names {
        let dropped = history.keyspace(*keyspace).and_then(|known| known.dropped);
        let losses = history.losses.iter().filter(|loss| loss.keyspace == *keyspace);
        let lost = losses.map(|loss| loss.survives_until.min(loss.down)).chain(dropped).min();
        let lost = lost.unwrap_or(Time::NEVER);
        let listed = listed_keyspace(history, *keyspace, names);
        let mut report = |what: String| {
            violations.push(Violation { checker: CHECKER, what: format!("{keyspace}: {what}") })
        };
        let is_whole = dropped.is_none() && history.corrupt.iter().all(|(corrupt, _)| corrupt != keyspace);
        if let Some(last) = history.redis.last.filter(|_| is_whole) {
            let after = listed.listings.iter().filter(|(_, call, _)| call.invoked >= last);
            for (_, call, _) in after.filter(|(_, call, _)| replies(call).is_none()) {
                report(format!("all is well, but this is not done\n    {call}"));
            }
        }
        let mut traversals: BTreeMap<(usize, u64), Vec<TraversalPage<'_>>> = BTreeMap::new();
        for (place, call, listing) in &listed.listings {
            let is_in_time = call.returned.is_some_and(|at| at < lost);
            let Some(replies) = replies(call).filter(|_| is_in_time) else { continue };
            match (listing, replies) {
                (KeyspaceListing::Count, [StepReply::Number(count)]) => {
                    listed.check_count((call, *place), *count, &mut report);
                }
                (KeyspaceListing::Keys(of), [StepReply::List(keys)]) => {
                    listed.check_keys((call, *place), *of, keys, &mut report);
                    listed.check_whole([(*call, *place); 2], *of, &[keys], &mut report);
                    let mut sorted = keys.clone();
                    sorted.sort_unstable();
                    if let Some(twice) = sorted.windows(2).find(|two| two[0] == two[1]) {
                        report(format!("lists {} twice\n    {call}", shown(&twice[0])));
                    }
                }
                (KeyspaceListing::Page { traversal, of, cursor, .. }, [_, StepReply::List(keys)]) => {
                    listed.check_keys((call, *place), *of, keys, &mut report);
                    let pages = traversals.entry((call.client, *traversal)).or_default();
                    if *cursor == 0 {
                        pages.clear();
                    }
                    pages.push((*place, call, *of));
                }
                _ => report(format!("is no reply to it\n    {call}")),
            }
        }
        for pages in traversals.values() {
            let (Some(first), Some(last)) = (pages.first(), pages.last()) else { continue };
            let is_first =
                matches!(first.1.command, RedisCommand::Listing(KeyspaceListing::Page { cursor: 0, .. }));
            if !is_first || replies(last.1).and_then(<[_]>::first) != Some(&StepReply::Number(0)) {
                continue;
            }
            let lists: Vec<&Vec<Vec<u8>>> = pages.iter().filter_map(|(_, call, _)| keys_of(call)).collect();
            listed.check_whole([(first.1, first.0), (last.1, last.0)], first.2, &lists, &mut report);
        }
    }
}

fn keys_of(call: &RedisCall) -> Option<&Vec<Vec<u8>>> {
    match replies(call)?.last()? {
        StepReply::List(keys) => Some(keys),
        _ => None,
    }
}

fn shown(key: &[u8]) -> String {
    format!("{:.40}", String::from_utf8_lossy(key))
}

fn listed_keyspace<'h>(
    history: &'h RunHistory,
    keyspace: KeyspaceId,
    names: &'h [[String; 3]],
) -> KeyspaceContents<'h> {
    let mut groups: BTreeMap<usize, Vec<(usize, &RedisCall)>> = BTreeMap::new();
    let mut listings = Vec::new();
    for (place, call) in history.redis.calls.iter().enumerate().filter(|(_, call)| call.keyspace == keyspace)
    {
        match call.command {
            RedisCommand::Listing(listing) => listings.push((place, call, listing)),
            _ => groups.entry(call.group).or_default().push((place, call)),
        }
    }
    let mut keys = BTreeMap::new();
    if !listings.is_empty() {
        for (group, names) in names.iter().enumerate() {
            for (key, name) in RedisKey::ALL.into_iter().zip(names) {
                let events = groups.get(&group).map_or(Vec::new(), |calls| events_of(calls, key));
                keys.insert(name.as_bytes(), (key, events));
            }
        }
    }
    KeyspaceContents { keys, listings }
}

impl KeyspaceContents<'_> {
    /// All keys of a reply may have existed, and match.
    fn check_keys(
        &self,
        (call, place): (&RedisCall, usize),
        of: Option<RedisKey>,
        keys: &[Vec<u8>],
        report: &mut impl FnMut(String),
    ) {
        for key in keys {
            let found = self.keys.get(&key[..]);
            let fits = found.is_some_and(|(kind, events)| {
                of.is_none_or(|of| of == *kind) && may_exist(events, (call, place))
            });
            if !fits {
                report(format!("lists {}, which cannot have existed\n    {call}", shown(key)));
            }
        }
    }

    /// These lists have all keys that surely existed from the first call to the last.
    fn check_whole(
        &self,
        span: ListingSpan<'_>,
        of: Option<RedisKey>,
        lists: &[&Vec<Vec<u8>>],
        report: &mut impl FnMut(String),
    ) {
        for (name, (kind, events)) in &self.keys {
            let is_listed = || lists.iter().any(|keys| keys.iter().any(|key| key == name));
            if of.is_some_and(|of| of != *kind) || is_listed() {
                continue;
            }
            if let Some(seen) = proof(events, span) {
                let [first, last] = span;
                report(format!(
                    "{} existed, and is not listed\n    {}\n    {}\n    {}",
                    shown(name),
                    seen.call,
                    first.0,
                    last.0
                ));
            }
        }
    }

    fn check_count(&self, at: (&RedisCall, usize), count: i64, report: &mut impl FnMut(String)) {
        let number = |of: &dyn Fn(&[KeyEvent<'_>]) -> bool| {
            self.keys.values().filter(|(_, events)| of(events)).count() as i64
        };
        let least = number(&|events| proof(events, [at; 2]).is_some());
        let most = number(&|events| may_exist(events, at));
        if !(least..=most).contains(&count) {
            report(format!("counts {count} keys where there were {least} to {most}\n    {}", at.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::RedisHistory;
    use crate::redis::RedisStep;

    const KEYSPACE: KeyspaceId = KeyspaceId(1);

    fn call(connection: u64, (from, to): (u64, u64), command: RedisCommand, end: RedisEnd) -> RedisCall {
        RedisCall {
            client: 0,
            connection,
            keyspace: KEYSPACE,
            group: 0,
            command,
            invoked: Time(from),
            watched: None,
            returned: Some(Time(to)),
            end,
        }
    }

    fn set(at: (u64, u64), end: RedisEnd) -> RedisCall {
        call(1, at, RedisCommand::One(RedisStep::Set(7)), end)
    }

    fn removal(at: (u64, u64), end: RedisEnd) -> RedisCall {
        call(1, at, RedisCommand::One(RedisStep::GetDel), end)
    }

    fn done() -> RedisEnd {
        RedisEnd::Done(vec![StepReply::Ok])
    }

    fn listed(keys: &[&str]) -> StepReply {
        StepReply::List(keys.iter().map(|key| key.as_bytes().to_vec()).collect())
    }

    fn keys(connection: u64, at: (u64, u64), keys: &[&str]) -> RedisCall {
        let command = RedisCommand::Listing(KeyspaceListing::Keys(None));
        call(connection, at, command, RedisEnd::Done(vec![listed(keys)]))
    }

    fn count(at: (u64, u64), count: i64) -> RedisCall {
        let end = RedisEnd::Done(vec![StepReply::Number(count)]);
        call(2, at, RedisCommand::Listing(KeyspaceListing::Count), end)
    }

    fn page(at: (u64, u64), (cursor, next): (u64, i64), keys: &[&str]) -> RedisCall {
        let listing = KeyspaceListing::Page { traversal: 1, cursor, count: 1, of: None };
        let end = RedisEnd::Done(vec![StepReply::Number(next), listed(keys)]);
        call(2, at, RedisCommand::Listing(listing), end)
    }

    fn findings(calls: Vec<RedisCall>) -> usize {
        let names = BTreeMap::from([(KEYSPACE, vec![["t0", "n0", "l0"].map(str::to_owned)])]);
        let redis = RedisHistory { calls, names, ..RedisHistory::default() };
        let mut violations = Vec::new();
        check(&RunHistory { redis, ..RunHistory::default() }, &mut violations);
        violations.len()
    }

    #[test]
    fn acknowledged_key_is_listed_once_by_keys() {
        let with = |names: &[&str]| findings(vec![set((1, 2), done()), keys(2, (3, 4), names)]);
        assert_eq!((with(&["t0"]), with(&[]), with(&["t0", "t0"])), (0, 1, 1));
        assert_eq!(with(&["t0", "n0"]), 1, "n0 was never written");
        assert_eq!(with(&["t0", "other"]), 1);
        // The write is not over, or its outcome is unknown.
        assert_eq!(findings(vec![set((1, 9), done()), keys(2, (3, 4), &[])]), 0);
        assert_eq!(findings(vec![set((1, 2), RedisEnd::Unknown), keys(2, (3, 4), &[])]), 0);
        // It is over for its own connection.
        assert_eq!(findings(vec![set((1, 3), done()), keys(1, (1, 4), &[])]), 1);
    }

    #[test]
    fn removed_key_is_not_listed() {
        let with = |end: RedisEnd, to, names: &[&str]| {
            findings(vec![set((1, 2), done()), removal((3, to), end), keys(2, (5, 6), names)])
        };
        assert_eq!((with(done(), 4, &["t0"]), with(done(), 4, &[])), (1, 0));
        assert_eq!((with(done(), 9, &["t0"]), with(done(), 9, &[])), (0, 0));
        assert_eq!((with(RedisEnd::Unknown, 4, &["t0"]), with(RedisEnd::Unknown, 4, &[])), (0, 0));
        let denied = || RedisEnd::NotDone("TRYAGAIN".to_owned());
        assert_eq!((with(denied(), 4, &["t0"]), with(denied(), 4, &[])), (0, 1));
        // An earlier write of unknown outcome may come last.
        let late = vec![set((1, 2), RedisEnd::Unknown), removal((3, 4), done()), keys(2, (5, 6), &["t0"])];
        assert_eq!(findings(late), 0);
    }

    #[test]
    fn count_is_between_sure_and_possible_keys() {
        let with = |number| {
            let incr = RedisCommand::One(RedisStep::Incr);
            let incr = call(1, (3, 9), incr, RedisEnd::Done(vec![StepReply::Number(1)]));
            findings(vec![set((1, 2), done()), incr, count((4, 5), number)])
        };
        assert_eq!([0, 1, 2, 3].map(with), [1, 0, 0, 1]);
    }

    #[test]
    fn whole_traversal_has_every_key_that_existed_throughout() {
        let with = |first: &[&str], second: &[&str]| {
            findings(vec![set((1, 2), done()), page((3, 4), (0, 5), first), page((5, 6), (5, 0), second)])
        };
        assert_eq!((with(&["t0"], &["t0"]), with(&[], &["t0"]), with(&[], &[])), (0, 0, 1));
        // A traversal without its end says nothing of what it has not listed.
        assert_eq!(findings(vec![set((1, 2), done()), page((3, 4), (0, 5), &[])]), 0);
        // The key comes only after its beginning.
        let late = vec![page((1, 2), (0, 5), &[]), set((3, 4), done()), page((5, 6), (5, 0), &[])];
        assert_eq!(findings(late), 0);
    }
}
