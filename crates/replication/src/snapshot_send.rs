//! Sends a snapshot to a member that the log cannot bring up to date, or that has no data. The segments of this log come first,
//! then the changes for readers that watch the keyspace, and the state beside the records.
//!
//! ```text
//!   acked            next
//!     |─ in flight ───|── not sent: read when there is room ──|─ state ─|
//!     └ back to here, if nothing is acknowledged for RESEND_STATE_US
//! ```
//!
//! Many parts are in flight at a time. A part that must be sent again is read again: only the start of each part is kept.

use std::collections::VecDeque;

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineResult, LogRun};
use zerohop_wire::messages::{EntryName, Member, PeerBody, StatePart};

use super::follower_progress::Stream;
use super::limits::{BULK_SEGMENTS, RESEND_STATE_US, SENDING_US, STATE_PART_BYTES, STATE_STEP_BYTES};
use super::primary::{UnsendableEntry, name_at};
use super::snapshot_progress::{
    CopyProgress, SendPosition, SendWindow, SnapshotSend, StateSections, UnacknowledgedPart,
};
use super::{Context, Replica, ReplicaEffects};
use zerohop_partition::planted::{Bug, is_planted};

impl Replica {
    pub(super) fn begin_state<D: Disk>(&mut self, context: &mut Context<'_, D>, stream: &mut Stream) {
        let applied = self.partition.applied();
        let handle = self.partition.handle();
        let Ok(Some(as_of)) = name_at(context.engine, handle, applied) else { return };
        let history = self.partition.encoded_history();
        let sections = StateSections { history, state: self.partition.state().encode() };
        let log_bytes = context.engine.run_bytes(handle, applied).unwrap_or(0);
        self.sending.attempts = context.now_us.max(self.sending.attempts + 1);
        stream.is_found = false;
        stream.sending = Some(SnapshotSend {
            as_of,
            attempt: self.sending.attempts,
            at: SendPosition::default(),
            next: 0,
            acked: 0,
            under_way: VecDeque::new(),
            under_way_bytes: 0,
            window: SendWindow::default(),
            total_bytes: log_bytes + sections.bytes(),
            sections,
            rewound_us: context.now_us,
            part_acknowledged_us: context.now_us,
            sent_bytes: 0,
            buffer: Vec::new(),
        });
    }

    /// Whether a member without data is better sent segments than single entries: the log has enough complete segments.
    pub(super) fn is_bulk<D: Disk>(&self, context: &mut Context<'_, D>, member: Member) -> bool {
        let stats = context.engine.partition_stats(self.partition.handle());
        self.partition.applied() > 0
            && self.view.followers.contains(&member)
            && stats.is_ok_and(|stats| stats.log.segments >= BULK_SEGMENTS)
    }

