//! A whole state for a member that the log cannot bring up: the entries that the log still has, then the state.
//!
//! Parts go one at a time, each acknowledged, so that a lost one is sent again and nothing is kept but the present one.

use zerohop_engine::disk::Disk;
use zerohop_engine::{Engine, EngineResult};
use zerohop_wire::Many;
use zerohop_wire::ids::LogIndex;
use zerohop_wire::messages::{Call, EntryName, LogEntry, Member, Part, Report};

use super::limits::{
    MESSAGE_BYTES, MESSAGE_ENTRIES, PART_INDEXES_MAX, RESEND_US, SENDING_US, STATE_PART_BYTES, TAKING_US,
};
use super::primary::{Packed, Unsent, name_at, push_entry};
use super::stream::Stream;
use super::{Context, Effects, Replica, Role};
use crate::planted::{Bug, is_planted};

/// What is being sent to one member.
#[derive(Debug)]
pub(super) struct Sending {
    as_of: EntryName,
    /// The next log index to be looked at.
    next: u64,
    /// The part under way, and where it ends.
    part: u32,
    under_way: Option<UnderWay>,
    state: Vec<u8>,
    state_at: usize,
    sent_us: u64,
    /// When a part was acknowledged last.
    grew_us: u64,
}

#[derive(Debug)]
enum UnderWay {
    Entries { count: u32, bytes: Vec<u8> },
    State { end: usize },
}

/// What is being taken.
#[derive(Debug)]
pub(super) struct Taking {
    as_of: EntryName,
    /// Parts held.
    parts: u32,
    state: Vec<u8>,
    is_installed: bool,
    /// When a part was taken last.
    grew_us: u64,
}

impl Taking {
    /// When it is given up, unless all is there.
    pub(super) fn ends_us(&self) -> u64 {
        if self.is_installed { u64::MAX } else { self.grew_us + TAKING_US }
    }
}

impl Sending {
    /// When it has something to do.
    pub(super) fn wake_us(&self) -> u64 {
        if self.under_way.is_some() { self.sent_us + RESEND_US } else { 0 }
    }
}

impl Replica {
    pub(super) fn begin_state<D: Disk>(&mut self, context: &mut Context<'_, D>, stream: &mut Stream) {
        let applied = self.partition.applied();
        let name = name_at(context.engine, self.partition.handle(), applied);
        let Ok(Some(as_of)) = name else { return };
        stream.is_found = false;
        stream.sending = Some(Sending {
            as_of,
            next: 1,
            part: 0,
            under_way: None,
            state: self.partition.state().encode(),
            state_at: 0,
            sent_us: 0,
            grew_us: context.now_us,
        });
    }

