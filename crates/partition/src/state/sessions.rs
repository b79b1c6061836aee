//! The session table: the writes of each session that are done, and their outcomes.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

use zerohop_wire::ids::{SessionId, Timestamp};

use crate::entry_metadata::SessionOutcome;
use crate::outcome::WriteOutcome;
use crate::planted::{Bug, is_planted};

/// Memory of one session without outcomes, and of one outcome.
const SESSION_BYTES: usize = 112;
const OUTCOME_BYTES: usize = size_of::<(u64, WriteOutcome)>();

/// The record of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionRecord {
    /// Its client has the answers of all lower sequences.
    pub(crate) lowest: u64,
    pub(crate) last_used_ms: u64,
    /// Outcomes; none is below `lowest`.
    pub(crate) outcomes: Outcomes,
}

/// Outcomes by sequence. The newest is stored in place. With one write in flight at a time it is the only one, and finding it
/// touches no other memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcomes {
    newest: Option<(u64, WriteOutcome)>,
    /// The outcomes of all lower sequences, in order.
    older: VecDeque<(u64, WriteOutcome)>,
}

/// The committed session table of a partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    by_id: BTreeMap<SessionId, u32>,
    slots: Vec<Option<(SessionId, SessionRecord)>>,
    free: Vec<u32>,
    /// The slot found last. One write looks up its session several times, and each search would read memory that is in no cache.
    recent: Cell<u32>,
    session_mark: Timestamp,
    bytes: usize,
}

impl Outcomes {
    pub(crate) fn get(&self, sequence: u64) -> Option<&WriteOutcome> {
        match &self.newest {
            Some((newest, outcome)) if *newest == sequence => Some(outcome),
            Some((newest, _)) if *newest > sequence => {
                let at = self.older.binary_search_by_key(&sequence, |(s, _)| *s).ok()?;
                Some(&self.older[at].1)
            }
            _ => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.older.len() + usize::from(self.newest.is_some())
    }

    /// The outcomes in the order of their sequences.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(u64, WriteOutcome)> {
        self.older.iter().chain(&self.newest)
    }

    fn first(&self) -> Option<u64> {
        self.iter().next().map(|(sequence, _)| *sequence)
    }

    /// Adds an outcome, unless there is one. Returns whether it was added.
    pub(crate) fn add(&mut self, sequence: u64, outcome: WriteOutcome) -> bool {
        match &self.newest {
            Some((newest, _)) if *newest == sequence => false,
            Some((newest, _)) if *newest > sequence => {
                let at = self.older.binary_search_by_key(&sequence, |(s, _)| *s);
                if let Err(at) = at {
                    self.older.insert(at, (sequence, outcome));
                }
                at.is_err()
            }
            _ => {
                self.older.extend(self.newest.replace((sequence, outcome)));
                true
            }
        }
    }

    /// Removes and returns the first outcome if it is below `lowest`.
    fn take_below(&mut self, lowest: u64) -> Option<WriteOutcome> {
        if self.first()? >= lowest {
            return None;
        }
        self.older.pop_front().or_else(|| self.newest.take()).map(|(_, outcome)| outcome)
    }
}

impl SessionRecord {
    pub(crate) fn outcome(&self, sequence: u64) -> Option<&WriteOutcome> {
        self.outcomes.get(sequence)
    }

    /// Whether raising the lowest unanswered sequence would free an outcome.
    pub(crate) fn would_free(&self, lowest: u64) -> bool {
        self.outcomes.first().is_some_and(|first| first < lowest)
    }

    fn bytes(&self) -> usize {
        SESSION_BYTES + self.outcomes.iter().map(|(_, o)| OUTCOME_BYTES + o.heap_bytes()).sum::<usize>()
    }
}

impl PartialEq for Sessions {
    fn eq(&self, other: &Sessions) -> bool {
        self.session_mark == other.session_mark && self.bytes == other.bytes && self.iter().eq(other.iter())
    }
}

impl Eq for Sessions {}

