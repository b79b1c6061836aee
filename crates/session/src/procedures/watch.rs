//! Watches: a watch follows the changes of a keyspace, in order per partition, from a position on.
//!
//! It has one request at each partition, whose answer waits there for the next change. So a change reaches the reader without another request, and
//! an idle partition costs one request in each waiting time. A partition that was split continues in its children, from the same position.
//!
//! *Marks* join partitions into one order. Each answer says through which timestamp its partition has no more changes to return. The mark of the
//! watch is the lowest of these, and it is returned after all changes at or below it (`docs/protocols/watch.md`).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use zerohop_base::time::Time;
use zerohop_placement::Division;
use zerohop_wire::BadRequestReason;
use zerohop_wire::ids::Timestamp;
use zerohop_wire::limits::CHANGES_WAIT_MS_MAX;
use zerohop_wire::messages::AFTER_NOW;

use super::cluster_handle::ClusterHandle;
use super::error::Error;
use super::keyspace::Keyspace;
use super::shell::PendingReply;
use super::watch_cursor::{CursorPart, WatchCursor};
use crate::limits::{MARK_PAUSE_US, WAIT_GRACE_US};
use crate::planted::{Bug, is_planted};
use crate::{ChangedRecord, ChangesQuery, KeyRange, Reply, SessionError, SessionRequest};

/// The changes that a watch returns, and where it begins.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// The position at which it begins; `None`: from now on.
    pub cursor: Option<WatchCursor>,
    /// Only keys of this range; its direction does not matter.
    pub range: KeyRange,
    /// Only keys with this prefix.
    pub prefix: Bytes,
    /// Whether values are returned: those of bytes records of up to 64 KiB.
    pub values: bool,
    /// Most changes of one event.
    pub changes_max: u32,
    /// The longest time between two marks of an idle keyspace, in milliseconds, at most 30,000.
    pub mark_ms: u32,
}

impl Default for WatchOptions {
    fn default() -> Self {
        let (range, prefix) = (KeyRange::default(), Bytes::new());
        Self { cursor: None, range, prefix, values: true, changes_max: 1024, mark_ms: 1_000 }
    }
}

/// What a watch returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// Changes of one partition, in order.
    Changes(Vec<ChangedRecord>),
    /// All changes at or below this timestamp, in all partitions, were returned.
    Mark(Timestamp),
}

/// A reader of the changes of a keyspace. After an error its position is that before; the caller can call [`Watch::next`] again.
#[derive(Debug)]
pub struct Watch {
    keyspace: Keyspace,
    client: ClusterHandle,
    options: WatchOptions,
    parts: Vec<WatchedPart>,
    /// The mark that was returned last, and when.
    marked: (Timestamp, Time),
    /// The part that is polled first: with equal turns, no partition shuts out another.
    turn: usize,
    /// The part whose changes were returned last, and its position before them.
    changed: Option<(usize, CursorPart)>,
}

/// One partition of a watch.
#[derive(Debug)]
struct WatchedPart {
    at: CursorPart,
    pending: Option<PendingReply>,
}

impl Watch {
    /// A watch of a keyspace.
    ///
    /// # Errors
    /// The cursor is of another keyspace; no key is within the bounds.
    pub(crate) fn new(keyspace: Keyspace, options: WatchOptions) -> Result<Watch, Error> {
        if options.range.is_empty() || options.range.is_reversed() {
            return Err(Error::general(SessionError::Answer { failure: BadRequestReason::Bounds.into() }));
        }
        let parts: Vec<CursorPart> = match &options.cursor {
            Some(cursor) if cursor.keyspace() != keyspace.id() => return Err(Error::OtherKeyspace),
            Some(cursor) => cursor.parts.clone(),
            None => {
                let division = keyspace.division();
                let begun = |id| CursorPart {
                    hash_range: (id, division.count()),
                    after: AFTER_NOW,
                    newest: Timestamp::ZERO,
                    through: Timestamp::ZERO,
                };
                // All of them, whatever the range: a watch with another range may go on from the cursor.
                division.partitions().map(begun).collect()
            }
        };
        let client = keyspace.client().outside_calls();
        let parts = parts.into_iter().map(|at| WatchedPart { at, pending: None }).collect();
        Ok(Watch {
            keyspace,
            client,
            options,
            parts,
            marked: (Timestamp::ZERO, Time(0)),
            turn: 0,
            changed: None,
        })
    }

