//! Producers and consumers. They repeat what was not answered.

use zerohop_base::random::Random;
use zerohop_layer_queue::{
    ConsumerId, ListDead, MessageId, NewMessage, PopOutcome, PopQueue, PopRequest, ProducerId, PushOutcome,
    PushRequest, QueueError, Receipt, SettleAction, SettleOutcome, SettleRequest, Sweep, purge_dead, push,
    redrive_dead, settle,
};

use crate::machine::ProcedureRun;
use crate::model::{MessageState, NAMES, TRIES};
use crate::world::{Intent, PARTITION, QueueWorld};

const RETRIED: &str = "an error that is not retried";

fn is_retried(error: &QueueError) -> bool {
    matches!(error, QueueError::Unavailable(_) | QueueError::Busy)
}

/// A producer.
pub(crate) struct Producer {
    pub(crate) id: ProducerId,
    next: u64,
    active: Option<(PushRequest, ProcedureRun<PushOutcome>)>,
    pub(crate) pushed: u64,
    pub(crate) duplicates: u64,
    pub(crate) repeats: u64,
}

impl Producer {
    pub(crate) fn new(number: u8) -> Self {
        Self { id: ProducerId([number; 16]), next: 1, active: None, pushed: 0, duplicates: 0, repeats: 0 }
    }

    fn run(now: u64, request: PushRequest) -> (PushRequest, ProcedureRun<PushOutcome>) {
        (request.clone(), ProcedureRun::new(now, push(request.clone()), Intent::Push(request)))
    }

    pub(crate) fn step(&mut self, world: &mut QueueWorld, random: &mut Random) -> Result<(), String> {
        let Some((request, run)) = &mut self.active else {
            let first = self.next;
            let messages: Vec<NewMessage> = (0..1 + random.below(3))
                .map(|index| NewMessage {
                    value: format!("{:02x} {}", self.id.0[0], first + index).into_bytes(),
                    group: random.chance(1, 2).then(|| format!("group {}", random.below(3))),
                    name: random.chance(1, 4).then(|| format!("name {}", random.below(6))),
                    delay: if random.chance(1, 5) { 1 + random.below(120) } else { 0 },
                })
                .collect();
            self.next += messages.len() as u64;
            let request = PushRequest {
                partition: PARTITION,
                producer: self.id,
                first,
                messages,
                names: NAMES,
                is_remembered: true,
            };
            self.active = Some(Self::run(world.now, request));
            return Ok(());
        };
        let Some(result) = run.advance(world, random)? else { return Ok(()) };
        match result {
            Ok(outcome) => {
                self.pushed += (request.messages.len() - outcome.duplicates) as u64;
                self.duplicates += outcome.duplicates as u64;
                check_push(world, request, &outcome)?;
                self.active = None;
                Ok(())
            }
            Err(error) if is_retried(&error) => {
                self.repeats += 1;
                self.active = Some(Self::run(world.now, request.clone()));
                Ok(())
            }
            Err(error) => Err(format!("a push has {RETRIED}: {error}")),
        }
    }

    /// Ends its push.
    pub(crate) fn finish(&mut self, world: &mut QueueWorld, random: &mut Random) -> Result<(), String> {
        for _ in 0..10_000 {
            if self.active.is_none() {
                return Ok(());
            }
            world.now += 1;
            self.step(world, random)?;
        }
        Err("a push does not end".to_owned())
    }
}

/// Each message of an acknowledged push is there, or another one of its name.
fn check_push(world: &QueueWorld, request: &PushRequest, outcome: &PushOutcome) -> Result<(), String> {
    let mut duplicates = 0;
    for ((index, message), id) in request.messages.iter().enumerate().zip(&outcome.messages) {
        let own = MessageId { producer: request.producer, number: request.first + index as u64 };
        duplicates += usize::from(*id != own);
        let stored = world.model.messages.get(id).ok_or_else(|| format!("{id} is acknowledged, and lost"))?;
        let is_right = if *id == own {
            stored.message == *message
        } else {
            message.name.is_some()
                && (&stored.message.name, &stored.message.group) == (&message.name, &message.group)
        };
        if !is_right {
            return Err(format!("{id} is called the message {own}"));
        }
    }
    if (outcome.messages.len(), outcome.duplicates) != (request.messages.len(), duplicates) {
        return Err(format!("{outcome:?} is the outcome of {request:?}"));
    }
    Ok(())
}

enum ConsumerRun {
    Idle,
    Popping(PopRequest, ProcedureRun<PopOutcome>),
    Settling(SettleRequest, ProcedureRun<SettleOutcome>, bool),
}

