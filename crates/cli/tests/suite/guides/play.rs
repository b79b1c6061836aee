//! Runs one guide, from its first command to its last.

use std::path::Path;

use crate::guides::block::{GuideCommand, commands};
use crate::guides::matching::matches_guide;
use crate::guides::programs::TEST;
use crate::guides::shell::Shell;

/// Runs all commands of a guide; returns their number.
pub(crate) fn run_guide(root: &Path, guide: &str) -> usize {
    let text = std::fs::read_to_string(root.join(guide)).unwrap();
    let commands = commands(&text);
    assert!(!commands.is_empty(), "{guide} has no commands");
    let folder = crate::support::folder();
    let mut shell = Shell::start(folder.path());
    for command in &commands {
        if let Err(wrong) = one(&mut shell, command) {
            panic!("{guide}, line {}: `{}`\n{wrong}", command.line, command.text);
        }
    }
    commands.len()
}

fn one(shell: &mut Shell, command: &GuideCommand) -> Result<(), String> {
    let text = command.text.as_str();
    let serves = ["zerohop up", "zerohop node -"].iter().any(|server| text.starts_with(server));
    let (printed, code) = if serves {
        (shell.background(text, command.prints.as_ref().map_or(0, Vec::len)), 0)
    } else {
        shell.run(text)
    };
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
