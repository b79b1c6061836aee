//! `HELP` of the commands that have subcommands: lines for a person at `redis-cli`, in the form of Redis.

use super::errors::{unknown_subcommand, wrong_number};
use crate::{Args, ReplyWriter};

/// The subcommands of a command: each with its arguments, and what it does.
type Subcommands = &'static [(&'static str, &'static str)];

const HELP: [(&str, Subcommands); 5] = [
    (
        "client",
        &[
            ("GETNAME", "Return the name of this connection."),
            ("ID", "Return the number of this connection."),
            ("INFO", "Return information about this connection."),
            ("LIST [TYPE type | ID id ...]", "Return information about the connections of this instance."),
            ("NO-EVICT (ON|OFF)", "Accepted; no connection is closed to free memory."),
            ("NO-TOUCH (ON|OFF)", "Accepted, without effect."),
            ("REPLY (ON|OFF|SKIP)", "Choose which commands get replies."),
            ("SETINFO (LIB-NAME|LIB-VER) value", "Set the name or version of the client library."),
            ("SETNAME name", "Set the name of this connection."),
        ],
    ),
    (
        "cluster",
        &[
            ("COUNTKEYSINSLOT slot", "Return the number of keys in a slot."),
            ("INFO", "Return information about the cluster."),
            ("KEYSLOT key", "Return the slot of a key."),
            ("MYID", "Return the id of this instance."),
            ("NODES", "Return the instances of the cluster with their slots."),
            ("SHARDS", "Return the ranges of slots with all their replicas."),
            ("SLOTS", "Return the ranges of slots with their addresses."),
        ],
    ),
    (
        "command",
        &[
            ("(no subcommand)", "Return details about all commands."),
            ("COUNT", "Return the number of commands."),
            ("DOCS [command ...]", "Return documentation of commands, by default of all."),
            ("GETKEYS command [arg ...]", "Return the keys of a full command."),
            ("INFO [command ...]", "Return details about commands, by default about all."),
            ("LIST [FILTERBY (MODULE|ACLCAT|PATTERN) value]", "Return the names of commands."),
        ],
    ),
    (
        "config",
        &[
            ("GET pattern [pattern ...]", "Return the settings whose names match."),
            ("SET name value [name value ...]", "Accepted only with the present values."),
        ],
    ),
    ("debug", &[("SLEEP seconds", "Stop this instance for so many seconds.")]),
];

/// Answers a subcommand that nothing else has answered: `HELP`, or an unknown one.
pub(super) fn help(command: &str, args: Args<'_>, reply: &mut ReplyWriter<'_>) -> Result<(), String> {
    let known = HELP.iter().find(|(name, _)| *name == command).map(|(_, subcommands)| *subcommands);
    let Some(subcommands) = known.filter(|_| args.is(1, "HELP")) else {
        return Err(unknown_subcommand(command, args));
    };
    if args.len() != 2 {
        return Err(wrong_number(&format!("{command}|help")));
    }
    reply.array(1 + 2 * (subcommands.len() + 1));
    let upper = command.to_ascii_uppercase();
    reply.simple(&format!("{upper} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for (subcommand, summary) in subcommands.iter().chain(&[("HELP", "Print this help.")]) {
        reply.simple(subcommand);
        reply.simple(&format!("    {summary}"));
    }
    Ok(())
}