    /// The position behind everything that was returned. A watch that begins there returns what this one has not. `None` before the first event: a
    /// watch from now on has no position until each partition has answered.
    #[must_use]
    pub fn cursor(&self) -> Option<WatchCursor> {
        let parts: Vec<CursorPart> = self.parts.iter().map(|part| part.at).collect();
        let is_known = !self.parts.iter().any(WatchedPart::is_new);
        is_known.then(|| WatchCursor { keyspace: self.keyspace.id(), parts })
    }

    /// The position within the changes that the last call of [`Watch::next`] has returned: behind those of this log index and of lower ones. It is for
    /// a program that has processed only some of them. `None` if that call has returned no changes, or without a [`Watch::cursor`].
    #[must_use]
    pub fn cursor_within(&self, index: u64) -> Option<WatchCursor> {
        let (changed, before) = self.changed?;
        let mut cursor = self.cursor()?;
        let part = cursor.parts.get_mut(changed)?;
        // The newest timestamp of the answer belongs to each index on its page too.
        *part =
            CursorPart { after: index.max(before.after).min(part.after), through: before.through, ..*part };
        Some(cursor)
    }

    /// Waits until the watch has a position in each partition, so that it returns all changes that are made after this call. Without this call a
    /// watch without a cursor begins in each partition when the first [`Watch::next`] has reached it.
    ///
    /// # Errors
    /// Those of [`Watch::next`].
    pub async fn begin(&mut self) -> Result<(), Error> {
        while self.parts.iter().any(WatchedPart::is_new) {
            self.request_from(WatchedPart::is_new, 0);
            let (index, answer) = self.answered().await;
            match answer {
                Ok(Reply::Changes { next, newest, through, changes }) => {
                    let part = &mut self.parts[index].at;
                    part.newest = newest;
                    match changes.first() {
                        // They are requested again.
                        Some(first) => part.after = part.after.min(first.index - 1),
                        None => (part.after, part.through) = (next, part.through.max(through)),
                    }
                }
                answer => self.follow(index, answer)?,
            }
        }
        Ok(())
    }

    /// Returns the next changes, or the next mark.
    ///
    /// # Errors
    /// [`zerohop_wire::Failure::HistoryGone`]: changes behind the position are no longer kept. [`zerohop_wire::BadRequestReason::NoHistory`]: the keyspace keeps
    /// none. Others: a partition did not answer within the client's deadline.
    pub async fn next(&mut self) -> Result<WatchEvent, Error> {
        self.changed = None;
        loop {
            self.request_from(|_| true, self.options.mark_ms);
            let (index, answer) = self.answered().await;
            match answer {
                Ok(Reply::Changes { next, newest, through, changes }) => {
                    let part = &mut self.parts[index].at;
                    let before = *part;
                    (part.after, part.newest) = (next, newest);
                    part.through = part.through.max(through);
                    if let Some(first) = changes.first() {
                        let after = before.after.min(first.index - 1);
                        self.changed = Some((index, CursorPart { after, ..before }));
                        return Ok(WatchEvent::Changes(changes));
                    }
                    if let Some(mark) = self.next_mark() {
                        return Ok(WatchEvent::Mark(mark));
                    }
                }
                answer => self.follow(index, answer)?,
            }
        }
    }

    /// Continues after an answer without changes, if the partition was split.
    fn follow(&mut self, index: usize, answer: Result<Reply, Error>) -> Result<(), Error> {
        let Err(error) = answer else { return Err(Error::Unexpected) };
        let Some((_, division)) = error.split_into() else { return Err(error) };
        let division = division.clone();
        self.follow_split(index, &division);
        Ok(())
    }

    /// Sends a request to each of these partitions that has none.
    fn request_from(&mut self, includes: impl Fn(&WatchedPart) -> bool, wait_ms: u32) {
        let wait_ms = wait_ms.min(CHANGES_WAIT_MS_MAX);
        let Watch { keyspace, client, options, parts, .. } = self;
        for part in parts.iter_mut().filter(|part| part.pending.is_none() && includes(part)) {
            let (from, to) = options.range.bounds();
            let query = ChangesQuery {
                position: (part.at.after, part.at.newest),
                wait_ms,
                changes_max: options.changes_max,
                values: options.values,
                from,
                to,
                prefix: options.prefix.clone(),
            };
            let limit_us = client.limit_us() + u64::from(wait_ms) * 1_000 + WAIT_GRACE_US;
            let request = SessionRequest::changes(keyspace.id(), part.at.hash_range, query, limit_us);
            part.pending = Some(client.submit(request));
        }
    }

