//! `zerohop completions` and `zerohop man`: shell completions and manual pages, generated from the
//! command line definition.

use std::collections::BTreeMap;
use std::path::PathBuf;

use zerohop_wire::plurals::{by_number, counted};

use clap::Command;
use clap_mangen::Man;

use crate::arguments;
use crate::common::ending::{CommandEnding, CommandError, EXIT_CODES};
use crate::common::names;
use crate::common::secret::VARIABLE as SECRET_VARIABLE;
use crate::complete_names::with_keyspaces;
use crate::examples;
use crate::manual_arguments::{CompletionsArguments, ManArguments};
use crate::output;

/// Prints the completions for a shell.
pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<CommandEnding, CommandError> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut arguments::command(), "zerohop", &mut text);
    let text = with_keyspaces(arguments.shell, String::from_utf8_lossy(&text).into_owned());
    output::raw(&[text.as_bytes()])?;
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
    let sections = own_sections(&command);
    let man = Man::new(command).manual("zerohop");
    let mut text = Vec::new();
    // The sections in the usual order of manual pages; the last ones are this program's.
    let rendered = man
        .render_title(&mut text)
        .and_then(|()| man.render_name_section(&mut text))
        .and_then(|()| man.render_synopsis_section(&mut text))
        .and_then(|()| man.render_description_section(&mut text))
        .and_then(|()| man.render_options_section(&mut text))
        .and_then(|()| man.render_subcommands_section(&mut text));
    match rendered {
        Ok(()) => {
            text.extend_from_slice(sections.as_bytes());
            Ok((man.get_filename(), text))
        }
        Err(error) => Err(CommandError::system("writing a page", &PathBuf::from("memory"), &error)),
    }
}

/// The sections EXAMPLES, EXIT STATUS, ENVIRONMENT, FILES and SEE ALSO.
fn own_sections(command: &Command) -> String {
    let own = command.get_bin_name().unwrap_or_default().trim_start_matches("zerohop").trim_start();
    let mut out = String::new();
    let lines = examples::of(own);
    if !lines.is_empty() {
        let all: Vec<String> = lines.iter().map(|line| literal(line)).collect();
        out.push_str(&format!(".SH EXAMPLES\n.nf\n{}\n.fi\n", all.join("\n")));
    }
    out.push_str(&format!(".SH \"EXIT STATUS\"\n.nf\n{}\n.fi\n", literal(EXIT_CODES)));
    let variables = command.get_arguments().filter_map(|arg| {
        let name = arg.get_env()?.to_str()?;
        Some((name, arg.get_long()?))
    });
    let variables: BTreeMap<&str, &str> = variables.collect();
    if !variables.is_empty() {
        out.push_str(".SH ENVIRONMENT\n");
        for (name, option) in &variables {
            let text = format!("the value of --{option}, if the option is not given");
            out.push_str(&format!(".TP\n\\fB{}\\fR\n{}\n", literal(name), literal(&text)));
        }
        if variables.contains_key(SECRET_VARIABLE) {
            let text = "the secret of the cluster, if neither the option nor the variable names another file";
            let path = literal("~/.config/zerohop/secret");
            out.push_str(&format!(".SH FILES\n.TP\n\\fI{path}\\fR\n{}\n", literal(text)));
        }
    }
    out.push_str(&format!(".SH \"SEE ALSO\"\n{}\n", literal(&related(own).join(", "))));
    out
}

/// The pages about related commands.
fn related(own: &str) -> Vec<String> {
    let mut pages = vec!["zerohop(1)".to_owned()];
    match own.split_once(' ') {
        _ if own.is_empty() => {
            pages = ["up", "node", "status", "kv", "blob", "txn", "keyspace", "doctor"]
                .map(|name| format!("zerohop-{name}(1)"))
                .into();
        }
        Some((group, _)) => pages.push(format!("zerohop-{group}(1)")),
        None => {}
    }
    pages
}

/// Text that has no meaning for the formatter of manual pages.
fn literal(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    // A dot at the beginning of a line is a request.
    if escaped.starts_with('.') { format!("\\&{escaped}") } else { escaped }
}
