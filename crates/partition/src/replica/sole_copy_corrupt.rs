//! The only copy that counts, found damaged as its process started, beyond what single entries repair: nobody may give it a whole
//! state, and what it lacks may have been acknowledged. It says so to whoever asks, and goes on with what is whole of it on an
//! operator's word only.
//!
//! ```text
//!   primary alone, damaged ──the operator's word: the group recovers──> tells where its log ends
//!        ^      every request: Corrupt                                      │
//!        └──a start before its next checkpoint──  goes on, as a primary <──┴──> follows another, and takes all again
//! ```
//!
//! The group of a process that runs recovers on an operator's word alone: so who was damaged, saw that, and is chosen all the same has it.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineResult};
use zerohop_wire::ids::Incarnation;

use super::limits::{DAMAGES_NAMED_MAX, POLL_US};
use super::{Context, Replica, Role};

/// What a copy lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyDamage {
    /// What was found, and where: the first of them, in words.
    pub named: Vec<String>,
    /// How many were found in all; 0: its log ends before what its disk is known to have held, or has a gap.
    pub found: u64,
}

/// What is known of the damage that a start has found.
#[derive(Debug, Default)]
pub(super) struct Damage {
    found: Option<Box<CopyDamage>>,
    /// It was damaged alone when its group began to recover.
    awaits_word: bool,
    /// It went on without what it lacks.
    is_given_up: bool,
    /// Until then the next start finds the same.
    owes_checkpoint: bool,
}

impl Damage {
    pub(super) fn of_start<D: Disk>(
        engine: &mut Engine<D>,
        handle: zerohop_engine::Handle,
    ) -> EngineResult<Damage> {
        let all = engine.damage(handle)?;
        let named = all.iter().take(DAMAGES_NAMED_MAX).map(ToString::to_string).collect();
        let found = Some(Box::new(CopyDamage { named, found: all.len() as u64 }));
        Ok(Damage { found, ..Damage::default() })
    }

    /// When it is to be looked at again.
    pub(super) fn wake_us(&self, now_us: u64) -> u64 {
        if self.owes_checkpoint { now_us + POLL_US } else { u64::MAX }
    }
}

impl Replica {
    /// Whether it is the only copy that counts, and its log was found damaged as it started beyond what single entries repair: it
    /// cannot serve, and nobody may give it a whole state.
    #[must_use]
    pub fn is_damaged_alone(&self) -> bool {
        self.role == Role::Primary && self.needs_state && self.view.in_sync.is_empty()
    }

    /// Whether it is the only copy that counts, and cannot read all of its log: what it serves may be all that was acknowledged, but
    /// nobody else can be given it.
    #[must_use]
    pub fn is_corrupt_alone(&self) -> bool {
        let is_corrupt = self.needs_state || self.has_corruption || self.lacks_what_nobody_has();
        self.role == Role::Primary && is_corrupt && self.view.in_sync.is_empty()
    }

    /// What it lacks, if [`Replica::is_damaged_alone`].
    #[must_use]
    pub fn damaged_alone(&self) -> Option<CopyDamage> {
        self.is_damaged_alone().then(|| self.damage.found.as_deref().cloned().unwrap_or_default())
    }

    /// What it lacked when it went on without on an operator's word, in this process.
    #[must_use]
    pub fn given_up(&self) -> Option<&CopyDamage> {
        self.damage.found.as_deref().filter(|_| self.damage.is_given_up)
    }

    /// It is in another group than the one in which it was damaged alone, or was not. Chosen by an operator's word it goes on.
    pub(super) fn hear_of_word(&mut self, was_alone: bool) {
        let is_recovering = self.view.primary.incarnation == Incarnation(0)
            && self.view.primary.instance == self.me.instance
            && self.view.others().next().is_none();
        let has_waited = std::mem::take(&mut self.damage.awaits_word);
        if is_recovering {
            self.damage.awaits_word = was_alone || has_waited;
        } else if has_waited && self.is_damaged_alone() {
            self.needs_state = false;
            self.damage.is_given_up = true;
            self.damage.owes_checkpoint = true;
        }
    }

    /// Has a checkpoint say from where on the log is to be read, once what it goes on with is committed.
    pub(super) fn cover_damage<D: Disk>(&mut self, context: &mut Context<'_, D>) -> EngineResult<()> {
        if self.damage.owes_checkpoint && self.role == Role::Primary && self.partition.applied() >= self.mark
        {
            // One that waits for what is not committed yet is begun later.
            self.damage.owes_checkpoint = self.partition.applied() != self.last();
            self.partition.checkpoint(context.engine)?;
        }
        Ok(())
    }

    /// It takes a whole state, and lacks nothing then.
    pub(super) fn forget_damage(&mut self) {
        self.damage = Damage::default();
    }
}
