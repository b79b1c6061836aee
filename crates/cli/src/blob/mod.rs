//! `zerohop blob`: large objects, read and written in part.
//!
//! Contents are streamed: a command needs a few MiB of memory, whatever the size of the blob. A
//! negative answer (no such blob, or a blob that already exists) is printed on standard error or as
//! JSON, and the exit code is 1; see [`refusal`].

pub(crate) mod bytes;
pub(crate) mod copy_file;
pub(crate) mod get;
mod head;
mod list;
pub(crate) mod progress;
mod put;
mod refusal;
mod transform;
mod write;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{Args, Subcommand};
use zerohop_client::Keyspace;
use zerohop_wire::ids::KeyspaceId;

use crate::common::display::Name;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::failure::{self, FailedObject};
use crate::common::outage;
use crate::common::target::ClusterTarget;

#[derive(Debug, Subcommand)]
pub(crate) enum BlobCommand {
    /// Creates a blob from a file, or from standard input.
    ///
    /// Readers find the blob once all of its bytes are stored. If a complete blob of this name exists, nothing is written (exit code 1).
    Put(put::PutArguments),
    /// Copies a whole blob to a file, or to standard output.
    ///
    /// The copy has one version of the blob. If another client changes the blob meanwhile, the command writes the file again, up
    /// to three times. A file gets its name, or replaces the file of this name, once it is complete. Discard what the command has
    /// written to standard output if the exit code is 3 or 130.
    Get(get::GetArguments),
    /// Writes a part of a blob to standard output.
    ///
    /// The output ends at the blob's end, also if --length is larger.
    Read(get::ReadArguments),
    /// Overwrites bytes of a blob from an offset on.
    ///
    /// A write beyond the end makes the blob larger. Readers find all of the bytes or none, also over several chunks. One write
    /// has at most 64 MiB, unless --pieces is given.
    Write(write::WriteArguments),
    /// Adds bytes to the end of a blob, and prints the offset of the first of them.
    ///
    /// Readers find all of the bytes or none, however many they are.
    Extend(write::BlobExtendArguments),
    /// Sets the size of a blob.
    ///
    /// Bytes behind the new size are removed. If the blob grows, zeros are added.
    Truncate(head::TruncateArguments),
    /// Prints size, chunk size, id, generation and attributes of a blob.
    ///
    /// The sizes are in bytes. The generation counts how often the blob was truncated or filled in.
    Stat(head::StatArguments),
    /// Removes a blob.
    ///
    /// If there is no blob of this name, the exit code is 1.
    #[command(visible_alias = "del", aliases = ["delete", "remove"])]
    Rm(head::BlobRemoveArguments),
    /// Prints the names of blobs that begin with a prefix, in the order of their bytes.
    #[command(alias = "list")]
    Ls(list::BlobListArguments),
    /// Changes a binary number inside a blob on the server, and prints it.
    ///
    /// The number may be in two chunks. Bytes beyond the end of the blob count as zeros.
    Transform(transform::BlobTransformArguments),
}

/// Where the blob is, and how the answer is printed.
#[derive(Args, Debug)]
pub(crate) struct BlobPlace {
    /// The keyspace of the blob.
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
    /// The name of the blob: any bytes, at most 4 KiB.
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
            BlobCommand::Extend(arguments) => &arguments.place,
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
            BlobCommand::Extend(arguments) => &arguments.name,
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
        Err(error) => outage::explained(&target, error).await,
        ending => return ending,
    };
    let reason = failure::reason(&error);
    let error = error.naming(|id| (id != KeyspaceId::NONE).then_some(&*keyspace)).of_blob();
    if is_json {
        let about = FailedObject { name: name.as_deref().map(Name), ..FailedObject::default() };
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
        BlobCommand::Extend(arguments) => write::extend(arguments).await,
        BlobCommand::Truncate(arguments) => head::truncate(arguments).await,
        BlobCommand::Stat(arguments) => head::stat(arguments).await,
        BlobCommand::Rm(arguments) => head::remove(arguments).await,
        BlobCommand::Ls(arguments) => list::run(arguments).await,
        BlobCommand::Transform(arguments) => transform::run(arguments).await,
    }
}