impl Sessions {
    #[inline]
    pub(crate) fn get(&self, id: SessionId) -> Option<&SessionRecord> {
        if let Some(Some((recent, session))) = self.slots.get(self.recent.get() as usize)
            && *recent == id
        {
            return Some(session);
        }
        let slot = *self.by_id.get(&id)?;
        self.recent.set(slot);
        self.slots[slot as usize].as_ref().map(|(_, session)| session)
    }

    /// Sessions issued before this session mark are forgotten, unless they are in the table.
    pub(crate) fn session_mark(&self) -> Timestamp {
        self.session_mark
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The memory of the table in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All sessions by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&SessionId, &SessionRecord)> {
        let slot = |slot: &u32| self.slots[*slot as usize].as_ref();
        self.by_id.values().filter_map(slot).map(|(id, session)| (id, session))
    }

    /// Records the outcome in a committed entry.
    pub(crate) fn record(&mut self, note: SessionOutcome, at_ms: u64) {
        let SessionOutcome { session: id, sequence, lowest, outcome } = note;
        if self.get(id).is_none() {
            self.put(id, SessionRecord::default());
        }
        let bytes = &mut self.bytes;
        let Some(Some((_, session))) = self.slots.get_mut(self.recent.get() as usize) else { return };
        session.last_used_ms = session.last_used_ms.max(at_ms);
        session.lowest = session.lowest.max(lowest);
        let lets_go_below = session.lowest + u64::from(is_planted(Bug::OutcomeDroppedEarly));
        while let Some(gone) = session.outcomes.take_below(lets_go_below) {
            *bytes -= OUTCOME_BYTES + gone.heap_bytes();
        }
        let heap_bytes = outcome.heap_bytes();
        if sequence >= session.lowest && session.outcomes.add(sequence, outcome) {
            *bytes += OUTCOME_BYTES + heap_bytes;
        }
    }

    /// Restores a session from a checkpoint. Returns whether it was not in the table.
    pub(crate) fn restore(&mut self, id: SessionId, session: SessionRecord) -> bool {
        let is_new = !self.by_id.contains_key(&id);
        if is_new {
            self.put(id, session);
        }
        is_new
    }

    /// Forgets sessions and raises the session mark.
    pub(crate) fn evict(&mut self, sessions: &[SessionId], mark: Timestamp) {
        for id in sessions {
            let Some(slot) = self.by_id.remove(id) else { continue };
            if let Some((_, gone)) = self.slots[slot as usize].take() {
                self.bytes -= gone.bytes();
            }
            self.free.push(slot);
        }
        self.session_mark = self.session_mark.max(mark);
    }

    /// Forgets all sessions, because the log has a gap in their entries.
    pub(crate) fn clear(&mut self, mark: Timestamp) {
        *self = Sessions { session_mark: self.session_mark.max(mark), ..Sessions::default() };
    }

    /// Sessions not used since a time, and the session mark that evicting them needs.
    pub(crate) fn idle(&self, since_ms: u64, most: usize) -> (Vec<SessionId>, Timestamp) {
        let idle = self.iter().filter(|(_, session)| session.last_used_ms < since_ms);
        let ids: Vec<SessionId> = idle.map(|(id, _)| *id).take(most).collect();
        let mark = ids.iter().map(|id| id.issued.next()).max().unwrap_or_default();
        (ids, mark)
    }

