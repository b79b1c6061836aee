//! Options shared by most commands, given before the subcommand: `zerohop --json status`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::Command;

/// The long names of these options, and whether the option takes a value.
const OPTIONS: [(&str, bool); 9] = [
    ("endpoint", true),
    ("secret-file", true),
    ("tls-ca", true),
    ("tls-cert", true),
    ("tls-key", true),
    ("token-file", true),
    ("timeout", true),
    ("keyspace", true),
    ("json", false),
];

/// Moves these options behind the subcommand, which then accepts or rejects them. The first
/// argument is the program.
pub(crate) fn behind_the_command(
    root: &Command,
    arguments: impl IntoIterator<Item = OsString>,
) -> Vec<OsString> {
    let mut rest = arguments.into_iter();
    let mut out: Vec<OsString> = rest.next().into_iter().collect();
    let mut moved = Vec::new();
    let mut at = root;
    while let Some(word) = rest.next() {
        if let Some(needs_value) = option(&word) {
            moved.push(word);
            moved.extend(needs_value.then(|| rest.next()).flatten());
        } else if let Some(command) = word.to_str().and_then(|name| at.find_subcommand(name)) {
            out.push(word);
            at = command;
        } else {
            // If a subcommand is missing or wrong, the error must be about that, not about an
            // option.
            out.extend(moved.drain(..).filter(|_| !at.is_subcommand_required_set()));
            out.push(word);
            out.extend(rest);
            return out;
        }
    }
    out.extend(moved.into_iter().filter(|_| !at.is_subcommand_required_set()));
    out
}

/// `None` if `word` is not one of these options; else whether the next argument is its value.
fn option(word: &OsStr) -> Option<bool> {
    let word = word.as_bytes();
    let Some(long) = word.strip_prefix(b"--") else {
        return word.starts_with(b"-k").then_some(word.len() == 2);
    };
    let (name, has_value) = match long.iter().position(|byte| *byte == b'=') {
        Some(at) => (&long[..at], true),
        None => (long, false),
    };
    let (_, takes) = OPTIONS.iter().find(|(option, _)| option.as_bytes() == name)?;
    Some(*takes && !has_value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::command;

    fn moved(line: &str) -> String {
        let words = line.split(' ').map(OsString::from);
        let moved = behind_the_command(&command(), words);
        moved.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn options_before_a_command_are_those_of_the_command() {
        for (given, expected) in [
            ("zerohop --endpoint h:1 kv lookup k", "zerohop kv lookup --endpoint h:1 k"),
            ("zerohop --json status", "zerohop status --json"),
            ("zerohop --endpoint=h:1 --json kv -k ks ls p", "zerohop kv ls --endpoint=h:1 --json -k ks p"),
            ("zerohop -kks kv get --json k --timeout 3s", "zerohop kv get -kks --json k --timeout 3s"),
            ("zerohop --json node list", "zerohop node list --json"),
            ("zerohop node --json --memory", "zerohop node --json --memory"),
            ("zerohop kv lookup -- --json", "zerohop kv lookup -- --json"),
            ("zerohop kv insert status --json", "zerohop kv insert status --json"),
            ("zerohop --json --help", "zerohop --help"),
            ("zerohop --json no-such-command k", "zerohop no-such-command k"),
            ("zerohop --json", "zerohop"),
        ] {
            assert_eq!(moved(given), expected, "{given}");
        }
    }

    #[test]
    fn global_options_exist_in_commands_and_take_values_as_listed() {
        let root = command();
        let lookup = root.find_subcommand("kv").and_then(|kv| kv.find_subcommand("lookup")).unwrap();
        for (name, takes) in OPTIONS {
            let found = lookup.get_arguments().find(|one| one.get_long() == Some(name));
            assert_eq!(found.unwrap().get_action().takes_values(), takes, "{name}");
        }
    }
}
