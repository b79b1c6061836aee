//! `zerohop kv wait`.

use std::ffi::OsString;

use clap::Args;
use zerohop_client::{Failure, Timestamp, WaitUntil};

use super::condition::version;
use super::{KeyArgument, KvPlace, record, refusal};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::value::argument;
use crate::common::{names, quantity};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct WaitArguments {
    #[command(flatten)]
    pub(super) key: KeyArgument,
    #[command(flatten)]
    until: UntilArguments,
    #[command(flatten)]
    pub(super) place: KvPlace,
}

#[derive(Args, Debug)]
#[group(multiple = false)]
struct UntilArguments {
    /// Waits until the record exists. This is the default.
    #[arg(long)]
    present: bool,
    /// Waits until the record does not exist.
    #[arg(long)]
    absent: bool,
    /// Waits until the record has this value; `-` reads it from standard input.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    equals: Option<OsString>,
    /// Waits until the record does not have this value: another value, a list, or no record.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    differs: Option<OsString>,
    /// Waits until the record has another version than this.
    #[arg(long, value_name = "VERSION", value_parser = version)]
    changed: Option<Timestamp>,
}

pub(super) async fn run(arguments: WaitArguments) -> Result<CommandEnding, CommandError> {
    let (place, key) = (arguments.place, arguments.key.into_bytes());
    let UntilArguments { absent, equals, differs, changed, .. } = arguments.until;
    let (equals, differs) = (equals.map(argument).transpose()?, differs.map(argument).transpose()?);
    let missed = match (&equals, &differs, changed) {
        (Some(_), _, _) => "not this value",
        (_, Some(_), _) => "still this value",
        (_, _, Some(_)) => "still this version",
        _ if absent => "still there",
        _ => "not there",
    };
    let until = match (&equals, &differs, changed) {
        (Some(value), _, _) => WaitUntil::Equals(value),
        (_, Some(value), _) => WaitUntil::Differs(value),
        (_, _, Some(version)) => WaitUntil::Changed(version),
        _ if absent => WaitUntil::Absent,
        _ => WaitUntil::Present,
    };
    let keyspace = place.open().await?;
    match keyspace.wait(&key, until).await {
        Ok(Some(found)) => record::show(&place, &keyspace, &key, found, None).await,
        // The awaited state may be that there is no record.
        Ok(None) => record::show_absent(&place, &key),
        Err(error) if matches!(error.failure(), Some(Failure::TimedOut { .. })) && !place.json => {
            let waited = quantity::format_time(place.target.timeout());
            output::problem(&format!("zerohop: key {}: {missed} after {waited}", names::beginning(&key)));
            Ok(CommandEnding::No)
        }
        Err(error) => refusal::print_refusal(&place, &key, error),
    }
}
