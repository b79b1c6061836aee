//! `zerohop watch list`: the watches of all nodes, and how far they are behind.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use zerohop_wire::admin::WatchStatus;
use zerohop_wire::escaped::quoted;

use crate::common::display::SelectedKeys;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::quantity::format_time;
use crate::common::replica_names::Places;
use crate::common::target::ClusterTarget;
use crate::common::{admin, every_node};
use crate::output;

/// The heading of the table.
const HEADING: &str = "keyspace\ttoken\taddress\tkeys\tprimary (NODE:INSTANCE)\tpartitions\tbehind\tlag";

#[derive(Args, Debug)]
pub(crate) struct WatchListArguments {
    /// Only watches of this keyspace.
    #[arg(short, long, value_name = "NAME")]
    keyspace: Option<String>,
    #[command(flatten)]
    target: ClusterTarget,
    /// Prints JSON, one object a line. Keys that are not UTF-8 are in fields whose names end in _base64.
    #[arg(long)]
    json: bool,
}

/// The JSON of a watch.
#[derive(Serialize)]
struct WatchOutput<'a> {
    keyspace: &'a str,
    /// The name of the client's token; null: it has none.
    token: Option<&'a str>,
    /// Whether the client knows the cluster's secret.
    secret: bool,
    /// The client's address; null: unknown.
    address: Option<&'a str>,
    #[serde(flatten)]
    keys: SelectedKeys<'a>,
    node: u32,
    instance: u32,
    partitions: u32,
    /// Changes behind its positions that are kept, whatever their keys.
    changes_behind: u64,
    /// Time since the oldest of them.
    lag_ms: u64,
    /// Partitions that no longer keep all changes behind its position.
    history_gone: u32,
}

pub(super) async fn run(arguments: WatchListArguments) -> Result<CommandEnding, CommandError> {
    let WatchListArguments { keyspace, target, json } = arguments;
    let client = target.connect().await?;
    let status = admin::status(&client).await?;
    let keyspace = keyspace.unwrap_or_default();
    let (found, missing) = every_node::watches(&target, (&client, &status), &keyspace).await?;
    let places = Places::of(&status);
    for node in missing {
        output::problem(&format!("zerohop: node {node} does not report its watches; they are not listed"));
    }
    for instance in found.iter().flat_map(|one| &one.unreported) {
        let instance = places.name(*instance);
        output::problem(&format!(
            "zerohop: instance {instance} does not report its watches; they are not listed"
        ));
    }
    let total: u64 = found.iter().map(|one| one.total).sum();
    let mut watches: Vec<WatchStatus> = found.into_iter().flat_map(|one| one.watches).collect();
    watches.sort_by(|one, other| {
        let by = |one: &WatchStatus| (std::cmp::Reverse((one.lag_ms, one.changes_behind)), one.instance);
        (&one.keyspace, by(one), &one.address).cmp(&(&other.keyspace, by(other), &other.address))
    });
    if json {
        output::json_lines(watches.iter().map(|watch| watch_output(watch, &places)))?;
    } else {
        output::result(HEADING)?;
        watches.iter().try_for_each(|watch| output::result(&line(watch, &places)))?;
    }
    if let Some(left_out) = total.checked_sub(watches.len() as u64).filter(|count| *count > 0) {
        output::problem(&format!("zerohop: {left_out} more watches, whose lag is smaller, are not listed"));
    }
    Ok(CommandEnding::Done)
}

fn watch_output<'a>(watch: &'a WatchStatus, places: &Places) -> WatchOutput<'a> {
    WatchOutput {
        keyspace: &watch.keyspace,
        token: watch.token.as_deref(),
        secret: watch.has_secret,
        address: Some(&*watch.address).filter(|address| !address.is_empty()),
        keys: SelectedKeys { from: &watch.from, to: &watch.to, prefix: &watch.prefix },
        node: places.node(watch.instance),
        instance: watch.instance,
        partitions: watch.partitions,
        changes_behind: watch.changes_behind,
        lag_ms: watch.lag_ms,
        history_gone: watch.gone,
    }
}

fn line(watch: &WatchStatus, places: &Places) -> String {
    let WatchStatus { keyspace, partitions, changes_behind, lag_ms, gone, .. } = watch;
    let token = match &watch.token {
        Some(token) => token,
        None if watch.has_secret => "secret",
        None => "-",
    };
    let address = if watch.address.is_empty() { "-" } else { &*watch.address };
    let (keys, instance) = (keys(watch), places.name(watch.instance));
    let behind = match gone {
        0 => changes_behind.to_string(),
        gone => format!("{changes_behind}, and no longer kept in {gone} of the partitions"),
    };
    let lag = format_time(Duration::from_millis(*lag_ms));
    format!("{keyspace}\t{token}\t{address}\t{keys}\t{instance}\t{partitions}\t{behind}\t{lag}")
}

/// The keys that it selects, as the options of `zerohop watch`.
fn keys(watch: &WatchStatus) -> String {
    let parts = [("", &watch.prefix), ("--from ", &watch.from), ("--to ", &watch.to)];
    let shown: Vec<String> = parts
        .into_iter()
        .filter(|(_, key)| !key.is_empty())
        .map(|(option, key)| format!("{option}{}", quoted(key)))
        .collect();
    if shown.is_empty() { "all".to_owned() } else { shown.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch() -> WatchStatus {
        WatchStatus {
            instance: 3,
            keyspace: "results".to_owned(),
            partitions: 64,
            lag_ms: 1_500,
            changes_behind: 7,
            ..WatchStatus::default()
        }
    }

    #[test]
    fn a_line_has_the_client_and_how_far_it_is_behind() {
        let places = Places::default();
        assert_eq!(line(&watch(), &places), "results\t-\t-\tall\t?:3\t64\t7\t1.5 s");
        let watch = WatchStatus {
            token: Some("robot".to_owned()),
            address: "10.0.0.1:5000".to_owned(),
            prefix: b"run-".to_vec(),
            to: b"run-\t9".to_vec(),
            gone: 2,
            ..watch()
        };
        let expected = "results\trobot\t10.0.0.1:5000\t\"run-\" --to \"run-\\t9\"\t?:3\t64\t7, and no longer kept in 2 of \
                        the partitions\t1.5 s";
        assert_eq!(line(&watch, &places), expected);
        let watch = WatchStatus { has_secret: true, ..self::watch() };
        assert!(line(&watch, &places).starts_with("results\tsecret\t-\t"));
    }

    #[test]
    fn json_leaves_out_bounds_that_a_watch_does_not_have() {
        let keys = |watch: &WatchStatus| {
            let keys = SelectedKeys { from: &watch.from, to: &watch.to, prefix: &watch.prefix };
            serde_json::to_string(&keys).unwrap()
        };
        assert_eq!(keys(&watch()), "{}");
        let watch = WatchStatus { from: b"a".to_vec(), prefix: vec![0xff], ..watch() };
        assert_eq!(keys(&watch), r#"{"from":"a","prefix_base64":"/w=="}"#);
    }
}