    /// Waits for the next answer of any partition.
    async fn answered(&mut self) -> (usize, Result<Reply, Error>) {
        let (count, turn) = (self.parts.len(), self.turn);
        let parts = &mut self.parts;
        let (index, result) = poll_fn(|context| {
            for index in (0..count).map(|step| (turn + step) % count) {
                let Some(pending) = &mut parts[index].pending else { continue };
                if let Poll::Ready(result) = Pin::new(pending).poll(context) {
                    parts[index].pending = None;
                    return Poll::Ready((index, result));
                }
            }
            Poll::Pending
        })
        .await;
        self.turn = (index + 1) % count;
        (index, result.unwrap_or(Err(SessionError::Closed)).map_err(Error::general))
    }

    /// The mark, if it is above the one that was returned last.
    fn next_mark(&mut self) -> Option<Timestamp> {
        let of = |part: &WatchedPart| part.at.through;
        let mark = match is_planted(Bug::MarkOfOnePartition) {
            true => self.parts.iter().map(of).max()?,
            false => self.parts.iter().map(of).min()?,
        };
        let (last, at) = self.marked;
        let now = self.client.now();
        // Each partition answers at its own time, so that the lowest timestamp rises in many small steps.
        if mark <= last || last != Timestamp::ZERO && now < at.after_us(MARK_PAUSE_US) {
            return None;
        }
        self.marked = (mark, now);
        Some(mark)
    }

    /// The partition of a part was split: each child is watched from the position of its parent.
    fn follow_split(&mut self, index: usize, division: &Division) {
        let CursorPart { hash_range, after, newest, through } = self.parts[index].at;
        let after = if is_planted(Bug::WatchPositionLost) { AFTER_NOW } else { after };
        let mut children = division.successors_of(hash_range);
        if is_planted(Bug::WatchSkipsSibling) {
            children.truncate(1);
        }
        let child = |id| CursorPart { hash_range: (id, division.count()), after, newest, through };
        let mut children = children.into_iter().map(|id| WatchedPart { at: child(id), pending: None });
        if let Some(first) = children.next() {
            self.parts[index] = first;
        }
        self.parts.extend(children);
    }
}

