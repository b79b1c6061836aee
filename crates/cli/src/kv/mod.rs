//! `zerohop kv`: operations on single records.
//!
//! One file for each operation. In all of them a negative answer (no record, a condition that is
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

use crate::common::ending::{CommandEnding, CommandError};
use crate::common::failure::{self, FailedObject};
use crate::common::shown::JsonKey;
use crate::common::target::ClusterTarget;
use crate::common::unserved;

#[derive(Debug, Subcommand)]
pub(crate) enum KvCommand {
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
    /// Appends bytes to a record, and prints its new length. Creates the record if it does not exist.
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
    /// Prints the keys that begin with a prefix, in no particular order.
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

impl KvCommand {
    fn place(&self) -> &KvPlace {
        match self {
            KvCommand::Insert(arguments) => &arguments.place,
            KvCommand::Lookup(arguments) => &arguments.place,
            KvCommand::Remove(arguments) => &arguments.place,
            KvCommand::Take(arguments) => &arguments.place,
            KvCommand::Append(arguments) => &arguments.place,
            KvCommand::Extend(arguments) => &arguments.place,
            KvCommand::Cas(arguments) => &arguments.place,
            KvCommand::Wait(arguments) => &arguments.place,
            KvCommand::Incr(arguments) => &arguments.place,
            KvCommand::Transform(arguments) => &arguments.place,
            KvCommand::Scan(arguments) => &arguments.place,
        }
    }
}

impl KvCommand {
    /// The key; `None`: the command is about many.
    fn key(&self) -> Option<&[u8]> {
        let KeyArgument { key } = match self {
            KvCommand::Insert(arguments) => &arguments.key,
            KvCommand::Lookup(arguments) => &arguments.key,
            KvCommand::Remove(arguments) => &arguments.key,
            KvCommand::Take(arguments) => &arguments.key,
            KvCommand::Append(arguments) => &arguments.key,
            KvCommand::Extend(arguments) => &arguments.key,
            KvCommand::Cas(arguments) => &arguments.key,
            KvCommand::Wait(arguments) => &arguments.key,
            KvCommand::Incr(arguments) => &arguments.key,
            KvCommand::Transform(arguments) => &arguments.key,
            KvCommand::Scan(_) => return None,
        };
        Some(key.as_bytes())
    }
}

pub(crate) async fn run(command: KvCommand) -> Result<CommandEnding, CommandError> {
    let (keyspace, is_json) = (command.place().keyspace.clone(), command.place().json);
    let key = command.key().map(<[u8]>::to_vec);
    let target = command.place().target.clone();
    let error = match done(command).await {
        Err(error) => unserved::explained(&target, error).await,
        ending => return ending,
    };
    let reason = failure::reason(&error);
    let error = error.naming(|id| (id != KeyspaceId::NONE).then_some(&*keyspace));
    if is_json {
        let about = FailedObject { key: key.as_deref().map(JsonKey), name: None };
        failure::print(about, reason, &error);
    }
    Err(error)
}

async fn done(command: KvCommand) -> Result<CommandEnding, CommandError> {
    match command {
        KvCommand::Insert(arguments) => insert::run(arguments).await,
        KvCommand::Lookup(arguments) => lookup::run(arguments).await,
        KvCommand::Remove(arguments) => remove::run(arguments).await,
        KvCommand::Take(mut arguments) => {
            arguments.place.removes_shown = true;
            take::run(arguments).await
        }
        KvCommand::Append(arguments) => append::run(arguments).await,
        KvCommand::Extend(arguments) => extend::run(arguments).await,
        KvCommand::Cas(arguments) => compare_swap::run(arguments).await,
        KvCommand::Wait(arguments) => wait::run(arguments).await,
        KvCommand::Incr(arguments) => increment::run(arguments).await,
        KvCommand::Transform(arguments) => transform::run(arguments).await,
        KvCommand::Scan(arguments) => scan::run(arguments).await,
    }
}
