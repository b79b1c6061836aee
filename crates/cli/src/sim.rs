//! `zerohop sim`: plays clusters from seeds. What is done is in `zerohop-sim`; this prints it.

use zerohop_sim::command::{CommandEnd, SimArguments, simulate};

use crate::common::ending::{CommandEnding, CommandError};
use crate::output;

/// Plays what is asked for.
pub(crate) fn run(arguments: &SimArguments) -> Result<CommandEnding, CommandError> {
    let mut said = Ok(());
    let ended = simulate(arguments, &mut |line| {
        if said.is_ok() {
            said = output::result(line);
        }
    });
    said?;
    match ended {
        CommandEnd::Passed => Ok(CommandEnding::Done),
        CommandEnd::Failed => Ok(CommandEnding::No),
        CommandEnd::NoScenario => {
            Err(CommandError::Usage(format!("there is no scenario {:?}", arguments.scenario)))
        }
    }
}
