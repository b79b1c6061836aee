//! `zerohop top`: what each node does just now, again and again.

mod sample;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::time::{Instant, sleep_until};
use zerohop_wire::admin::{NodeStatus, Status};

use self::sample::{Figures, Sample};
use crate::common::ending::{CommandError, Ending};
use crate::common::quantity::{self, shown_bytes};
use crate::common::runtime::StopSignals;
use crate::common::target::Target;
use crate::common::view::{self, ShownView};
use crate::common::{admin, http, names};
use crate::output;

/// Rates over less say little.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
pub(crate) struct TopArguments {
    #[command(flatten)]
    target: Target,
    /// Over what time rates are taken, and how often they are told: 2s, 500ms.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = quantity::duration)]
    interval: Duration,
    /// Tells once, after one interval.
    #[arg(long)]
    once: bool,
    /// Prints JSON, one object for each interval.
    #[arg(long)]
    json: bool,
}

/// The JSON.
#[derive(Serialize)]
struct Shown {
    seconds: f64,
    nodes: Vec<ShownNode>,
    total: Figures,
    /// What is wrong with the whole cluster.
    warnings: Vec<String>,
    /// Whose view of the cluster this is, and how old.
    view: ShownView,
    #[serde(skip)]
    seen: Option<String>,
}

#[derive(Serialize)]
struct ShownNode {
    id: u32,
    state: String,
    manager: String,
    /// `None`: it was not heard of at both ends of the interval.
    figures: Option<Figures>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    silent: Option<String>,
}

/// The metrics of nodes at one time, by their ids; or why there are none.
type Heard = BTreeMap<u32, Result<Sample, String>>;

/// Runs until it is stopped, or once.
pub(crate) async fn run(arguments: TopArguments) -> Result<Ending, CommandError> {
    let TopArguments { target, interval, once, json } = arguments;
    let interval = interval.max(INTERVAL_MIN);
    let bearer = target.bearer()?;
    let client = target.connect().await?;
    let mut signals = StopSignals::new()?;
    let mut begin = Instant::now();
    let mut before = hear(&admin::status(&client).await?.nodes, bearer.as_deref()).await;
    loop {
        tokio::select! {
            () = sleep_until(begin + interval) => {}
            () = signals.come() => return Ok(Ending::Done),
        }
        let now = Instant::now();
        let status = admin::status(&client).await?;
        let heard = hear(&status.nodes, bearer.as_deref()).await;
        let shown = Shown::of(status, &before, &heard, (now - begin).as_secs_f64());
        if json {
            output::json(&shown)?;
        } else {
            // On a terminal in the same place; elsewhere one below the other.
            let clear = if output::is_terminal() && !once { "\x1b[H\x1b[2J" } else { "" };
            output::raw(&[clear.as_bytes(), names::screened(&shown.table()).as_bytes(), b"\n"])?;
        }
        if once {
            return Ok(Ending::Done);
        }
        (before, begin) = (heard, now);
    }
}

/// Asks all managers at once.
async fn hear(nodes: &[NodeStatus], bearer: Option<&str>) -> Heard {
    let up = nodes.iter().filter(|node| node.state != "down");
    let asked: Vec<_> = up
        .map(|node| {
            let (address, bearer) = (node.manager.clone(), bearer.map(str::to_owned));
            (node.id, tokio::spawn(async move { http::get(&address, "/metrics", bearer.as_deref()).await }))
        })
        .collect();
    let mut heard = Heard::new();
    for (id, answer) in asked {
        let answer = answer.await.unwrap_or_else(|error| Err(error.to_string()));
        heard.insert(id, answer.map(|text| Sample::read(&text)));
    }
    heard
}

impl Shown {
    fn of(status: Status, before: &Heard, now: &Heard, seconds: f64) -> Shown {
        let (first, seen) = (view::first(&status), view::seen(&status));
        let view = status.view.as_ref().map(ShownView::of).unwrap_or_default();
        let of_node = |NodeStatus { id, state, manager, .. }| {
            let (figures, silent) = match (before.get(&id), now.get(&id)) {
                (Some(Ok(before)), Some(Ok(now))) => (Some(now.since(before, seconds)), None),
                (_, Some(Err(why))) | (Some(Err(why)), _) => (None, Some(why.clone())),
                _ => (None, None),
            };
            ShownNode { id, state, manager, figures, silent }
        };
        let nodes: Vec<ShownNode> = status.nodes.into_iter().map(of_node).collect();
        let each = nodes.iter().filter_map(|node| node.figures.as_ref());
        let total = each.fold(Figures::default(), |total, figures| total.with(figures));
        Shown { seconds, nodes, total, warnings: first, view, seen }
    }

    fn table(&self) -> String {
        let mut lines = self.warnings.clone();
        lines.push(format!(
            "{:<22} {:>10} {:>8} {:>10} {:>10} {:>8} {:>8} {:>6} {:>11} {:>10} {:>10} {:>5}",
            "node",
            "answers/s",
            "errors/s",
            "in/s",
            "out/s",
            "p50 us",
            "p99 us",
            "conns",
            "records",
            "log",
            "memory",
            "cpus"
        ));
        for ShownNode { id, state, manager, figures, silent } in &self.nodes {
            let name = names::text(format!("{id} {manager}").as_bytes());
            lines.push(match (figures, silent) {
                (Some(figures), _) => line(&name, figures),
                (None, Some(why)) => format!("{name:<22} {state}: {why}"),
                (None, None) => format!("{name:<22} {state}"),
            });
        }
        if self.nodes.len() > 1 {
            lines.push(line("all", &self.total));
        }
        let told = "us: from the first request of a batch to its answers, within the server";
        let seen = self.seen.as_ref().map(|seen| format!(", {seen}")).unwrap_or_default();
        lines.push(format!("over {:.1} s{seen}; {told}", self.seconds));
        if self.total.troubles > 0.0 {
            let troubles = self.total.troubles;
            lines.push(format!("{troubles:.0} troubles: `zerohop doctor` tells which"));
        }
        lines.join("\n")
    }
}

fn line(name: &str, figures: &Figures) -> String {
    let us = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), |us| format!("{us:.0}"));
    let size = |bytes: f64| shown_bytes(bytes as u64);
    format!(
        "{name:<22} {:>10.0} {:>8.0} {:>10} {:>10} {:>8} {:>8} {:>6.0} {:>11.0} {:>10} {:>10} {:>5.2}",
        figures.answers_per_s,
        figures.failures_per_s,
        size(figures.received_bytes_per_s),
        size(figures.sent_bytes_per_s),
        us(figures.batch_us_p50),
        us(figures.batch_us_p99),
        figures.connections,
        figures.records,
        size(figures.log_bytes),
        size(figures.resident_bytes),
        figures.processors
    )
}