    /// Sends parts as long as the window has room.
    pub(super) fn send_state<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        stream: &mut Stream,
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let Some(sending) = &mut stream.sending else { return Ok(()) };
        let now_us = context.now_us;
        if now_us >= sending.part_acknowledged_us + SENDING_US {
            // The receiver has gone. It reports by itself when it is back.
            stream.sending = None;
            return Ok(());
        }
        let since_us = sending.part_acknowledged_us.max(sending.rewound_us);
        if !sending.under_way.is_empty() && now_us >= since_us + RESEND_STATE_US {
            sending.rewind(now_us);
        }
        let mut left = STATE_STEP_BYTES;
        while sending.may_send_part() && left > 0 && self.sending.copy_allowance > 0 {
            let begins = sending.at;
            let (as_of, attempt, part) = (sending.as_of, sending.attempt, sending.next);
            let holds = match self.read_part(context.engine, sending)? {
                Ok(holds) => holds,
                Err(PartError::Nothing) => continue,
                Err(PartError::Corrupt { index }) => {
                    sending.at = begins;
                    return self.not_sent(context, stream, (index, UnsendableEntry::Corruption));
                }
                Err(PartError::Replaced) => {
                    self.begin_state(context, stream);
                    return Ok(());
                }
            };
            let bytes = match holds {
                StatePart::Log { bytes, .. }
                | StatePart::History { bytes }
                | StatePart::State { bytes, .. } => bytes.len().max(1),
            };
            effects.send(
                stream.member,
                self.view.epoch,
                &PeerBody::StatePart { as_of, attempt, part, cursor: &[], contents: holds },
            );
            sending.under_way.push_back(UnacknowledgedPart { begins, bytes });
            sending.under_way_bytes += bytes;
            sending.next += 1;
            left = left.saturating_sub(bytes);
            self.sending.copy_allowance = self.sending.copy_allowance.saturating_sub(bytes as u64);
            self.sending.copied_bytes += bytes as u64;
        }
        Ok(())
    }

    /// Reads the next part and advances the position behind it.
    fn read_part<'s, D: Disk>(
        &self,
        engine: &mut Engine<D>,
        sending: &'s mut SnapshotSend,
    ) -> EngineResult<Result<StatePart<'s>, PartError>> {
        let SnapshotSend { as_of, at, sections, buffer, .. } = sending;
        if !at.is_log_sent {
            let upto = (as_of.index.0, STATE_PART_BYTES);
            return Ok(match engine.read_run(self.partition.handle(), &mut at.log, upto, buffer)? {
                LogRun::Bytes { begins } => Ok(StatePart::Log { begins, bytes: buffer }),
                LogRun::Corrupt { index } => Err(PartError::Corrupt { index }),
                LogRun::Replaced => Err(PartError::Replaced),
                LogRun::End => {
                    at.is_log_sent = true;
                    Err(PartError::Nothing)
                }
            });
        }
        Ok(Ok(sections.next_part(at, STATE_PART_BYTES)))
    }

    pub(super) fn handle_snapshot_ack<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        from: Member,
        (as_of, attempt, parts): (EntryName, u64, u32),
        effects: &mut dyn ReplicaEffects,
    ) -> EngineResult<()> {
        let Some(at) = self.lead.streams.iter().position(|stream| stream.member == from) else {
            return Ok(());
        };
        let mut stream = self.lead.streams.swap_remove(at);
        if let Some(sending) = &mut stream.sending
            && (sending.as_of, sending.attempt) == (as_of, attempt)
            && parts <= sending.next
        {
            if parts == 0 && sending.acked > 0 {
                self.begin_state(context, &mut stream);
            } else {
                sending.acknowledged(parts, context.now_us);
                if sending.at.is_all_sent && sending.under_way.is_empty() {
                    stream.sending = None;
                    stream.next = as_of.index.0 + 1;
                    stream.is_found = true;
                    stream.matched = 0;
                    stream.handle_report(as_of.index.0, 0, context.now_us);
                    stream.next = as_of.index.0 + 1;
                    stream.sent_us = 0;
                }
            }
        }
        let result = self.send_state(context, &mut stream, effects);
        self.lead.streams.push(stream);
        result
    }

    /// Holds compaction while a snapshot is sent. Otherwise compaction could drop an entry already sent together with the entry
    /// that removed it. The receiver would keep the first without the second.
    pub(super) fn pause_compaction<D: Disk>(&mut self, engine: &mut Engine<D>) -> EngineResult<()> {
        let holds = self.lead.streams.iter().any(|stream| stream.sending.is_some());
        if holds != self.sending.compaction_on_hold && !is_planted(Bug::LogCompactedDuringInstall) {
            self.sending.compaction_on_hold = holds;
            engine.pause_compaction(self.partition.handle(), holds)?;
        }
        Ok(())
    }

    /// The snapshots that it is sending.
    pub fn copies(&self) -> impl Iterator<Item = CopyProgress> + '_ {
        self.lead.streams.iter().filter_map(|stream| {
            let sending = stream.sending.as_ref()?;
            let SnapshotSend { sent_bytes, total_bytes, .. } = *sending;
            Some(CopyProgress { to: stream.member, done_bytes: sent_bytes.min(total_bytes), total_bytes })
        })
    }

    /// Sets the snapshot bytes that the replica may send until the next call. The owner of several replicas divides the total
    /// among them.
    pub(super) fn set_copy_allowance(&mut self, bytes: u64) {
        self.sending.copy_allowance = bytes;
    }

    /// The snapshot bytes that were sent since the last call.
    pub(super) fn take_copied_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.sending.copied_bytes)
    }
}

/// Why there is no part.
enum PartError {
    /// The log is at its end.
    Nothing,
    Corrupt {
        index: u64,
    },
    /// The segment that was being read is gone, so the snapshot starts again.
    Replaced,
}
