//! Negative answers about logs and queues: a sentence or JSON, with exit code 1.

use serde::Serialize;

use super::display::LayerName;
use super::ending::{CommandEnding, CommandError};
use super::names;
use crate::output;

/// Whether a command that fails may have changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandUse {
    Read,
    Write,
}

impl CommandUse {
    /// The error of a command that the cluster has not answered, and why.
    pub(crate) fn unanswered(self, why: &str) -> CommandError {
        match self {
            Self::Read => CommandError::RefusedAs {
                word: "unavailable",
                reason: format!("the cluster does not answer: {why}; try again, or see `zerohop status`"),
            },
            Self::Write => CommandError::InDoubt(format!(
                "the cluster has not acknowledged the change in time ({why}), so it may be done or not: look before you repeat it"
            )),
        }
    }
}

/// A negative answer: what it is about, a word for programs, and a sentence.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct NegativeAnswer<'a> {
    #[serde(flatten)]
    about: LayerName<'a>,
    done: bool,
    reason: &'static str,
    error: &'a str,
}

impl<'a> NegativeAnswer<'a> {
    pub(crate) const fn new(about: LayerName<'a>, reason: &'static str, error: &'a str) -> Self {
        Self { about, done: false, reason, error }
    }

    /// Prints it.
    pub(crate) fn print(&self, is_json: bool) -> Result<CommandEnding, CommandError> {
        if is_json {
            output::json(self)?;
        } else {
            let LayerName { kind, name } = self.about;
            output::problem(&format!("zerohop: {kind} {}: {}", names::quoted(name.as_bytes()), self.error));
        }
        Ok(CommandEnding::No)
    }
}
