//! Ports of a new cluster that another process uses: they are reported before any folder is made.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::common::ending::CommandError;
use crate::common::http;
use crate::local::{NodePlan, is_free};

/// How long a process may take to end that was killed just before.
const EXIT_WAIT: Duration = Duration::from_secs(1);

/// How long a process may take to say what it is.
const ANSWER_WAIT: Duration = Duration::from_millis(500);

/// The pause between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Checks the ports of all nodes.
///
/// # Errors Another process uses one of them.
pub(super) async fn check(plans: &[NodePlan]) -> Result<(), CommandError> {
    let until = Instant::now() + EXIT_WAIT;
    loop {
        let Some(occupied) = ports(plans).find(|port| !is_free(*port)) else { return Ok(()) };
        if Instant::now() >= until {
            let user = match is_used_by_cluster(plans).await {
                true => "another zerohop cluster",
                false => "another process",
            };
            return Err(CommandError::Node(format!(
                "{occupied} is in use by {user}: choose other ports with --port, such as `--port 0` for free ones"
            )));
        }
        sleep(CHECK_INTERVAL).await;
    }
}

/// The addresses at which the nodes will listen.
fn ports(plans: &[NodePlan]) -> impl Iterator<Item = SocketAddr> {
    plans.iter().filter(|plan| plan.listen.port() != 0).flat_map(|plan| {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let instances = u16::try_from(plan.instances.unwrap_or(cores)).unwrap_or(0);
        let last = plan.listen.port().saturating_add(instances);
        (plan.listen.port()..=last).map(|port| SocketAddr::new(plan.listen.ip(), port))
    })
}

/// Whether a node's manager answers at one of the addresses.
async fn is_used_by_cluster(plans: &[NodePlan]) -> bool {
    for port in ports(plans).filter(|port| !is_free(*port)) {
        if let Ok(Some(_)) = timeout(ANSWER_WAIT, http::health(&port.to_string(), None)).await {
            return true;
        }
    }
    false
}
