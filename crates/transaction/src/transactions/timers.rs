//! What is done when nothing comes.

use std::collections::BTreeMap;

use zerohop_wire::ids::LogIndex;

use super::{Stage, Transactions, send};
use crate::effect::Effect;
use crate::entry::Entry;
use crate::host::Host;
use crate::id::{Durability, Floor, Place, TransactionId};
use crate::limits::{ASK_US, FLOORS_US, FORGET_ASK_US, RESEND_US};
use crate::message::What;
use crate::reason::Reason;
use crate::time::Time;

impl Transactions {
    /// Time has passed: overdue messages are sent again, questions asked, transactions that take too long aborted, what may
    /// be forgotten forgotten. Goes through everything that is under way: to be called some times a second.
    pub fn tick(&mut self, now: Time, host: &mut impl Host, effects: &mut Vec<Effect>) {
        self.tick_participant(now, effects);
        self.tick_decider(now, effects);
        self.tick_staged(now, effects);
        self.pump(now, host, effects);
    }

    fn tick_participant(&mut self, now: Time, effects: &mut Vec<Effect>) {
        for (id, held) in &mut self.held {
            let waits = matches!(held.stage, Stage::Prepared(_)) && held.decided.is_none();
            if waits && held.ask_at <= now {
                held.ask_at = now.after_us(ASK_US);
                let what = What::Ask { attempt: held.attempt };
                let from = if self.span.has(held.place) { held.place } else { self.span.place() };
                effects.push(send(id.decider, from, *id, what));
            }
        }
        // Those who queue too: a row of them that their deciders have forgotten would else take its turns one by one.
        for (id, queued) in &mut self.queued {
            if queued.ask_at <= now
                && let What::Prepare { attempt, .. } = &queued.message.what
            {
                queued.ask_at = now.after_us(ASK_US);
                effects.push(send(id.decider, queued.message.to, *id, What::Ask { attempt: *attempt }));
            }
        }
        if self.floors_at <= now {
            self.floors_at = now.after_us(FLOORS_US);
            self.log_floors(effects);
        }
        self.ask_to_forget(now, effects);
    }

    /// What deciders have told, as one entry for all of them: they are as many as there are partitions.
    fn log_floors(&mut self, effects: &mut Vec<Effect>) {
        let floors = std::mem::take(&mut self.floors).into_iter();
        let floors: Vec<Floor> = floors
            .map(|(span, index)| Floor { span, index })
            .filter(|floor| self.state.is_below(*floor))
            .collect();
        if !floors.is_empty() {
            let entry = Entry::ForgetAll { floors };
            effects.push(Effect::Append { entry, durability: Durability::Memory });
        }
    }

    /// Asks deciders about what was applied long ago, each about the newest: its answer tells of all before.
    fn ask_to_forget(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let mut newest: BTreeMap<Place, (LogIndex, TransactionId)> = BTreeMap::new();
        while let Some((_, id)) = self.forget_at.front().copied().filter(|(at, _)| *at <= now) {
            self.forget_at.pop_front();
            let Some((decision, _)) = self.state.applied.get(&id) else { continue };
            self.forget_at.push_back((now.after_us(FORGET_ASK_US), id));
            let known = newest.entry(id.decider).or_default();
            *known = (*decision, id).max(*known);
        }
        let (from, span) = (self.span.place(), self.span);
        for (decider, (decision, id)) in newest {
            effects.push(send(decider, from, id, What::Applied { decision, span }));
        }
    }

    fn tick_decider(&mut self, now: Time, effects: &mut Vec<Effect>) {
        for id in std::mem::take(&mut self.of_sisters) {
            // Nobody asks here what became of it.
            effects.push(Effect::Append { entry: Entry::Finish { id }, durability: Durability::Memory });
        }
        let late: Vec<TransactionId> =
            self.running.iter().filter(|(_, one)| one.ends_at <= now).map(|(id, _)| *id).collect();
        for id in late {
            self.abort(id, (id.decider, Reason::TimedOut.into()), effects);
        }
        let mut ask = Vec::new();
        for (id, running) in &mut self.running {
            if running.resend_at <= now {
                running.resend_at = now.after_us(RESEND_US);
                ask.push(*id);
            }
        }
        ask.into_iter().for_each(|id| self.ask_others(id, effects));
        let mut tell = Vec::new();
        for (id, telling) in &mut self.telling {
            if telling.resend_at <= now && !telling.is_finishing {
                telling.resend_at = now.after_us(RESEND_US);
                tell.push(*id);
            }
        }
        tell.into_iter().for_each(|id| self.tell(id, effects));
        let mut release = Vec::new();
        for (id, releasing) in &mut self.releasing {
            if releasing.resend_at <= now {
                releasing.resend_at = now.after_us(RESEND_US);
                release.push(*id);
            }
        }
        release.into_iter().for_each(|id| self.say_released_again(id, effects));
    }
}
