//! `zerohop sim`: plays clusters from seeds. What is done is in `zerohop-sim`; this prints it.

use zerohop_sim::command::{Arguments, Ended, simulate};

use crate::common::ending::{CommandError, Ending};
use crate::output;

/// Plays what is asked for.
pub(crate) fn run(arguments: &Arguments) -> Result<Ending, CommandError> {
    let mut said = Ok(());
    let ended = simulate(arguments, &mut |line| {
        if said.is_ok() {
            said = output::result(line);
        }
    });
    said?;
    match ended {
        Ended::Passed => Ok(Ending::Done),
        Ended::Failed => Ok(Ending::No),
        Ended::NoScenario => {
            Err(CommandError::Usage(format!("there is no scenario {:?}", arguments.scenario)))
        }
    }
}
