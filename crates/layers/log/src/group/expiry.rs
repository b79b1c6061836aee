//! Removes members whose time is over.
//!
//! A scan without a transaction finds them, so that heartbeats conflict with nothing while all members are alive.

use zerohop_layer_procedure::{NO_BYTE_LIMIT, OptimisticTransaction, Record, Writes};

use super::{MEMBERS_MAX, remove_members};
use crate::error::LogError;
use crate::keys::{self, RecordKey};
use crate::procedure::{LogEffect, LogEvent, LogProcedure, LogReads, LogStep, TailWait};
use crate::records::{HeartbeatRecord, MemberId};

enum ExpiryState {
    Idle,
    Scanning,
    Committing(Box<dyn LogProcedure<Output = usize> + Send>),
}

/// The removal of members whose time is over.
pub struct ExpireMembers {
    group: String,
    late: Vec<MemberId>,
    state: ExpiryState,
}

impl ExpireMembers {
    /// Removes the members of a group whose time is over.
    #[must_use]
    pub const fn new(group: String) -> Self {
        Self { group, late: Vec::new(), state: ExpiryState::Idle }
    }

    fn scan(&mut self, from: RecordKey) -> LogStep<usize> {
        self.state = ExpiryState::Scanning;
        let to = keys::end_of(&keys::heartbeats(&self.group));
        LogStep::Effect(LogEffect::Scan { from, to, limit: MEMBERS_MAX, bytes: NO_BYTE_LIMIT })
    }

    fn collect(
        &mut self,
        now: u64,
        entries: &[(RecordKey, Vec<u8>)],
        next: Option<RecordKey>,
    ) -> LogStep<usize> {
        for (key, value) in entries {
            let (Some(member), Some(heartbeat)) = (keys::member_of(key), HeartbeatRecord::decode(value))
            else {
                return LogStep::fail(LogError::Corrupt(key.clone()));
            };
            if heartbeat.until < now {
                self.late.push(member);
            }
        }
        match next {
            Some(next) => self.scan(next),
            None if self.late.is_empty() => LogStep::Done(Ok(0)),
            None => {
                let work = remove_late(self.group.clone(), std::mem::take(&mut self.late));
                self.commit(now, Box::new(work), LogEvent::Start)
            }
        }
    }

    fn commit(
        &mut self,
        now: u64,
        mut work: Box<dyn LogProcedure<Output = usize> + Send>,
        event: LogEvent,
    ) -> LogStep<usize> {
        let step = work.step(now, event);
        if matches!(step, LogStep::Effect(_)) {
            self.state = ExpiryState::Committing(work);
        }
        step
    }
}

/// Removes those of the members that sent no heartbeat meanwhile.
fn remove_late(group: String, late: Vec<MemberId>) -> impl LogProcedure<Output = usize> + Send {
    OptimisticTransaction::new(move |now: u64, reads: &mut LogReads, writes: &mut Writes| {
        let keys = late.iter().map(|id| keys::heartbeat(&group, *id));
        reads.require(keys.chain([keys::group(&group)]))?;
        let mut removed = Vec::new();
        for id in &late {
            let heartbeat = reads.get::<HeartbeatRecord>(&keys::heartbeat(&group, *id))?;
            if heartbeat.is_some_and(|heartbeat| heartbeat.until < now) {
                removed.push(*id);
            }
        }
        if !removed.is_empty() {
            remove_members(reads, writes, &group, &removed)?;
        }
        Ok(removed.len())
    })
}

impl zerohop_layer_procedure::Procedure<LogError, TailWait> for ExpireMembers {
    /// The number of members that were removed.
    type Output = usize;

    fn step(&mut self, now: u64, event: LogEvent) -> LogStep<usize> {
        match (std::mem::replace(&mut self.state, ExpiryState::Idle), event) {
            (ExpiryState::Idle, LogEvent::Start) => match keys::check_name(&self.group) {
                Ok(name) => self.scan(keys::heartbeats(name)),
                Err(error) => LogStep::fail(error),
            },
            (ExpiryState::Scanning, LogEvent::Page { entries, next }) => self.collect(now, &entries, next),
            (ExpiryState::Committing(work), event) => self.commit(now, work, event),
            (_, event) => LogStep::unexpected(&event),
        }
    }
}
