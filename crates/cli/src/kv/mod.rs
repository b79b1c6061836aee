//! `zerohop kv`: operations on single records.
//!
//! One file for each operation, because each prints results of its own.
//! In all of them a negative answer (no record, a condition that is
//! not true) is printed on standard error, or in the JSON, and the exit code is 1; see [`refusal`].

mod append;
mod compare_swap;
pub(crate) mod condition;
mod extend;
mod increment;
mod insert;
mod lookup;
mod record;
pub(crate) mod refusal;
mod remove;
mod scan;
mod take;
mod transform;
mod wait;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{Args, Subcommand};
use zerohop_client::Keyspace;
use zerohop_wire::ids::KeyspaceId;

use crate::common::display::JsonKey;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::failure::{self, FailedObject};
use crate::common::outage;
use crate::common::target::ClusterTarget;

/// Declares the commands, those about one key before the semicolon, and what is the same for all of them.
macro_rules! commands {
    (
        $($(#[$meta:meta])* $variant:ident($module:ident::$arguments:ident),)*
        ; $($(#[$many_meta:meta])* $many:ident($many_module:ident::$many_arguments:ident),)*
    ) => {
        #[derive(Debug, Subcommand)]
        pub(crate) enum KvCommand {
            $($(#[$meta])* $variant($module::$arguments),)*
            $($(#[$many_meta])* $many($many_module::$many_arguments),)*
        }

        impl KvCommand {
            fn place(&self) -> &KvPlace {
                match self {
                    $(Self::$variant(arguments) => &arguments.place,)*
                    $(Self::$many(arguments) => &arguments.place,)*
                }
            }

            /// The key; `None`: the command is about many.
            fn key(&self) -> Option<&[u8]> {
                match self {
                    $(Self::$variant(arguments) => Some(arguments.key.key.as_bytes()),)*
                    $(Self::$many(_) => None,)*
                }
            }
        }

        async fn done(command: KvCommand) -> Result<CommandEnding, CommandError> {
            match command {
                $(KvCommand::$variant(arguments) => $module::run(arguments).await,)*
                $(KvCommand::$many(arguments) => $many_module::run(arguments).await,)*
            }
        }
    };
}

commands! {
    /// Writes bytes to a record, and replaces any earlier contents.
    #[command(visible_aliases = ["set", "put"])]
    Insert(insert::InsertArguments),
    /// Prints a record.
    ///
    /// Bytes are printed exactly as they are stored; on a terminal a line feed follows. Each value of a list is printed
    /// with a line feed after it.
    #[command(visible_alias = "get")]
    Lookup(lookup::LookupArguments),
    /// Removes a record.
    #[command(visible_aliases = ["del", "rm"], alias = "delete")]
    Remove(remove::KvRemoveArguments),
    /// Removes a record of at most 64 KiB, and prints it.
    ///
    /// Of several clients that take the same record, one gets it.
    Take(take::TakeArguments),
    /// Appends values to a list, and prints its new length. Creates the list if the record does not exist.
    Append(append::KvAppendArguments),
    /// Adds bytes to the end of a record, and prints its new length. Creates the record if it does not exist.
    Extend(extend::ExtendArguments),
    /// Replaces a value if the record has the expected value.
    Cas(compare_swap::CompareSwapArguments),
    /// Waits until a record fulfils a condition, and prints it.
    ///
    /// The server answers when the record changes. --timeout limits the wait.
    Wait(wait::WaitArguments),
    /// Adds a number to the decimal number in a record, and prints the sum. A record that does not exist counts as 0.
    Incr(increment::IncrementArguments),
    /// Changes a binary number inside a record on the server, and prints it.
    ///
    /// Bytes beyond the end of the record count as zeros.
    Transform(transform::KvTransformArguments),
    ;
    /// Prints the keys that begin with a prefix.
    ///
    /// Keys of an ordered keyspace (`keyspace create --ordered`) are printed in byte order, and --from and --to limit
    /// them. Other keyspaces have no order.
    #[command(visible_alias = "ls", alias = "list")]
    Scan(scan::ScanArguments),
}

/// Where the record is, and how the answer is printed.
#[derive(Args, Debug)]
pub(crate) struct KvPlace {
    /// The keyspace.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    keyspace: String,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON. Bytes that are not UTF-8 are in fields whose names end in _base64.
    #[arg(long)]
    json: bool,
    /// Whether the record that is shown was removed: its only copy is in this process.
    #[arg(skip)]
    removes_shown: bool,
}

/// A key, any bytes.
#[derive(Args, Debug)]
pub(crate) struct KeyArgument {
    /// The key.
    #[arg(value_name = "KEY", allow_hyphen_values = true)]
    key: OsString,
}

impl KvPlace {
    async fn open(&self) -> Result<Keyspace, CommandError> {
        self.target.keyspace(&self.keyspace).await
    }
}

impl KeyArgument {
    fn into_bytes(self) -> Vec<u8> {
        self.key.into_vec()
    }
}

pub(crate) async fn run(command: KvCommand) -> Result<CommandEnding, CommandError> {
    let (keyspace, is_json) = (command.place().keyspace.clone(), command.place().json);
    let key = command.key().map(<[u8]>::to_vec);
    let target = command.place().target.clone();
    let error = match done(command).await {
        Err(error) => outage::explained(&target, error).await,
        ending => return ending,
    };
    let reason = failure::reason(&error);
    let error = error.naming(|id| (id != KeyspaceId::NONE).then_some(&*keyspace));
    if is_json {
        let about = FailedObject { key: key.as_deref().map(JsonKey), ..FailedObject::default() };
        failure::print(about, reason, &error);
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use zerohop_wire::FrameKind;
    use zerohop_wire::messages::{Query, WriteChange};

    use super::*;

    /// The command of an operation, with its option if it is one of several; `None`: the program has none.
    fn command_of(kind: FrameKind) -> Option<(&'static str, &'static str)> {
        Some(match kind {
            FrameKind::LookupRange => ("lookup", "range"),
            FrameKind::Inspect => ("lookup", "info"),
            FrameKind::CompareSwap => ("cas", ""),
            FrameKind::Increment => ("incr", ""),
            // Procedures of the client send these; commands of `blob` use them.
            FrameKind::Confirm | FrameKind::ReadChunk | FrameKind::UpdateLock => return None,
            // The program has no command for these today.
            FrameKind::GetBit
            | FrameKind::CountBits
            | FrameKind::SetBit
            | FrameKind::Expire
            | FrameKind::Trim => return None,
            kind => (kind.text(), ""),
        })
    }

    #[test]
    fn operations_of_the_table_have_commands() {
        let commands = KvCommand::augment_subcommands(clap::Command::new("kv"));
        for row in Query::TABLE.iter().chain(WriteChange::TABLE) {
            let Some((name, option)) = command_of(row.kind) else { continue };
            let command = commands.find_subcommand(name);
            let command = command.unwrap_or_else(|| panic!("no command of `kv` executes `{}`", row.kind));
            let has_option = command.get_arguments().any(|argument| argument.get_id() == option);
            assert!(option.is_empty() || has_option, "`kv {name}` has no --{option} for `{}`", row.kind);
        }
    }
}