/// A consumer.
pub(crate) struct Consumer {
    id: ConsumerId,
    number: u64,
    run: ConsumerRun,
    /// What it has popped and not settled, the oldest first.
    leased: Vec<Receipt>,
    pub(crate) popped: u64,
    pub(crate) finished: u64,
    pub(crate) lapsed: u64,
    pub(crate) extended: u64,
    pub(crate) repeats: u64,
}

impl Consumer {
    pub(crate) fn new(number: u8) -> Self {
        Self {
            id: ConsumerId([number; 16]),
            number: 0,
            run: ConsumerRun::Idle,
            leased: Vec::new(),
            popped: 0,
            finished: 0,
            lapsed: 0,
            extended: 0,
            repeats: 0,
        }
    }

    fn pop(&self, now: u64, request: PopRequest) -> ConsumerRun {
        let intent = Intent::Pop(self.id, request.number);
        ConsumerRun::Popping(request.clone(), ProcedureRun::new(now, PopQueue::new(request), intent))
    }

    fn settle(&self, now: u64, request: SettleRequest, is_repeat: bool) -> ConsumerRun {
        let intent = match request.action {
            SettleAction::Acknowledge => Intent::Acknowledge(self.id),
            SettleAction::Release { delay } => Intent::Release(self.id, delay),
            SettleAction::Extend { .. } => Intent::Extend(self.id),
        };
        let run = ProcedureRun::new(now, settle(request.clone()), intent);
        ConsumerRun::Settling(request, run, is_repeat)
    }

    fn begin(&mut self, now: u64, random: &mut Random) {
        if self.leased.is_empty() || random.chance(1, 6) {
            self.number += 1 + random.below(2);
            self.run = self.pop(
                now,
                PopRequest {
                    partition: PARTITION,
                    consumer: self.id,
                    number: self.number,
                    is_repeat: false,
                    messages: 1 + random.below(4) as u32,
                    bytes: 1 + random.below(40),
                    lease: 20 + random.below(300),
                    tries: TRIES,
                    looks_at_due: random.chance(1, 3),
                    spread: random.below(3) as u32,
                    random: random.below(1 << 20),
                },
            );
            return;
        }
        let count = 1 + random.below(self.leased.len() as u64) as usize;
        let action = match random.below(6) {
            0 => SettleAction::Release { delay: random.below(2) * random.below(80) },
            1 => SettleAction::Extend { lease: 1 + random.below(300) },
            _ => SettleAction::Acknowledge,
        };
        let receipts: Vec<Receipt> = self.leased.drain(..count).collect();
        let request = SettleRequest {
            partition: PARTITION,
            consumer: self.id,
            receipts,
            action,
            tries: TRIES,
            is_repeatable: true,
        };
        self.run = self.settle(now, request, false);
    }

    pub(crate) fn step(&mut self, world: &mut QueueWorld, random: &mut Random) -> Result<(), String> {
        match std::mem::replace(&mut self.run, ConsumerRun::Idle) {
            ConsumerRun::Idle => {
                self.begin(world.now, random);
                Ok(())
            }
            ConsumerRun::Popping(request, mut run) => match run.advance(world, random)? {
                None => {
                    self.run = ConsumerRun::Popping(request, run);
                    Ok(())
                }
                Some(Ok(outcome)) => self.get(world, &request, outcome),
                Some(Err(error)) if is_retried(&error) => {
                    self.repeats += 1;
                    self.run = self.pop(world.now, PopRequest { is_repeat: true, ..request });
                    Ok(())
                }
                Some(Err(error)) => Err(format!("a pop has {RETRIED}: {error}")),
            },
            ConsumerRun::Settling(request, mut run, is_repeat) => match run.advance(world, random)? {
                None => {
                    self.run = ConsumerRun::Settling(request, run, is_repeat);
                    Ok(())
                }
                Some(Ok(outcome)) => self.settled(world, &request, &outcome, is_repeat),
                Some(Err(error)) if is_retried(&error) => {
                    self.run = self.settle(world.now, request, true);
                    Ok(())
                }
                Some(Err(error)) => Err(format!("a settlement has {RETRIED}: {error}")),
            },
        }
    }