    /// Adds a session that is not in the table.
    fn put(&mut self, id: SessionId, session: SessionRecord) {
        self.bytes += session.bytes();
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                // The number is bounded far below by `SESSIONS_MAX`.
                (self.slots.len() - 1) as u32
            }
        };
        self.slots[slot as usize] = Some((id, session));
        self.by_id.insert(id, slot);
        self.recent.set(slot);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: SessionId = SessionId { issued: Timestamp(50), nonce: 1 };

    fn note(sequence: u64, lowest: u64) -> SessionOutcome {
        let outcome = WriteOutcome::Done { version: Timestamp(sequence), number: 0 };
        SessionOutcome { session: ID, sequence, lowest, outcome }
    }

    #[test]
    fn outcomes_are_kept_until_confirmed() {
        let mut sessions = Sessions::default();
        for sequence in [3, 1, 4, 2] {
            sessions.record(note(sequence, 1), 10);
        }
        let session = sessions.get(ID).expect("is known");
        assert!((1..=4).all(|s| session.outcome(s).is_some()) && session.outcome(5).is_none());
        sessions.record(note(5, 4), 20);
        let session = sessions.get(ID).expect("is known");
        assert_eq!((session.lowest, session.last_used_ms), (4, 20));
        assert!(session.outcome(3).is_none() && session.outcome(4).is_some() && session.outcome(5).is_some());
        assert!(session.would_free(5) && !session.would_free(4));
    }

    proptest! {
        #[test]
        fn outcomes_are_as_in_a_plain_map(
            steps in prop::collection::vec((1..20u64, 0..20u64, any::<bool>()), 0..60),
        ) {
            let (mut outcomes, mut model) = (Outcomes::default(), BTreeMap::new());
            for (sequence, lowest, takes) in steps {
                let outcome = WriteOutcome::Done { version: Timestamp(sequence), number: lowest };
                let is_new = !model.contains_key(&sequence);
                prop_assert_eq!(outcomes.add(sequence, outcome.clone()), is_new);
                model.entry(sequence).or_insert(outcome);
                while takes && let Some(gone) = outcomes.take_below(lowest) {
                    prop_assert_eq!(model.pop_first().map(|(_, outcome)| outcome), Some(gone));
                }
                prop_assert!(!takes || model.keys().all(|sequence| *sequence >= lowest));
                let retained: Vec<_> = outcomes.iter().cloned().collect();
                prop_assert_eq!(retained, model.clone().into_iter().collect::<Vec<_>>());
                prop_assert_eq!(outcomes.len(), model.len());
                for sequence in 0..21 {
                    prop_assert_eq!(outcomes.get(sequence), model.get(&sequence));
                }
            }
        }
    }

    #[test]
    fn sessions_are_found_by_id() {
        let mut sessions = Sessions::default();
        let id = |nonce: u64| SessionId { issued: Timestamp(50), nonce };
        for nonce in 0..50 {
            sessions.record(SessionOutcome { session: id(nonce), ..note(nonce + 1, 1) }, 10);
        }
        let gone: Vec<SessionId> = (0..50).filter(|nonce| nonce % 3 == 0).map(id).collect();
        sessions.evict(&gone, Timestamp(1));
        for nonce in 100..110 {
            sessions.record(SessionOutcome { session: id(nonce), ..note(nonce + 1, 1) }, 10);
        }
        for nonce in (0..50).chain(100..110) {
            let found = sessions.get(id(nonce)).is_some_and(|found| found.outcome(nonce + 1).is_some());
            assert_eq!(found, !gone.contains(&id(nonce)), "{nonce}");
        }
        assert!(sessions.iter().map(|(id, _)| *id).is_sorted());
    }

    #[test]
    fn the_first_outcome_of_a_sequence_stays() {
        let mut sessions = Sessions::default();
        sessions.record(note(1, 1), 10);
        let second = SessionOutcome { outcome: WriteOutcome::NotFound, ..note(1, 1) };
        sessions.record(second, 10);
        let kept = sessions.get(ID).expect("is known").outcome(1);
        assert_eq!(kept, Some(&WriteOutcome::Done { version: Timestamp(1), number: 0 }));
    }

    #[test]
    fn evicting_idle_sessions_raises_the_session_mark() {
        let mut sessions = Sessions::default();
        sessions.record(note(1, 1), 10);
        assert_eq!(sessions.idle(10, 9).0, []);
        let (ids, mark) = sessions.idle(11, 9);
        assert_eq!((&ids[..], mark), (&[ID][..], Timestamp(51)));
        sessions.evict(&ids, mark);
        assert_eq!((sessions.len(), sessions.bytes(), sessions.session_mark()), (0, 0, Timestamp(51)));
    }
}
