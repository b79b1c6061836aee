//! `zerohop object`: buckets and objects, the same as clients of S3 see at `zerohop s3`, without a gateway.
//!
//! A negative answer (no such bucket or object, or one that exists) is printed on standard error or as JSON, and the exit code is 1:
//! see [`refusal`].

mod bucket;
mod check;
mod copy;
mod get;
mod list;
mod place;
mod put;
mod refusal;
mod remove;

use clap::Subcommand;

use self::place::ObjectPlace;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::outage;

#[derive(Debug, Subcommand)]
pub(crate) enum ObjectCommand {
    /// Creates a bucket.
    ///
    /// The keyspaces for names and bytes are created too, if the cluster does not have them.
    Mb(bucket::BucketArguments),
    /// Removes a bucket that has no objects.
    Rb(bucket::BucketArguments),
    /// Lists buckets, or the objects of a bucket.
    ///
    /// Names below the next `/` are shown as one line, which ends with it, unless --recursive is given.
    #[command(alias = "list")]
    Ls(list::ObjectListArguments),
    /// Stores an object from a file or standard input.
    ///
    /// The object appears, or replaces that of its name, once all of its bytes are stored. Readers of the old object finish.
    Put(put::ObjectPutArguments),
    /// Writes an object to a file or standard output.
    ///
    /// A file gets its name, or replaces the file of this name, once it is complete.
    Get(get::ObjectGetArguments),
    /// Prints size, time, entity tag and metadata of an object.
    Stat(get::ObjectStatArguments),
    /// Copies an object. The copy shares the bytes, so nothing is moved.
    #[command(alias = "copy")]
    Cp(copy::ObjectCopyArguments),
    /// Removes an object, or all objects whose names begin with a prefix.
    ///
    /// If there is no object, the exit code is 1.
    #[command(visible_alias = "del", aliases = ["delete", "remove"])]
    Rm(remove::ObjectRemoveArguments),
    /// Compares the records of objects with their stored bytes, as of one moment.
    ///
    /// The check counts buckets, objects and bodies. It finds objects without bytes, bytes that nothing names, and wrong
    /// reference counts. The exit code is 1 if there is a fault. Bodies of puts in progress, and of objects that were replaced
    /// or removed in the last minutes, are unused: a running gateway removes them.
    Check(check::ObjectCheckArguments),
}

impl ObjectCommand {
    fn place(&self) -> &ObjectPlace {
        match self {
            Self::Mb(arguments) | Self::Rb(arguments) => &arguments.place,
            Self::Ls(arguments) => &arguments.place,
            Self::Put(arguments) => &arguments.place,
            Self::Get(arguments) => &arguments.place,
            Self::Stat(arguments) => &arguments.place,
            Self::Cp(arguments) => &arguments.place,
            Self::Rm(arguments) => &arguments.place,
            Self::Check(arguments) => &arguments.place,
        }
    }
}

pub(crate) async fn run(command: ObjectCommand) -> Result<CommandEnding, CommandError> {
    let place = command.place().clone();
    let ending = done(command).await;
    outage::reported(&place.target, place.json, ending).await
}

async fn done(command: ObjectCommand) -> Result<CommandEnding, CommandError> {
    match command {
        ObjectCommand::Mb(arguments) => bucket::create(arguments).await,
        ObjectCommand::Rb(arguments) => bucket::remove(arguments).await,
        ObjectCommand::Ls(arguments) => list::run(arguments).await,
        ObjectCommand::Put(arguments) => put::run(arguments).await,
        ObjectCommand::Get(arguments) => get::run(arguments).await,
        ObjectCommand::Stat(arguments) => get::stat(arguments).await,
        ObjectCommand::Cp(arguments) => copy::run(arguments).await,
        ObjectCommand::Rm(arguments) => remove::run(arguments).await,
        ObjectCommand::Check(arguments) => check::run(arguments).await,
    }
}
