//! A procedure and its effect that is not carried out yet.

use zerohop_base::random::Random;
use zerohop_layer_log::{LogEffect, LogError, LogEvent, LogProcedure, LogStep};

use crate::world::{Intent, World};

/// A procedure under way.
pub(crate) struct ProcedureRun<T> {
    step: Box<dyn FnMut(u64, LogEvent) -> LogStep<T>>,
    effect: Option<LogEffect>,
    intent: Intent,
}

impl<T: 'static> ProcedureRun<T> {
    pub(crate) fn new<P: LogProcedure<Output = T> + 'static>(mut procedure: P, intent: Intent) -> Self {
        Self { step: Box::new(move |now, event| procedure.step(now, event)), effect: None, intent }
    }

    /// Carries out one effect. The outer error is a violation. Result: nothing while it goes on.
    pub(crate) fn advance(
        &mut self,
        world: &mut World,
        random: &mut Random,
    ) -> Result<Option<Result<T, LogError>>, String> {
        let event = match self.effect.take() {
            None => LogEvent::Start,
            Some(LogEffect::Own(wait)) if !world.is_over(&wait) && !random.chance(1, 20) => {
                self.effect = Some(LogEffect::Own(wait));
                return Ok(None);
            }
            Some(effect) => {
                let event = world.perform(&effect, &self.intent, random)?;
                if event == LogEvent::Committed && random.chance(1, 8) {
                    LogEvent::Failed(LogError::Unavailable("the answer is lost".to_owned()))
                } else {
                    event
                }
            }
        };
        match (self.step)(world.now, event) {
            LogStep::Effect(effect) => {
                self.effect = Some(effect);
                Ok(None)
            }
            LogStep::Done(Err(LogError::Corrupt(key))) => Err(format!("{key:02x?} is called corrupt")),
            LogStep::Done(result) => Ok(Some(result)),
        }
    }

    /// Carries out all effects.
    pub(crate) fn run(
        mut self,
        world: &mut World,
        random: &mut Random,
    ) -> Result<Result<T, LogError>, String> {
        for _ in 0..10_000 {
            world.now += 1;
            if let Some(result) = self.advance(world, random)? {
                return Ok(result);
            }
        }
        Err("a procedure does not end".to_owned())
    }
}
