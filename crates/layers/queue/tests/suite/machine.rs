//! A procedure and its effect that is not carried out yet.

use zerohop_base::random::Random;
use zerohop_layer_queue::{QueueEffect, QueueError, QueueEvent, QueueProcedure, QueueStep};

use crate::world::{Intent, QueueWorld};

/// A procedure under way.
pub(crate) struct ProcedureRun<T> {
    step: Box<dyn FnMut(u64, QueueEvent) -> QueueStep<T>>,
    effect: Option<QueueEffect>,
    intent: Intent,
    begun: u64,
}

impl<T: 'static> ProcedureRun<T> {
    pub(crate) fn new<P: QueueProcedure<Output = T> + 'static>(
        begun: u64,
        mut procedure: P,
        intent: Intent,
    ) -> Self {
        Self { step: Box::new(move |now, event| procedure.step(now, event)), effect: None, intent, begun }
    }

    /// Carries out one effect. The outer error is a violation. Result: nothing while it goes on.
    pub(crate) fn advance(
        &mut self,
        world: &mut QueueWorld,
        random: &mut Random,
    ) -> Result<Option<Result<T, QueueError>>, String> {
        let event = match self.effect.take() {
            None => QueueEvent::Start,
            Some(_) if random.chance(1, 60) => {
                QueueEvent::Failed(QueueError::Unavailable("the request is lost".to_owned()))
            }
            Some(effect) => {
                let event = world.perform(&effect, &self.intent, self.begun, random)?;
                if event == QueueEvent::Committed && random.chance(1, 8) {
                    QueueEvent::Failed(QueueError::Unavailable("the answer is lost".to_owned()))
                } else {
                    event
                }
            }
        };
        match (self.step)(world.now, event) {
            QueueStep::Effect(effect) => {
                self.effect = Some(effect);
                Ok(None)
            }
            QueueStep::Done(Err(QueueError::Corrupt(key))) => Err(format!("{key:02x?} is called corrupt")),
            QueueStep::Done(result) => Ok(Some(result)),
        }
    }

    /// Carries out all effects, at times until an answer is lost.
    pub(crate) fn run(
        mut self,
        world: &mut QueueWorld,
        random: &mut Random,
    ) -> Result<Result<T, QueueError>, String> {
        for _ in 0..10_000 {
            world.now += 1;
            if let Some(result) = self.advance(world, random)? {
                return Ok(result);
            }
        }
        Err("a procedure does not end".to_owned())
    }
}
