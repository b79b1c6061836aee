//! `zerohop completions` and `zerohop man`: shell completions and manual pages, generated from the
//! command line definition.

use std::path::PathBuf;
use zerohop_wire::words::{by_number, counted};

use clap::Command;
use clap_mangen::Man;

use crate::arguments;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::names;
use crate::manual_arguments::{CompletionsArguments, ManArguments};
use crate::output;

/// Prints the completions for a shell.
pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<CommandEnding, CommandError> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut arguments::command(), "zerohop", &mut text);
    output::raw(&[&text])?;
    Ok(CommandEnding::Done)
}

/// Prints one page, or writes all of them.
pub(crate) fn man(arguments: &ManArguments) -> Result<CommandEnding, CommandError> {
    let mut command = arguments::command();
    command.build();
    let Some(folder) = &arguments.dir else {
        let (_, page) = page(command)?;
        output::raw(&[&page])?;
        return Ok(CommandEnding::Done);
    };
    std::fs::create_dir_all(folder)
        .map_err(|error| CommandError::system("making the folder", folder, &error))?;
    let mut count = 0;
    let mut left = vec![command];
    while let Some(command) = left.pop() {
        left.extend(command.get_subcommands().filter(|one| one.get_name() != "help").cloned());
        let (name, page) = page(command)?;
        let path = folder.join(name);
        #[expect(clippy::disallowed_methods, reason = "the user asks for files")]
        let written = std::fs::write(&path, page);
        written.map_err(|error| CommandError::system("writing", &path, &error))?;
        count += 1;
    }
    output::problem(&format!(
        "{1} {2} in {0}; try `man -l {0}/zerohop.1`",
        names::path(folder),
        counted(count, "page"),
        by_number(count, "is", "are")
    ));
    Ok(CommandEnding::Done)
}

/// The name of a command's page, and its text.
fn page(command: Command) -> Result<(String, Vec<u8>), CommandError> {
    let man = Man::new(command).manual("zerohop");
    let mut text = Vec::new();
    match man.render(&mut text) {
        Ok(()) => Ok((man.get_filename(), text)),
        Err(error) => Err(CommandError::system("writing a page", &PathBuf::from("memory"), &error)),
    }
}
