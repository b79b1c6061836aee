//! Negative answers about logs and queues: a sentence or JSON, with exit code 1.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::ending::{CommandEnding, CommandError};
use super::names;
use crate::output;

/// Whether a command that fails may have changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandUse {
    Read,
    Write,
}

/// A negative answer: what it is about, a word for programs, and a sentence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NegativeAnswer<'a> {
    /// `log` or `queue`.
    pub(crate) kind: &'static str,
    pub(crate) name: &'a str,
    pub(crate) reason: &'static str,
    pub(crate) text: &'a str,
}

impl Serialize for NegativeAnswer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry(self.kind, self.name)?;
        map.serialize_entry("done", &false)?;
        map.serialize_entry("reason", self.reason)?;
        map.serialize_entry("error", self.text)?;
        map.end()
    }
}

impl NegativeAnswer<'_> {
    /// Prints it.
    pub(crate) fn print(&self, is_json: bool) -> Result<CommandEnding, CommandError> {
        if is_json {
            output::json(self)?;
        } else {
            output::problem(&format!(
                "zerohop: {} {}: {}",
                self.kind,
                names::quoted(self.name.as_bytes()),
                self.text
            ));
        }
        Ok(CommandEnding::No)
    }
}
