//! `zerohop blob`: large objects, read and written in part.
//!
//! Contents are streamed: a command needs a few MiB of memory, whatever the size of the blob. A
//! negative answer (no such blob, or a blob that already exists) is printed on standard error or as
//! JSON, and the exit code is 1; see [`refusal`].

mod bytes;
mod get;
mod head;
mod list;
mod progress;
mod put;
mod refusal;
mod transform;
mod write;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{Args, Subcommand};
use zerohop_client::Keyspace;
use zerohop_wire::ids::KeyspaceId;

use crate::common::ending::{CommandEnding, CommandError};
use crate::common::failure::{self, FailedObject};
use crate::common::shown::Name;
use crate::common::target::ClusterTarget;
use crate::common::unserved;

#[derive(Debug, Subcommand)]
pub(crate) enum BlobCommand {
    /// Makes a blob of a file, or of standard input.
    ///
    /// It appears once it is complete, and not before: no reader gets a part of it.
    Put(put::PutArguments),
    /// Writes a whole blob to a file, or to standard output.
    ///
    /// What comes is one version of it; if others write to it meanwhile, a file is written again, and what went to standard
    /// output is to be thrown away: the exit code is 3 then.
    Get(get::GetArguments),
    /// Writes a part of a blob to standard output.
    Read(get::ReadArguments),
    /// Writes bytes at an offset.
    ///
    /// All of them are there or none, in however many chunks. More than 64 MiB are refused, unless --pieces is given.
    Write(write::WriteArguments),
    /// Adds bytes at the end, and prints where they begin.
    ///
    /// The bytes are added as a whole, whatever their number: a reader of the blob finds all of them or none.
    Append(write::BlobAppendArguments),
    /// Makes a blob smaller, or larger with zeros.
    Truncate(head::TruncateArguments),
    /// Prints what a blob is.
    Stat(head::StatArguments),
    /// Removes a blob.
    #[command(visible_alias = "del", aliases = ["delete", "remove"])]
    Rm(head::BlobRemoveArguments),
    /// Prints the names that begin with a prefix, in their order.
    #[command(alias = "list")]
    Ls(list::BlobListArguments),
    /// Changes a number inside a blob, where it is, and prints it.
    ///
    /// Also where it lies in two chunks.
    Transform(transform::BlobTransformArguments),
}

/// Where the blob is, and how the answer is printed.
#[derive(Args, Debug)]
pub(crate) struct BlobPlace {
    /// The keyspace.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    keyspace: String,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON. Bytes that are not UTF-8 are in fields whose names end in _base64.
    #[arg(long)]
    json: bool,
}

/// A name, any bytes.
#[derive(Args, Debug)]
pub(crate) struct NameArgument {
    /// The name of the blob.
    #[arg(value_name = "NAME", allow_hyphen_values = true)]
    name: OsString,
}

impl BlobPlace {
    async fn open(&self) -> Result<Keyspace, CommandError> {
        self.target.keyspace(&self.keyspace).await
    }
}

impl NameArgument {
    fn into_bytes(self) -> Vec<u8> {
        self.name.into_vec()
    }
}

impl BlobCommand {
    fn place(&self) -> &BlobPlace {
        match self {
            BlobCommand::Put(arguments) => &arguments.place,
            BlobCommand::Get(arguments) => &arguments.place,
            BlobCommand::Read(arguments) => &arguments.place,
            BlobCommand::Write(arguments) => &arguments.place,
            BlobCommand::Append(arguments) => &arguments.place,
            BlobCommand::Truncate(arguments) => &arguments.place,
            BlobCommand::Stat(arguments) => &arguments.place,
            BlobCommand::Rm(arguments) => &arguments.place,
            BlobCommand::Ls(arguments) => &arguments.place,
            BlobCommand::Transform(arguments) => &arguments.place,
        }
    }
}

impl BlobCommand {
    /// The name of the blob; `None`: the command is about many.
    fn name(&self) -> Option<&[u8]> {
        let NameArgument { name } = match self {
            BlobCommand::Put(arguments) => &arguments.name,
            BlobCommand::Get(arguments) => &arguments.name,
            BlobCommand::Read(arguments) => &arguments.name,
            BlobCommand::Write(arguments) => &arguments.name,
            BlobCommand::Append(arguments) => &arguments.name,
            BlobCommand::Truncate(arguments) => &arguments.name,
            BlobCommand::Stat(arguments) => &arguments.name,
            BlobCommand::Rm(arguments) => &arguments.name,
            BlobCommand::Transform(arguments) => &arguments.name,
            BlobCommand::Ls(_) => return None,
        };
        Some(name.as_bytes())
    }
}

impl BlobCommand {
    /// Whether the command cleans up after a signal by itself.
    pub(crate) fn handles_signals(&self) -> bool {
        matches!(self, BlobCommand::Put(_))
    }
}

pub(crate) async fn run(command: BlobCommand) -> Result<CommandEnding, CommandError> {
    let (keyspace, is_json) = (command.place().keyspace.clone(), command.place().json);
    let name = command.name().map(<[u8]>::to_vec);
    let target = command.place().target.clone();
    let error = match done(command).await {
        Err(error) => unserved::explained(&target, error).await,
        ending => return ending,
    };
    let reason = failure::reason(&error);
    let error = error.naming(|id| (id != KeyspaceId::NONE).then_some(&*keyspace)).of_blob();
    if is_json {
        let about = FailedObject { key: None, name: name.as_deref().map(Name) };
        failure::print(about, reason, &error);
    }
    Err(error)
}

async fn done(command: BlobCommand) -> Result<CommandEnding, CommandError> {
    match command {
        BlobCommand::Put(arguments) => put::run(arguments).await,
        BlobCommand::Get(arguments) => get::run(arguments).await,
        BlobCommand::Read(arguments) => get::read(arguments).await,
        BlobCommand::Write(arguments) => write::run(arguments).await,
        BlobCommand::Append(arguments) => write::append(arguments).await,
        BlobCommand::Truncate(arguments) => head::truncate(arguments).await,
        BlobCommand::Stat(arguments) => head::stat(arguments).await,
        BlobCommand::Rm(arguments) => head::remove(arguments).await,
        BlobCommand::Ls(arguments) => list::run(arguments).await,
        BlobCommand::Transform(arguments) => transform::run(arguments).await,
    }
}
