//! The line that a node prints once it serves: JSON for the process that started it, or text.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::common::ending::CommandError;
use crate::common::names;
use crate::output;

/// A node that serves. Field names are those of `zerohop status --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReadyNode {
    pub(crate) id: u32,
    pub(crate) pid: u32,
    /// The address of its manager.
    pub(crate) manager: String,
    pub(crate) instances: Vec<ReadyInstance>,
    /// The folder of its data; `None`: in memory.
    pub(crate) data: Option<PathBuf>,
    /// A warning for the user: the disk is one for tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) warning: Option<String>,
}

/// One of its instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReadyInstance {
    pub(crate) id: u32,
    pub(crate) addr: String,
}

impl ReadyNode {
    /// Prints it as text.
    pub(crate) fn print_text(&self) -> Result<(), CommandError> {
        if let Some(warning) = &self.warning {
            output::problem(warning);
        }
        output::result(&self.to_string())
    }
}

impl fmt::Display for ReadyNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instances: Vec<&str> = self.instances.iter().map(|instance| instance.addr.as_str()).collect();
        write!(
            f,
            "node {} (process {}): manager {}, instances {}, data ",
            self.id,
            self.pid,
            self.manager,
            instances.join(" ")
        )?;
        match &self.data {
            Some(folder) => write!(f, "in {}", names::path(folder)),
            None => f.write_str("in memory"),
        }
    }
}
