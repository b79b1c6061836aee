//! Everything that the model of the commit remembers: one transaction over two participants and a coordinator, readers, and what
//! was ever sent.
//!
//! Messages are never removed: each may be lost (not looked at), late, overtaken and repeated. So what was sent is a set,
//! by attempt.

/// Participants beside the coordinator.
pub const PARTICIPANTS: usize = 2;
/// Attempts, from 1.
pub const ATTEMPTS: usize = 4;

/// Attempts, or entries, one bit each.
pub type AttemptSet = u8;

/// What a participant holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PreparedPart {
    /// Under which attempt.
    pub attempt: u8,
    /// Which of its `Prepare` entries it is.
    pub entry: u8,
}

/// An entry that is appended and not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AppendedEntry {
    /// Intents.
    Prepare(PreparedPart),
    /// No intents.
    Release,
    /// Done.
    Apply,
}

/// A participant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Participant {
    /// As its committed log says.
    pub committed_state: Option<PreparedPart>,
    /// How often it has applied the transaction.
    pub applied: u8,
    /// It knows that it has.
    pub remembers: bool,
    /// In the log of the primary only.
    pub appended: Option<AppendedEntry>,
    /// `Prepare` entries so far.
    pub entries: u8,
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitDecision {
    /// To do it, as these entries say.
    Commit([u8; PARTICIPANTS]),
    /// Not to.
    Abort,
}

/// An attempt that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunningAttempt {
    /// Its number.
    pub attempt: u8,
    /// Along the chain.
    pub chain: bool,
    /// The participants that have prepared, by which entry.
    pub got: [Option<u8>; PARTICIPANTS],
}

/// The coordinator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Coordinator {
    /// Lost with the primary.
    pub running: Option<RunningAttempt>,
    /// In the log of the primary only.
    pub appended: Option<CommitDecision>,
    /// As the committed log says.
    pub decided: Option<CommitDecision>,
    /// All have acknowledged.
    pub is_finished: bool,
    /// Those that have, as this primary knows.
    pub acknowledged: [bool; PARTICIPANTS],
    /// Attempts so far.
    pub attempts: u8,
}

/// What was ever sent to, or by, a participant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SentMessages {
    /// `Prepare`, by attempt.
    pub prepare: AttemptSet,
    /// `Release`, by attempt.
    pub release: AttemptSet,
    /// `Commit`, naming an entry.
    pub commit: Option<u8>,
    /// It is over.
    pub drop: bool,
    /// It is finished.
    pub forget: bool,
    /// `Prepared`, by attempt: the entries.
    pub prepared: [AttemptSet; ATTEMPTS],
    /// `Busy`, by attempt.
    pub busy: AttemptSet,
    /// `Applied`.
    pub applied: bool,
    /// Questions, by attempt.
    pub queries: AttemptSet,
}

/// A read of one record, somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Read {
    /// At a participant, or the coordinator.
    pub place: u8,
    /// A reader had seen the new value before it was asked.
    pub is_after: bool,
    /// The participants that it waits for.
    pub waits: Option<u8>,
}

/// A read of the records of both participants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pair {
    /// A reader had seen the new value before it was asked.
    pub is_after: bool,
    /// What was read: new or old.
    pub values: [Option<bool>; PARTICIPANTS],
    /// What was confirmed.
    pub confirmed: [bool; PARTICIPANTS],
}

/// What must not have happened, noticed in the step in which it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CommitViolations {
    /// An old value was read after a new one.
    pub is_stale: bool,
    /// One new and one old value were confirmed.
    pub is_torn: bool,
    /// A participant had nothing of what was decided, and it was not finished.
    pub is_lost: bool,
}

/// A state of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CommitWorld {
    /// The participants, in the order of the chain.
    pub participants: [Participant; PARTICIPANTS],
    /// The coordinator, the last of the chain.
    pub coordinator: Coordinator,
    /// See [`SentMessages`].
    pub sent: [SentMessages; PARTICIPANTS],
    /// Attempts that went along the chain.
    pub chained: AttemptSet,
    /// A reader knows the new value.
    pub is_seen: bool,
    /// A read under way.
    pub read: Option<Read>,
    /// Another.
    pub pair: Option<Pair>,
    /// Primaries that were replaced.
    pub failovers: u8,
    /// Reads so far.
    pub reads: u8,
    /// See [`CommitViolations`].
    pub broken: CommitViolations,
}

impl CommitWorld {
    /// The entry, or the attempt, of the intents that stand somewhere.
    #[must_use]
    pub fn pending_intents(&self, place: usize) -> Option<u8> {
        let Some(participant) = self.participants.get(place) else {
            return self.coordinator.running.map(|running| running.attempt);
        };
        match participant.appended {
            Some(AppendedEntry::Prepare(prepared)) => Some(prepared.entry),
            _ => participant.committed_state.map(|committed| committed.entry),
        }
    }

    /// Whether the new value is there.
    #[must_use]
    pub fn is_new(&self, place: usize) -> bool {
        match self.participants.get(place) {
            Some(participant) => participant.applied > 0,
            None => matches!(self.coordinator.decided, Some(CommitDecision::Commit(_))),
        }
    }

    /// Whether nothing is left of the transaction, or it never was.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let is_free =
            |one: &Participant| one.committed_state.is_none() && one.appended.is_none() && !one.remembers;
        let coordinator = &self.coordinator;
        self.participants.iter().all(is_free)
            && coordinator.running.is_none()
            && coordinator.appended.is_none()
            && (coordinator.is_finished || !matches!(coordinator.decided, Some(CommitDecision::Commit(_))))
    }
}
