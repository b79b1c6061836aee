//! The only in-sync copy was found damaged at the start of its process, beyond the repair of single entries. No member can send
//! it a snapshot, and the missing entries may have been acknowledged. The replica reports this to every client, and continues
//! with the readable part of its log only on an operator's command.
//!
//! ```text
//!   primary alone, damaged ──operator's command: the group recovers──> reports where its log ends
//!        ^      every request: Corrupt                                      │
//!        └──a start before its next checkpoint──  continues as primary  <───┴──> follows another, installs a snapshot
//! ```
//!
//! While a process runs, its group starts to recover only on an operator's command. A primary that was damaged alone, saw that
//! recovery and is chosen again therefore has that command.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineResult};
use zerohop_wire::ids::Incarnation;

use super::limits::{DAMAGES_NAMED_MAX, POLL_US};
use super::{Context, Replica, Role};

/// The damage of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyDamage {
    /// Descriptions of the first damages that were found, with their places.
    pub named: Vec<String>,
    /// The number of all damages found; 0: the log ends before the end that its disk is known to have had, or has a gap.
    pub found: u64,
}

/// The state of damage that a start has found.
#[derive(Debug, Default)]
pub(super) struct Damage {
    found: Option<Box<CopyDamage>>,
    /// The replica was damaged alone when its group started to recover.
    awaits_operator: bool,
    /// The replica has continued without the missing entries.
    is_loss_accepted: bool,
    /// The replica still needs a checkpoint. Until then the next start finds the same damage.
    needs_checkpoint: bool,
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

    /// When it must be checked again.
    pub(super) fn due_us(&self, now_us: u64) -> u64 {
        if self.needs_checkpoint { now_us + POLL_US } else { u64::MAX }
    }
}

impl Replica {
    /// Whether this is the only in-sync copy, and its log was found damaged at the start beyond the repair of single entries.
    /// Such a replica cannot serve, and no member can send it a snapshot.
    #[must_use]
    pub fn is_damaged_sole_copy(&self) -> bool {
        self.role == Role::Primary && self.health.needs_state && self.view.in_sync.is_empty()
    }

    /// Whether this is the only in-sync copy, and cannot read all of its log. The part that it serves may be all that was
    /// acknowledged, but it cannot be copied to another member.
    #[must_use]
    pub fn is_corrupt_sole_copy(&self) -> bool {
        let is_corrupt =
            self.health.needs_state || self.health.has_corruption || self.has_unrepairable_entries();
        self.role == Role::Primary && is_corrupt && self.view.in_sync.is_empty()
    }

    /// The damage of the copy, if [`Replica::is_damaged_sole_copy`].
    #[must_use]
    pub fn sole_copy_damage(&self) -> Option<CopyDamage> {
        self.is_damaged_sole_copy().then(|| self.health.damage.found.as_deref().cloned().unwrap_or_default())
    }

    /// The damage of the copy at the time when, in this process, it continued on an operator's command.
    #[must_use]
    pub fn loss_accepted(&self) -> Option<&CopyDamage> {
        self.health.damage.found.as_deref().filter(|_| self.health.damage.is_loss_accepted)
    }

    /// Handles a new group after the one in which the replica was, or was not, damaged alone. If an operator's command has chosen
    /// the replica, it continues.
    pub(super) fn check_loss_accepted(&mut self, was_alone: bool) {
        let is_recovering = self.view.primary.incarnation == Incarnation(0)
            && self.view.primary.instance == self.this_member.instance
            && self.view.others().next().is_none();
        let has_waited = std::mem::take(&mut self.health.damage.awaits_operator);
        if is_recovering {
            self.health.damage.awaits_operator = was_alone || has_waited;
        } else if has_waited && self.is_damaged_sole_copy() {
            self.health.needs_state = false;
            self.health.damage.is_loss_accepted = true;
            self.health.damage.needs_checkpoint = true;
        }
    }

    /// Writes a checkpoint from which the next start reads the log, once the entries with which the replica continues are
    /// committed.
    pub(super) fn cover_damage<D: Disk>(&mut self, context: &mut Context<'_, D>) -> EngineResult<()> {
        if self.health.damage.needs_checkpoint
            && self.role == Role::Primary
            && self.partition.applied() >= self.lead.epoch_marker
        {
            // A checkpoint that waits for uncommitted entries is started later.
            self.health.damage.needs_checkpoint = self.partition.applied() != self.last();
            self.partition.checkpoint(context.engine)?;
        }
        Ok(())
    }

    /// The replica has installed a snapshot, and lacks nothing any more.
    pub(super) fn clear_damage(&mut self) {
        self.health.damage = Damage::default();
    }
}
