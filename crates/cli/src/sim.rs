//! `zerohop sim`: runs simulated clusters from seeds. `zerohop-sim` does the work; this prints the
//! results.

use zerohop_sim::command::{CommandEnd, SimArguments, simulate};

use crate::common::ending::{CommandEnding, CommandError};
use crate::common::names;
use crate::output;

/// Runs the requested simulations.
pub(crate) fn run(arguments: &SimArguments) -> Result<CommandEnding, CommandError> {
    let mut printed = Ok(());
    let ended = simulate(arguments, &mut |line| {
        if printed.is_ok() {
            printed = output::result(line);
        }
    });
    printed?;
    match ended {
        CommandEnd::Passed => Ok(CommandEnding::Done),
        CommandEnd::Failed => Ok(CommandEnding::No),
        CommandEnd::NoScenario => {
            let named = names::quoted(arguments.scenario.as_bytes());
            Err(CommandError::Usage(format!("there is no scenario {named}")))
        }
    }
}
