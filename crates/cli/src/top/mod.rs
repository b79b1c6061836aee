//! `zerohop top`: the activity of each node, at intervals.

mod sample;
mod table;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::time::{Instant, sleep_until};
use zerohop_client::ClientTls;
use zerohop_wire::admin::{NodeStatus, Status};

use self::sample::{Figures, Sample};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::keys::KeyPresses;
use crate::common::quantity;
use crate::common::runtime::StopSignals;
use crate::common::target::ClusterTarget;
use crate::common::view::{self, ViewOutput};
use crate::common::{admin, http, interrupt, names};
use crate::output;

/// Rates over shorter times are meaningless.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Nodes record waits for ten seconds after a request for them.
const WAITS_RENEWAL: Duration = Duration::from_secs(4);

/// A longer interval is a mistake.
const INTERVAL_MAX: Duration = Duration::from_secs(86_400);

#[derive(Args, Debug)]
pub(crate) struct TopArguments {
    #[command(flatten)]
    target: ClusterTarget,
    /// The interval over which rates are computed and after which they are printed: 2s, 500ms; from 100ms to 1d.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    interval: Duration,
    /// Prints once, after one interval, and ends.
    #[arg(long)]
    once: bool,
    /// Also shows where operations wait: queue, log, flush, peers, socket. Nodes measure this only while it is shown.
    #[arg(long)]
    waits: bool,
    /// Prints JSON, one object for each interval.
    #[arg(long)]
    json: bool,
}

/// The JSON.
#[derive(Serialize)]
struct TopOutput {
    seconds: f64,
    nodes: Vec<TopNode>,
    total: Figures,
    /// Problems of the whole cluster.
    warnings: Vec<String>,
    /// The node whose view of the cluster this is, and the age of the view.
    view: ViewOutput,
    #[serde(skip)]
    seen: Option<String>,
}

#[derive(Serialize)]
struct TopNode {
    id: u32,
    state: String,
    manager: String,
    /// `None`: metrics were not received at both ends of the interval.
    figures: Option<Figures>,
    /// The reason if there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    silent: Option<String>,
}

/// The metrics of nodes at one time, by node id; or the reason why there are none.
type NodeSamples = BTreeMap<u32, Result<Sample, String>>;

/// How the metrics of nodes are read.
#[derive(Clone)]
struct MetricsAccess {
    path: &'static str,
    bearer: Option<String>,
    tls: Option<ClientTls>,
}

/// Runs until it is stopped, or once.
pub(crate) async fn run(arguments: TopArguments) -> Result<CommandEnding, CommandError> {
    let mut signals = StopSignals::new()?;
    let is_screen = output::is_terminal() && !arguments.once && !arguments.json;
    // Dropped last, which restores the terminal mode.
    let keys = is_screen.then(KeyPresses::new).flatten().inspect(|_| signals.end_with_key(b'q'));
    tokio::select! {
        ended = print_tables(&arguments, is_screen, keys.is_some()) => return ended,
        () = signals.received() => {}
    }
    let is_by_key = keys.is_some() && !signals.awaits_input();
    // A signal is the usual end of tables that go on.
    let has_table = !arguments.once && output::has_result();
    if is_by_key || has_table { Ok(CommandEnding::Done) } else { Err(interrupt::before_changes()) }
}

/// Prints a table after each interval, or once.
async fn print_tables(
    arguments: &TopArguments,
    is_screen: bool,
    has_keys: bool,
) -> Result<CommandEnding, CommandError> {
    let TopArguments { target, interval, once, waits, json } = arguments;
    let path = if *waits { "/metrics?waits" } else { "/metrics" };
    let metrics = MetricsAccess { path, bearer: target.bearer()?, tls: target.tls()? };
    let client = target.connect().await?;
    let mut begin = Instant::now();
    let mut nodes = admin::status(&client).await?.nodes;
    let mut before = query_all(&nodes, &metrics).await;
    // If one manager refuses these credentials, all of them do.
    if !before.is_empty()
        && before.values().all(|samples| samples.as_ref().is_err_and(|why| why == http::SECRET_REQUIRED))
    {
        return Err(CommandError::Refused(
            "top reads the metrics of nodes, which want the cluster's secret: say --secret-file PATH; a token is not enough"
                .to_owned(),
        ));
    }
    loop {
        let end = begin + *interval;
        while *waits && end - Instant::now() > WAITS_RENEWAL {
            sleep_until(Instant::now() + WAITS_RENEWAL).await;
            query_all(&nodes, &metrics).await;
        }
        sleep_until(end).await;
        let now = Instant::now();
        let status = admin::status(&client).await?;
        nodes.clone_from(&status.nodes);
        let samples = query_all(&status.nodes, &metrics).await;
        let shown = TopOutput::of(status, &before, &samples, (now - begin).as_secs_f64());
        if *json {
            output::json(&shown)?;
        } else {
            // A terminal is cleared for each table; other outputs get the tables in sequence.
            let (clear, hint) =
                (if is_screen { "\x1b[H\x1b[2J" } else { "" }, if has_keys { "; q ends" } else { "" });
            output::raw(&[clear.as_bytes(), names::screened(&table::table(&shown, hint)).as_bytes(), b"\n"])?;
        }
        if *once {
            return Ok(CommandEnding::Done);
        }
        (before, begin) = (samples, now);
    }
}

/// Parses the interval. For clap.
fn interval(text: &str) -> Result<Duration, String> {
    match quantity::duration_above_zero(text)? {
        time if time < INTERVAL_MIN => {
            Err("rates over less than 100ms mean nothing: give at least 100ms".to_owned())
        }
        time if time > INTERVAL_MAX => Err("the longest interval allowed is 1d".to_owned()),
        time => Ok(time),
    }
}

/// Asks all managers concurrently.
async fn query_all(nodes: &[NodeStatus], access: &MetricsAccess) -> NodeSamples {
    let up = nodes.iter().filter(|node| node.state != "down");
    let queries: Vec<_> = up
        .map(|node| {
            let (address, MetricsAccess { path, bearer, tls }) = (node.manager.clone(), access.clone());
            let answer = async move { http::get(&address, path, bearer.as_deref(), tls.as_ref()).await };
            (node.id, tokio::spawn(answer))
        })
        .collect();
    let mut samples = NodeSamples::new();
    for (id, answer) in queries {
        let answer = answer.await.unwrap_or_else(|error| Err(error.to_string()));
        samples.insert(id, answer.map(|text| Sample::read(&text)));
    }
    samples
}

impl TopOutput {
    fn of(status: Status, before: &NodeSamples, now: &NodeSamples, seconds: f64) -> TopOutput {
        let (first, seen) = (view::first(&status), view::seen(&status));
        let view = status.view.as_ref().map(ViewOutput::of).unwrap_or_default();
        let of_node = |NodeStatus { id, state, manager, .. }| {
            let (figures, silent) = match (before.get(&id), now.get(&id)) {
                (Some(Ok(before)), Some(Ok(now))) => (Some(now.since(before, seconds)), None),
                (_, Some(Err(why))) | (Some(Err(why)), _) => (None, Some(why.clone())),
                _ => (None, None),
            };
            TopNode { id, state, manager, figures, silent }
        };
        let nodes: Vec<TopNode> = status.nodes.into_iter().map(of_node).collect();
        let each = nodes.iter().filter_map(|node| node.figures.as_ref());
        let total = each.fold(Figures::default(), |total, figures| total.with(figures));
        TopOutput { seconds, nodes, total, warnings: first, view, seen }
    }
}
