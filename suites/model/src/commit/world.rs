//! Everything that the model of the commit remembers: one transaction over two participants and a decider, readers, and what
//! was ever sent.
//!
//! Messages are never taken away: each may be lost (not looked at), late, overtaken and repeated. So what was sent is a set,
//! by attempt.

/// Participants beside the decider.
pub const PARTICIPANTS: usize = 2;
/// Attempts, from 1.
pub const ATTEMPTS: usize = 4;

/// Attempts, or entries, one bit each.
pub type Set = u8;

/// What a participant holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Prepared {
    /// Under which attempt.
    pub attempt: u8,
    /// Which of its `Prepare` entries it is.
    pub entry: u8,
}

/// An entry that is appended and not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Appended {
    /// Intents.
    Prepare(Prepared),
    /// No intents.
    Release,
    /// Done.
    Apply,
}

/// A participant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Participant {
    /// As its committed log says.
    pub held: Option<Prepared>,
    /// How often it has applied the transaction.
    pub applied: u8,
    /// It knows that it has.
    pub remembers: bool,
    /// In the log of the primary only.
    pub appended: Option<Appended>,
    /// `Prepare` entries so far.
    pub entries: u8,
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// To do it, as these entries say.
    Commit([u8; PARTICIPANTS]),
    /// Not to.
    Abort,
}

/// An attempt that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Running {
    /// Its number.
    pub attempt: u8,
    /// Along the chain.
    pub chain: bool,
    /// Who has prepared, by which entry.
    pub got: [Option<u8>; PARTICIPANTS],
}

/// The decider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Decider {
    /// Lost with the primary.
    pub running: Option<Running>,
    /// In the log of the primary only.
    pub appended: Option<Decision>,
    /// As the committed log says.
    pub decided: Option<Decision>,
    /// All have acknowledged.
    pub is_finished: bool,
    /// Who has, as this primary knows.
    pub acknowledged: [bool; PARTICIPANTS],
    /// Attempts so far.
    pub attempts: u8,
}

/// What was ever sent to, or by, a participant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sent {
    /// `Prepare`, by attempt.
    pub prepare: Set,
    /// `Release`, by attempt.
    pub release: Set,
    /// `Commit`, naming an entry.
    pub commit: Option<u8>,
    /// It is over.
    pub drop: bool,
    /// It is finished.
    pub forget: bool,
    /// `Prepared`, by attempt: the entries.
    pub prepared: [Set; ATTEMPTS],
    /// `Busy`, by attempt.
    pub busy: Set,
    /// `Applied`.
    pub applied: bool,
    /// Questions, by attempt.
    pub ask: Set,
}

/// A read of one record, somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Read {
    /// At a participant, or the decider.
    pub place: u8,
    /// Somebody had seen the new value before it was asked.
    pub is_after: bool,
    /// Whom it waits for.
    pub waits: Option<u8>,
}

/// A read of the records of both participants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pair {
    /// Somebody had seen the new value before it was asked.
    pub is_after: bool,
    /// What was read: new or old.
    pub values: [Option<bool>; PARTICIPANTS],
    /// What was confirmed.
    pub confirmed: [bool; PARTICIPANTS],
}

/// What must not have happened, noticed in the step in which it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Broken {
    /// An old value was read after a new one.
    pub is_stale: bool,
    /// One new and one old value were confirmed.
    pub is_torn: bool,
    /// A participant had nothing of what was decided, and it was not finished.
    pub is_lost: bool,
}

/// A state of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct World {
    /// The participants, in the order of the chain.
    pub participants: [Participant; PARTICIPANTS],
    /// The decider, the last of the chain.
    pub decider: Decider,
    /// See [`Sent`].
    pub sent: [Sent; PARTICIPANTS],
    /// Attempts that went along the chain.
    pub chained: Set,
    /// Somebody knows the new value.
    pub is_seen: bool,
    /// A read under way.
    pub read: Option<Read>,
    /// Another.
    pub pair: Option<Pair>,
    /// Primaries that were replaced.
    pub failovers: u8,
    /// Reads so far.
    pub reads: u8,
    /// See [`Broken`].
    pub broken: Broken,
}

impl World {
    /// The entry, or the attempt, of the intents that stand somewhere.
    #[must_use]
    pub fn stands(&self, place: usize) -> Option<u8> {
        let Some(participant) = self.participants.get(place) else {
            return self.decider.running.map(|running| running.attempt);
        };
        match participant.appended {
            Some(Appended::Prepare(prepared)) => Some(prepared.entry),
            _ => participant.held.map(|held| held.entry),
        }
    }

    /// Whether the new value is there.
    #[must_use]
    pub fn is_new(&self, place: usize) -> bool {
        match self.participants.get(place) {
            Some(participant) => participant.applied > 0,
            None => matches!(self.decider.decided, Some(Decision::Commit(_))),
        }
    }

    /// Whether nothing is left of the transaction, or it never was.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let is_free = |one: &Participant| one.held.is_none() && one.appended.is_none() && !one.remembers;
        let decider = &self.decider;
        self.participants.iter().all(is_free)
            && decider.running.is_none()
            && decider.appended.is_none()
            && (decider.is_finished || !matches!(decider.decided, Some(Decision::Commit(_))))
    }
}
