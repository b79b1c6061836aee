//! Runs one guide, from its first command to its last.

use std::path::Path;

use crate::guides::block::{GuideCommand, commands, commands_and_examples};
use crate::guides::matching::matches_guide;
use crate::guides::programs::TEST;
use crate::guides::screen::without_types;
use crate::guides::shell::Shell;

/// Runs all commands of a guide; returns their number. On a terminal they are typed, and so are the
/// examples at Python's prompt.
pub(crate) fn run_guide(root: &Path, guide: &str, is_on_terminal: bool) -> usize {
    let text = std::fs::read_to_string(root.join(guide)).unwrap();
    let commands = match (is_on_terminal, guide.ends_with(".sh")) {
        (false, _) => commands(&text),
        (true, false) => commands_and_examples(&text),
        (true, true) => return run_script(root, guide),
    };
    assert!(!commands.is_empty(), "{guide} has no commands");
    let folder = crate::support::folder();
    let mut shell = start(folder.path(), is_on_terminal);
    for command in &commands {
        shell.at_prompt_of_python(command.is_for_python);
        if let Err(wrong) = one(&mut shell, command, is_on_terminal) {
            panic!("{guide}, line {}: `{}`\n{wrong}", command.line, command.text);
        }
    }
    shell.at_prompt_of_python(false);
    commands.len()
}

fn start(folder: &Path, is_on_terminal: bool) -> Shell {
    if is_on_terminal { Shell::on_terminal(folder) } else { Shell::start(folder) }
}

/// Runs a script that shows and counts its commands; its argument is the folder of the sources.
fn run_script(root: &Path, guide: &str) -> usize {
    let folder = crate::support::folder();
    let mut shell = Shell::on_terminal(folder.path());
    let (printed, code) = shell.run(&format!("'{}' '{}'", root.join(guide).display(), root.display()));
    assert!(code == 0, "{guide}, line 1: it ended with {code}:\n{}", printed.join("\n"));
    let number = |line: &String| line.split_once(" commands;").and_then(|(number, _)| number.parse().ok());
    let count = printed.iter().rev().find_map(number);
    count.unwrap_or_else(|| panic!("{guide}, line 1: no number of commands in\n{}", printed.join("\n")))
}

fn one(shell: &mut Shell, command: &GuideCommand, is_on_terminal: bool) -> Result<(), String> {
    let text = command.text.as_str();
    let serves = ["zerohop up", "zerohop node -"].iter().any(|server| text.starts_with(server));
    let (mut printed, code) = if serves {
        (shell.background(text, command.prints.as_ref().map_or(0, Vec::len)), 0)
    } else {
        shell.run(text)
    };
    if is_on_terminal && text.starts_with("redis-cli") {
        printed = without_types(printed);
    }
    match &command.prints {
        None if code != 0 => Err(format!("ended with {code}:\n{}", printed.join("\n"))),
        None if text.contains(TEST) && !printed.iter().any(|line| line.contains("1 passed")) => {
            Err(format!("{TEST} is not there"))
        }
        Some(expected) if !matches_guide(expected, &printed) => {
            Err(format!("the guide says:\n{}\nit printed:\n{}", expected.join("\n"), printed.join("\n")))
        }
        _ => Ok(()),
    }
}