    fn get(&mut self, world: &QueueWorld, request: &PopRequest, outcome: PopOutcome) -> Result<(), String> {
        self.popped += outcome.messages.len() as u64;
        if outcome.messages.len() > request.messages as usize {
            return Err("a pop has more messages than it asked for".to_owned());
        }
        for popped in outcome.messages {
            let id = popped.receipt.message;
            let model = world.model.messages.get(&id).ok_or_else(|| format!("{id} was never pushed"))?;
            if model.message.value != popped.message.value {
                return Err(format!("{id} has other bytes"));
            }
            let is_own = matches!(model.state, MessageState::Leased { consumer, due } if consumer == self.id && due == popped.receipt.due);
            if !is_own && world.now < popped.receipt.due {
                return Err(format!("{id} is popped, and {:?}", model.state));
            }
            self.leased.push(popped.receipt);
        }
        Ok(())
    }

    fn settled(
        &mut self,
        world: &QueueWorld,
        request: &SettleRequest,
        outcome: &SettleOutcome,
        is_repeat: bool,
    ) -> Result<(), String> {
        self.lapsed += outcome.lapsed.len() as u64;
        self.extended += outcome.extended.len() as u64;
        self.leased.extend(&outcome.extended);
        for receipt in &request.receipts {
            let id = receipt.message;
            let state = world.model.messages.get(&id).ok_or_else(|| format!("{id} was never pushed"))?.state;
            let is_finished = state == MessageState::Finished { consumer: self.id, due: receipt.due };
            let is_lapsed = outcome.lapsed.contains(receipt);
            if request.action == SettleAction::Acknowledge {
                self.finished += u64::from(is_finished && !is_lapsed);
                if !is_lapsed && !is_finished {
                    return Err(format!("{id} is called acknowledged, and {state:?}"));
                }
                // A repetition behind the end of the lease cannot know.
                if is_lapsed && is_finished && world.now <= receipt.due {
                    return Err(format!("{id} is called lapsed, and is acknowledged"));
                }
                if is_lapsed && is_finished && !is_repeat {
                    return Err(format!("{id} is called lapsed at once, and is acknowledged"));
                }
            }
        }
        Ok(())
    }

    /// Processes messages until none is left, as the only one.
    pub(crate) fn drain(&mut self, world: &mut QueueWorld, random: &mut Random) -> Result<(), String> {
        for _ in 0..200_000 {
            if world.model.depth() == 0 && matches!(self.run, ConsumerRun::Idle) {
                return Ok(());
            }
            world.now += 1;
            self.step(world, random)?;
        }
        Err(format!("{} messages are never popped", world.model.depth()))
    }

    /// Ends what it has begun.
    pub(crate) fn finish(&mut self, world: &mut QueueWorld, random: &mut Random) -> Result<(), String> {
        for _ in 0..10_000 {
            if matches!(self.run, ConsumerRun::Idle) {
                return Ok(());
            }
            world.now += 1;
            self.step(world, random)?;
        }
        Err("a consumer does not end its call".to_owned())
    }
}

/// Pushes dead letters again, removes some, and sweeps.
#[derive(Default)]
pub(crate) struct Keeper {
    sweep: Option<ProcedureRun<u64>>,
    pub(crate) swept: u64,
    pub(crate) redriven: u64,
    pub(crate) purged: u64,
}

impl Keeper {
    pub(crate) fn step(&mut self, world: &mut QueueWorld, random: &mut Random) -> Result<(), String> {
        if let Some(run) = &mut self.sweep {
            match run.advance(world, random)? {
                None => return Ok(()),
                Some(swept) => self.swept += swept.unwrap_or(0),
            }
            self.sweep = None;
            return Ok(());
        }
        if random.chance(1, 4) {
            self.sweep = Some(ProcedureRun::new(world.now, Sweep::new(PARTITION), Intent::Sweep));
            return Ok(());
        }
        if !random.chance(1, 8) {
            return Ok(());
        }
        let list = ProcedureRun::new(world.now, ListDead::new(PARTITION, None, 3), Intent::None);
        let Ok(page) = list.run(world, random)? else { return Ok(()) };
        let letters: Vec<(u64, MessageId)> = page.letters.iter().map(|one| (one.died, one.id)).collect();
        let is_redrive = random.chance(2, 3);
        let count = if is_redrive {
            ProcedureRun::new(world.now, redrive_dead(PARTITION, letters), Intent::Redrive)
                .run(world, random)?
        } else {
            ProcedureRun::new(world.now, purge_dead(PARTITION, letters), Intent::Purge).run(world, random)?
        };
        let count = count.unwrap_or(0) as u64;
        if is_redrive {
            self.redriven += count
        } else {
            self.purged += count
        }
        Ok(())
    }
}