impl WatchedPart {
    /// Whether it has no position yet.
    fn is_new(&self) -> bool {
        self.at.after == AFTER_NOW
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use zerohop_placement::{KeyspaceConfig, PartitionCount};
    use zerohop_wire::Failure;
    use zerohop_wire::ids::{KeyspaceId, PartitionId};
    use zerohop_wire::messages::ChangeCause;

    use super::*;
    use crate::planted::plant;
    use crate::procedures::scripted_shell::{Script, handle, keyspace, run};

    fn part(partition: u32, of: u32, after: u64, through: u64) -> CursorPart {
        let hash_range = (PartitionId(partition), PartitionCount::new(of).unwrap());
        CursorPart { hash_range, after, newest: Timestamp(through), through: Timestamp(through) }
    }

    fn watch(parts: Vec<CursorPart>) -> Watch {
        let keyspace = keyspace(&handle(&Arc::new(Script::default())));
        let cursor = Some(WatchCursor { keyspace: keyspace.id(), parts });
        Watch::new(keyspace, WatchOptions { cursor, ..WatchOptions::default() }).unwrap()
    }

    /// The positions after a split, and the mark of two partitions.
    fn outcome() -> (Vec<CursorPart>, Option<Timestamp>) {
        let mut config = KeyspaceConfig::new("k".parse().unwrap(), 7).fitted_to(1);
        config.partitions = PartitionCount::new(2).unwrap();
        let mut parent = watch(vec![part(0, 1, 5, 3)]);
        parent.follow_split(0, &Division::new(&config));
        let positions = parent.parts.iter().map(|part| part.at).collect();
        (positions, watch(vec![part(0, 2, 5, 9), part(1, 2, 7, 4)]).next_mark())
    }

    #[test]
    fn bugs_planted_in_watches_are_found() {
        let expected = (vec![part(0, 2, 5, 3), part(1, 2, 5, 3)], Some(Timestamp(4)));
        assert_eq!(outcome(), expected);
        for bug in Bug::OF_WATCHES {
            plant(Some(bug));
            let found = outcome();
            plant(None);
            assert_ne!(found, expected, "{bug:?}");
        }
    }

    /// A watch of one partition whose requests get these answers: the next position, the timestamp through which all is returned, log indexes.
    fn answered(cursor: Option<CursorPart>, answers: &[(u64, u64, &[u64])]) -> Watch {
        let change = |index: &u64| ChangedRecord {
            key: Bytes::from_static(b"k"),
            partition: PartitionId(0),
            at: Timestamp(*index),
            before: Timestamp::ZERO,
            index: *index,
            record: None,
            cause: ChangeCause::Write,
            value: None,
        };
        let answers = answers.iter().map(|(next, through, indexes)| {
            let changes = indexes.iter().map(change).collect();
            let through = Timestamp(*through);
            Ok(Reply::Changes { next: *next, newest: through, through, changes })
        });
        let script = Script { single: Mutex::new(answers.collect()), ..Script::default() };
        let keyspace = keyspace(&handle(&Arc::new(script)));
        let cursor = cursor.map(|part| WatchCursor { keyspace: keyspace.id(), parts: vec![part] });
        Watch::new(keyspace, WatchOptions { cursor, ..WatchOptions::default() }).unwrap()
    }

    #[test]
    fn a_position_within_changes_is_behind_the_processed_ones() {
        let mut watch = answered(Some(part(0, 1, 2, 3)), &[(9, 8, &[4, 7]), (9, 9, &[])]);
        assert_eq!(watch.cursor_within(5), None);
        assert!(matches!(run(watch.next()), Ok(WatchEvent::Changes(changes)) if changes.len() == 2));
        // Not all changes up to the timestamp of the answer are processed then.
        for (index, after) in [(0, 2), (4, 4), (6, 6), (9, 9), (20, 9)] {
            let within = CursorPart { newest: Timestamp(8), ..part(0, 1, after, 3) };
            assert_eq!(watch.cursor_within(index).unwrap().parts, [within]);
        }
        assert_eq!(watch.cursor().unwrap().parts, [part(0, 1, 9, 8)]);
        assert_eq!(run(watch.next()), Ok(WatchEvent::Mark(Timestamp(9))));
        assert_eq!(watch.cursor_within(5), None);
    }

    #[test]
    fn a_watch_that_has_begun_has_a_position() {
        let mut watch = answered(None, &[(5, 4, &[]), (9, 8, &[6])]);
        assert_eq!(watch.cursor(), None);
        run(watch.begin()).unwrap();
        assert_eq!(watch.cursor().unwrap().parts, [part(0, 1, 5, 4)]);
        // It sends no other request.
        run(watch.begin()).unwrap();
        assert!(matches!(run(watch.next()), Ok(WatchEvent::Changes(_))));
    }

    #[test]
    fn a_watch_that_begins_after_a_call_loses_no_change() {
        let mut watch = answered(None, &[(9, 8, &[6])]);
        run(watch.begin()).unwrap();
        let begun = CursorPart { newest: Timestamp(8), ..part(0, 1, 5, 0) };
        assert_eq!(watch.cursor().unwrap().parts, [begun]);
    }

    #[test]
    fn a_cursor_of_another_keyspace_is_refused() {
        let keyspace = keyspace(&handle(&Arc::new(Script::default())));
        let cursor = Some(WatchCursor { keyspace: KeyspaceId(99), parts: vec![part(0, 1, 5, 3)] });
        let refused = Watch::new(keyspace, WatchOptions { cursor, ..WatchOptions::default() });
        assert_eq!(refused.map(drop), Err(Error::OtherKeyspace));
    }

    #[test]
    fn a_range_without_keys_is_refused_at_once() {
        let bounds = Failure::from(BadRequestReason::Bounds);
        for range in [KeyRange::of("n".."m"), KeyRange::of(..""), KeyRange::of("m".."")] {
            let keyspace = keyspace(&handle(&Arc::new(Script::default())));
            let refused = Watch::new(keyspace, WatchOptions { range, ..WatchOptions::default() });
            assert_eq!(refused.map(drop).unwrap_err().failure(), Some(&bounds));
        }
    }
}
