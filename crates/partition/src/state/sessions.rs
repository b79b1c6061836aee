//! Which writes of which session are done, and what they came to.

use std::collections::{BTreeMap, VecDeque};

use zerohop_wire::ids::{SessionId, Timestamp};

use crate::note::SessionNote;
use crate::outcome::Outcome;

/// Memory of one session without outcomes, and of one outcome.
const SESSION_BYTES: usize = 112;
const OUTCOME_BYTES: usize = size_of::<(u64, Outcome)>();

/// What is remembered of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Session {
    /// Its client has the answers of all below.
    pub(crate) lowest: u64,
    pub(crate) last_used_ms: u64,
    /// By sequence, none below the lowest.
    pub(crate) outcomes: VecDeque<(u64, Outcome)>,
}

/// The committed session table of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sessions {
    by_id: BTreeMap<SessionId, Session>,
    mark: Timestamp,
    bytes: usize,
}

impl Session {
    pub(crate) fn outcome(&self, sequence: u64) -> Option<&Outcome> {
        let at = self.outcomes.binary_search_by_key(&sequence, |(s, _)| *s).ok()?;
        Some(&self.outcomes[at].1)
    }

    /// Whether raising the lowest unanswered sequence would let go of an outcome.
    pub(crate) fn would_free(&self, lowest: u64) -> bool {
        self.outcomes.front().is_some_and(|(first, _)| *first < lowest)
    }

    fn bytes(&self) -> usize {
        SESSION_BYTES + self.outcomes.iter().map(|(_, o)| OUTCOME_BYTES + o.heap_bytes()).sum::<usize>()
    }
}

impl Sessions {
    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.by_id.get(&id)
    }

    /// Sessions issued before this are forgotten, unless they are here.
    pub(crate) fn mark(&self) -> Timestamp {
        self.mark
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&SessionId, &Session)> {
        self.by_id.iter()
    }

    /// Takes in what a committed entry says.
    pub(crate) fn record(&mut self, note: SessionNote, at_ms: u64) {
        let SessionNote { session: id, sequence, lowest, outcome } = note;
        let bytes = &mut self.bytes;
        let session = self.by_id.entry(id).or_insert_with(|| {
            *bytes += SESSION_BYTES;
            Session::default()
        });
        session.last_used_ms = session.last_used_ms.max(at_ms);
        session.lowest = session.lowest.max(lowest);
        while session.would_free(session.lowest)
            && let Some((_, gone)) = session.outcomes.pop_front()
        {
            *bytes -= OUTCOME_BYTES + gone.heap_bytes();
        }
        if sequence < session.lowest {
            return;
        }
        // Nearly always the last: then nothing moves.
        match session.outcomes.binary_search_by_key(&sequence, |(s, _)| *s) {
            Ok(_) => {}
            Err(at) => {
                *bytes += OUTCOME_BYTES + outcome.heap_bytes();
                session.outcomes.insert(at, (sequence, outcome));
            }
        }
    }

    /// Puts a session in as a checkpoint had it. Whether it was not there.
    pub(crate) fn restore(&mut self, id: SessionId, session: Session) -> bool {
        self.bytes += session.bytes();
        self.by_id.insert(id, session).is_none()
    }

    /// Forgets sessions and raises the mark.
    pub(crate) fn evict(&mut self, sessions: &[SessionId], mark: Timestamp) {
        for id in sessions {
            if let Some(gone) = self.by_id.remove(id) {
                self.bytes -= gone.bytes();
            }
        }
        self.mark = self.mark.max(mark);
    }

    /// Forgets all, because what the log says of them has a gap.
    pub(crate) fn forget_all(&mut self, mark: Timestamp) {
        self.by_id.clear();
        self.bytes = 0;
        self.mark = self.mark.max(mark);
    }

    /// Sessions not used since a time, and the mark that evicting them needs.
    pub(crate) fn idle(&self, since_ms: u64, most: usize) -> (Vec<SessionId>, Timestamp) {
        let idle = self.by_id.iter().filter(|(_, session)| session.last_used_ms < since_ms);
        let ids: Vec<SessionId> = idle.map(|(id, _)| *id).take(most).collect();
        let mark = ids.iter().map(|id| id.issued.next()).max().unwrap_or_default();
        (ids, mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: SessionId = SessionId { issued: Timestamp(50), nonce: 1 };

    fn note(sequence: u64, lowest: u64) -> SessionNote {
        let outcome = Outcome::Done { version: Timestamp(sequence), number: 0 };
        SessionNote { session: ID, sequence, lowest, outcome }
    }

    #[test]
    fn outcomes_are_kept_in_any_order_until_their_client_has_them() {
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

    #[test]
    fn the_first_outcome_of_a_sequence_stays() {
        let mut sessions = Sessions::default();
        sessions.record(note(1, 1), 10);
        let second = SessionNote { outcome: Outcome::NotFound, ..note(1, 1) };
        sessions.record(second, 10);
        let kept = sessions.get(ID).expect("is known").outcome(1);
        assert_eq!(kept, Some(&Outcome::Done { version: Timestamp(1), number: 0 }));
    }

    #[test]
    fn evicting_idle_sessions_raises_the_mark_above_them_and_frees_their_memory() {
        let mut sessions = Sessions::default();
        sessions.record(note(1, 1), 10);
        assert_eq!(sessions.idle(10, 9).0, []);
        let (ids, mark) = sessions.idle(11, 9);
        assert_eq!((&ids[..], mark), (&[ID][..], Timestamp(51)));
        sessions.evict(&ids, mark);
        assert_eq!((sessions.len(), sessions.bytes(), sessions.mark()), (0, 0, Timestamp(51)));
    }
}
