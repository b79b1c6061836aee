//! `zerohop doctor`: what is wrong with this machine or the cluster, and what to do.

mod clock;
mod cluster;
mod finding;
mod machine;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::net::TcpStream;
use tokio::time::timeout;

use self::finding::{Finding, Severity};
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::target::ClusterTarget;
use crate::common::{admin, damaged};
use crate::output::{self, StatusLine};

/// How long a connection attempt may take.
const CONNECT_MAX: Duration = Duration::from_secs(2);

#[derive(Args, Debug)]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    target: ClusterTarget,
    /// The folder whose disk is looked at [default: zerohop-data in the current folder if it is there, else the current
    /// folder].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Looks at this machine alone, not at a cluster.
    #[arg(long)]
    machine: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// The JSON.
#[derive(Serialize)]
struct DoctorReport<'a> {
    healthy: bool,
    findings: &'a [Finding],
}

/// Runs all checks. The answer is negative if there is a problem; warnings do not count.
pub(crate) async fn run(arguments: DoctorArguments) -> Result<CommandEnding, CommandError> {
    let DoctorArguments { target, data, machine: machine_only, json } = arguments;
    let folder = data.unwrap_or_else(|| {
        let usual = Path::new("zerohop-data");
        if usual.is_dir() { usual.to_owned() } else { PathBuf::from(".") }
    });
    let mut findings = machine::look(&target, &folder);
    if !machine_only {
        findings.extend(of_cluster(&target).await);
    }
    let worst = findings.iter().map(|one| one.verdict).max().unwrap_or(Severity::Ok);
    let healthy = worst != Severity::Problem;
    if json {
        output::json(&DoctorReport { healthy, findings: &findings })?;
    } else {
        let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
        output::result(&lines.join("\n"))?;
    }
    Ok(if healthy { CommandEnding::Done } else { CommandEnding::No })
}

async fn of_cluster(target: &ClusterTarget) -> Vec<Finding> {
    let line = StatusLine::new();
    line.show("asking the cluster …");
    let status = match target.connect().await {
        Ok(client) => admin::status(&client).await,
        Err(error) => Err(error),
    };
    match status {
        Ok(mut status) => {
            let nodes = status.nodes.len();
            line.show(&format!("asking {nodes} nodes what is wrong with them …"));
            let damaged = damaged::find(target, &mut status).await;
            line.show(&format!("asking {nodes} nodes for their health and clocks …"));
            cluster::look(status, &damaged).await
        }
        Err(error) => {
            let listens = listens(target).await;
            let advice = match listens {
                Some(endpoint) => format!(
                    "somebody listens at {endpoint}: another program, which `ss -ltnp` names, or a node that has not \
                     come up or wants another secret"
                ),
                None => "nobody listens there: start a cluster with `zerohop up`, name one with --endpoint, or look at \
                         this machine alone with --machine"
                    .to_owned(),
            };
            vec![Finding::problem("cluster", target.endpoints().join(","), error.to_string(), advice)]
        }
    }
}

/// The first endpoint that accepts connections.
async fn listens(target: &ClusterTarget) -> Option<&str> {
    for endpoint in target.endpoints() {
        if matches!(timeout(CONNECT_MAX, TcpStream::connect(endpoint)).await, Ok(Ok(_))) {
            return Some(endpoint);
        }
    }
    None
}