    pub(super) fn send_state<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        stream: &mut Stream,
        effects: &mut dyn Effects,
    ) -> EngineResult<()> {
        let Some(sending) = &mut stream.sending else { return Ok(()) };
        if context.now_us >= sending.grew_us + SENDING_US {
            // Whoever takes it has gone. It says so itself when it is back.
            stream.sending = None;
            return Ok(());
        }
        if sending.under_way.is_some() && context.now_us < sending.sent_us + RESEND_US {
            return Ok(());
        }
        if sending.under_way.is_none() && sending.next <= sending.as_of.index.0 {
            let mut packed = Packed { count: 0, bytes: Vec::new() };
            for _ in 0..PART_INDEXES_MAX {
                let is_full = packed.count as usize == MESSAGE_ENTRIES || packed.bytes.len() >= MESSAGE_BYTES;
                if sending.next > sending.as_of.index.0 || is_full {
                    break;
                }
                match push_entry(context.engine, self.partition.handle(), sending.next, &mut packed)? {
                    Ok(()) | Err(Unsent::Gap) => sending.next += 1,
                    Err(Unsent::Rot) => {
                        let index = sending.next;
                        return self.not_sent(context, stream, (index, Unsent::Rot));
                    }
                }
            }
            sending.under_way = Some(UnderWay::Entries { count: packed.count, bytes: packed.bytes });
        }
        if sending.under_way.is_none() {
            let end = sending.state.len().min(sending.state_at + STATE_PART_BYTES);
            sending.under_way = Some(UnderWay::State { end });
        }
        let holds = match &sending.under_way {
            Some(UnderWay::Entries { count, bytes }) => match Many::packed(*count, bytes) {
                Ok(entries) => Part::Entries(entries),
                Err(_) => return Ok(()),
            },
            Some(UnderWay::State { end }) => {
                let bytes = &sending.state[sending.state_at..*end];
                Part::State { is_last: *end == sending.state.len(), bytes }
            }
            None => return Ok(()),
        };
        let call = Call::StatePart { as_of: sending.as_of, part: sending.part, holds };
        effects.send(stream.member, self.view.epoch, &call);
        sending.sent_us = context.now_us;
        Ok(())
    }

    pub(super) fn take_state_ack<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        from: Member,
        (as_of, parts): (EntryName, u32),
        effects: &mut dyn Effects,
    ) -> EngineResult<()> {
        let Some(at) = self.streams.iter().position(|stream| stream.member == from) else { return Ok(()) };
        let mut stream = self.streams.swap_remove(at);
        if parts == 0 && stream.sending.as_ref().is_some_and(|sending| sending.part > 0) {
            self.begin_state(context, &mut stream);
        }
        if let Some(sending) = &mut stream.sending
            && sending.as_of == as_of
            && parts == sending.part + 1
        {
            let is_done = match sending.under_way.take() {
                Some(UnderWay::State { end }) => {
                    sending.state_at = end;
                    end == sending.state.len()
                }
                _ => false,
            };
            sending.part = parts;
            sending.grew_us = context.now_us;
            if is_done {
                stream.sending = None;
                stream.next = as_of.index.0 + 1;
                stream.is_found = true;
                stream.matched = 0;
                stream.held(as_of.index.0, 0, context.now_us);
                stream.next = as_of.index.0 + 1;
                stream.sent_us = 0;
            }
        }
        let result = self.send_state(context, &mut stream, effects);
        self.streams.push(stream);
        result
    }

    /// While a state is sent, nothing of the log goes: an entry that is sent, and what removed it and is not sent yet, would go
    /// together, and the receiver would be left with the one.
    pub(super) fn hold_log<D: Disk>(&mut self, engine: &mut Engine<D>) -> EngineResult<()> {
        let holds = self.streams.iter().any(|stream| stream.sending.is_some());
        if holds != self.holds_log && !is_planted(Bug::LogNotHeld) {
            self.holds_log = holds;
            engine.hold_compaction(self.partition.handle(), holds)?;
        }
        Ok(())
    }

    /// A part of the primary's whole state.
    pub(super) fn take_part<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        as_of: EntryName,
        (part, holds): (u32, &Part<'_>),
        effects: &mut dyn Effects,
    ) -> EngineResult<()> {
        if !matches!(self.role, Role::InSync | Role::Follower) {
            return Ok(());
        }
        let has_it = self.matched.is_some_and(|matched| matched >= as_of.index.0);
        if self.taking.is_none() && !self.needs_state && !self.has_rot && has_it {
            // The answer to the last part was lost, or this is an old copy.
            let parts = part + 1;
            effects.send(self.view.primary, self.view.epoch, &Call::StateAck { as_of, parts });
            return Ok(());
        }
        if self.taking.is_none() && part > 0 {
            effects.send(self.view.primary, self.view.epoch, &Call::StateAck { as_of, parts: 0 });
            return Ok(());
        }
        if self.role == Role::InSync {
            // What it has may be all that there is of something acknowledged: first it must count no more.
            effects.send(self.view.primary, self.view.epoch, &Call::ReplicateAck(Report::NeedsState));
            return Ok(());
        }
        let is_next =
            self.taking.as_ref().is_some_and(|taking| taking.as_of == as_of && taking.parts == part);
        if !is_next && part == 0 && self.taking.as_ref().is_none_or(|taking| taking.as_of != as_of) {
            self.needs_state = true;
            self.matched = None;
            self.told_durable = 0;
            self.mending.begin_anew(true);
            self.partition.wipe(context.engine, (self.id, self.options))?;
            self.holds_log = false;
            let grew_us = context.now_us;
            self.taking = Some(Taking { as_of, parts: 0, state: Vec::new(), is_installed: false, grew_us });
        } else if !is_next {
            return self.answer_part(context, as_of, effects);
        }
        match holds {
            Part::Entries(entries) => {
                for entry in entries.iter() {
                    self.take_sparse(context, &entry)?;
                }
            }
            Part::State { is_last, bytes } => {
                let Some(taking) = &mut self.taking else { return Ok(()) };
                taking.state.extend_from_slice(bytes);
                if *is_last {
                    let state = std::mem::take(&mut taking.state);
                    taking.is_installed = true;
                    self.partition.fill(context.engine, as_of.epoch, as_of.index.0)?;
                    if self.partition.install(context.engine, &state).is_err() {
                        self.taking = None;
                        return Ok(());
                    }
                    self.counts.states_taken += 1;
                    self.partition.checkpoint(context.engine)?;
                }
            }
        }
        if let Some(taking) = &mut self.taking {
            taking.parts = part + 1;
            taking.grew_us = context.now_us;
        }
        self.answer_part(context, as_of, effects)
    }

    /// Says what it has of a state. The last part only once the state survives a restart: the log does not have it.
    fn answer_part<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        as_of: EntryName,
        effects: &mut dyn Effects,
    ) -> EngineResult<()> {
        let Some(taking) = self.taking.as_ref().filter(|taking| taking.as_of == as_of) else { return Ok(()) };
        let mut parts = taking.parts;
        if taking.is_installed {
            // There is no checkpoint of nothing, and none is needed: an empty log is the whole of it.
            let reaches_disk = self.partition.reaches_disk() && as_of.index.0 > 0;
            let stats = context.engine.partition_stats(self.partition.handle())?;
            if reaches_disk && stats.checkpoint_bytes == 0 {
                parts -= 1;
                self.partition.checkpoint(context.engine)?;
            } else {
                self.needs_state = false;
                self.has_rot = false;
                self.is_intact = true;
                self.matched = Some(as_of.index.0);
                self.taking = None;
            }
        }
        if parts > 0 {
            effects.send(self.view.primary, self.view.epoch, &Call::StateAck { as_of, parts });
        }
        Ok(())
    }

    fn take_sparse<D: Disk>(
        &mut self,
        context: &mut Context<'_, D>,
        entry: &LogEntry<'_>,
    ) -> EngineResult<()> {
        let LogEntry { name: EntryName { epoch, index: LogIndex(index) }, .. } = *entry;
        if index > self.last() + 1 {
            // Epochs must not fall: those of the gap are not known, and nobody asks for them.
            let before = self.partition.last_name().0.max(1);
            self.partition.fill(context.engine, before, index - 1)?;
        }
        let Some(kind) = zerohop_engine::Kind::from_u8(entry.kind) else { return Ok(()) };
        let (flags, timestamp) = (entry.flags, entry.timestamp.0);
        let meta = zerohop_engine::Meta { kind, flags, epoch, index, timestamp };
        self.partition.receive(context.engine, &meta, entry.key, entry.payload)
    }
}
