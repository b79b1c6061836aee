//! The nodes of a local cluster while it serves: a node that ends by itself starts again.
//!
//! ```text
//!   Serving ──ends──> Restarting: delay, plan, start ──> Serving …
//!      │                  └── fails ──> Restarting, with a longer delay
//!      └── with a reason to stay ended ──> Ended
//! ```

use std::future::{pending, poll_fn};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::UpArguments;
use super::folder::DataFolder;
use super::restarts::{NodeRuns, RestartDecision, SHORT_RUNS_MAX};
use crate::common::ending::CommandError;
use crate::common::failure::NO_PLACE;
use crate::common::quantity::format_time;
use crate::common::restarting::RestartingNodes;
use crate::local::{LocalNode, NodeEnd, NodePlan};
use crate::output;

/// All nodes that have started.
pub(super) struct SupervisedNodes {
    nodes: Vec<SupervisedNode>,
    /// The data folder; `None`: in memory.
    root: Option<PathBuf>,
    /// The plans of all nodes, in the order of their folders, without what the folders say.
    plans: Vec<NodePlan>,
    no_restart: bool,
    /// The nodes that are about to start again, for other commands.
    restarting: RestartingNodes,
}

/// One of them.
struct SupervisedNode {
    id: u32,
    /// Its position among the plans.
    place: usize,
    runs: NodeRuns,
    state: NodeState,
}

enum NodeState {
    Serving {
        node: Box<LocalNode>,
        since: Instant,
    },
    /// Waits, and then starts the node. Dropping it kills the process, if there is one.
    Restarting(Pin<Box<dyn Future<Output = Result<Box<LocalNode>, CommandError>>>>),
    Ended,
}

enum NodeEvent {
    Ended(NodeEnd),
    Restarted(Result<Box<LocalNode>, CommandError>),
}

/// Why a node stays ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndCause {
    Requested,
    NoRestart,
    InMemory,
    TooOften,
    NoPlace,
}

impl SupervisedNodes {
    pub(super) fn new(nodes: Vec<LocalNode>, plans: Vec<NodePlan>, arguments: &UpArguments) -> Self {
        let supervised = |node: LocalNode| SupervisedNode {
            id: node.ready.id,
            place: plans
                .iter()
                .position(|plan| plan.listen.to_string() == node.ready.manager)
                .unwrap_or_default(),
            runs: NodeRuns::default(),
            state: NodeState::Serving { node: Box::new(node), since: Instant::now() },
        };
        let nodes = nodes.into_iter().map(supervised).collect();
        SupervisedNodes {
            nodes,
            root: arguments.folder(),
            plans,
            no_restart: arguments.restart.no_restart,
            restarting: RestartingNodes::default(),
        }
    }

    /// Starts nodes again until none is left, and returns how the last one ended.
    pub(super) async fn run(&mut self) -> CommandError {
        loop {
            self.name_restarting();
            let (index, event) = self.next_event().await;
            let id = self.nodes[index].id;
            let (what, decision) = match event {
                NodeEvent::Restarted(Ok(node)) => {
                    output::problem(&format!("zerohop: node {id} serves again (process {})", node.ready.pid));
                    self.nodes[index].state = NodeState::Serving { node, since: Instant::now() };
                    continue;
                }
                NodeEvent::Restarted(Err(error)) => {
                    let is_refused = matches!(error, CommandError::RefusedAs { word: NO_PLACE, .. });
                    let cause = is_refused.then_some(EndCause::NoPlace);
                    let what = format!("node {id} did not start again: {error}");
                    (what, cause.map_or_else(|| self.decide(index), Err))
                }
                NodeEvent::Ended(end) => {
                    let cause = self.cause_against_restart(&end);
                    let decision = cause.map_or_else(|| self.decide(index), Err);
                    (format!("node {id} {}", end.text), decision)
                }
            };
            match decision {
                Ok(delay) => self.restart(index, &what, delay),
                Err(cause) => {
                    self.nodes[index].state = NodeState::Ended;
                    let sentence = format!("{what}{}", cause.words());
                    if self.nodes.iter().all(|node| matches!(node.state, NodeState::Ended)) {
                        return CommandError::Node(sentence);
                    }
                    output::problem(&format!("zerohop: {sentence}{}{}", self.others(), cause.advice()));
                }
            }
        }
    }

    /// Names the nodes that are about to start again to other commands.
    fn name_restarting(&mut self) {
        let Some(root) = &self.root else { return };
        let is_restarting = |node: &&SupervisedNode| matches!(node.state, NodeState::Restarting(_));
        let listen = |node: &SupervisedNode| Some((node.id, self.plans.get(node.place)?.listen));
        let nodes: Vec<_> = self.nodes.iter().filter(is_restarting).filter_map(listen).collect();
        self.restarting.name(root, &nodes);
    }

    /// The nodes that serve; a node that was about to start again is killed.
    pub(super) fn into_serving(self) -> Vec<LocalNode> {
        let serving = |node: SupervisedNode| match node.state {
            NodeState::Serving { node, .. } => Some(*node),
            NodeState::Restarting(_) | NodeState::Ended => None,
        };
        self.nodes.into_iter().filter_map(serving).collect()
    }

    /// The next end or start of a node, with its index.
    async fn next_event(&mut self) -> (usize, NodeEvent) {
        let mut events: Vec<_> = self.nodes.iter_mut().map(|node| Box::pin(node.next_event())).collect();
        poll_fn(|context| {
            for (index, event) in events.iter_mut().enumerate() {
                if let Poll::Ready(event) = event.as_mut().poll(context) {
                    return Poll::Ready((index, event));
                }
            }
            Poll::Pending
        })
        .await
    }

    fn cause_against_restart(&self, end: &NodeEnd) -> Option<EndCause> {
        match &self.root {
            _ if end.is_requested => Some(EndCause::Requested),
            _ if self.no_restart => Some(EndCause::NoRestart),
            None => Some(EndCause::InMemory),
            Some(_) => None,
        }
    }

    /// The delay before the next start of a node that has ended or failed to start.
    fn decide(&mut self, index: usize) -> Result<Duration, EndCause> {
        let node = &mut self.nodes[index];
        let served = match &node.state {
            NodeState::Serving { since, .. } => since.elapsed(),
            NodeState::Restarting(_) | NodeState::Ended => Duration::ZERO,
        };
        match node.runs.record_end(served) {
            RestartDecision::After(delay) => Ok(delay),
            RestartDecision::GiveUp => Err(EndCause::TooOften),
        }
    }

    fn restart(&mut self, index: usize, what: &str, delay: Duration) {
        output::problem(&format!("zerohop: {what}; it starts again in {}", format_time(delay)));
        let node = &mut self.nodes[index];
        let (root, plans, place) = (self.root.clone().unwrap_or_default(), self.plans.clone(), node.place);
        node.state = NodeState::Restarting(Box::pin(async move {
            sleep(delay).await;
            let plan = DataFolder::plan_again(root, plans, place)?;
            LocalNode::start(&plan).await.map(Box::new)
        }));
    }

    /// Where the other nodes are reached.
    fn others(&self) -> String {
        let serving = self.nodes.iter().find_map(|node| match &node.state {
            NodeState::Serving { node, .. } => Some(&node.ready.manager),
            NodeState::Restarting(_) | NodeState::Ended => None,
        });
        serving.map_or(".".to_owned(), |manager| {
            format!(". The others go on: `--endpoint {manager}` reaches them.")
        })
    }
}

impl SupervisedNode {
    async fn next_event(&mut self) -> NodeEvent {
        match &mut self.state {
            NodeState::Serving { node, .. } => NodeEvent::Ended(node.ended().await),
            NodeState::Restarting(start) => NodeEvent::Restarted(start.as_mut().await),
            NodeState::Ended => pending().await,
        }
    }
}

impl EndCause {
    /// The end of the sentence about a node that ended or did not start.
    fn words(self) -> String {
        match self {
            Self::Requested | Self::NoRestart | Self::NoPlace => String::new(),
            Self::InMemory => ", and does not start again: its data was in memory".to_owned(),
            Self::TooOften => {
                format!(". That was {SHORT_RUNS_MAX} times in a row, each soon after a start: it stays ended")
            }
        }
    }

    /// What a user can do, while other nodes serve.
    fn advice(self) -> &'static str {
        match self {
            Self::InMemory | Self::NoPlace => "",
            Self::Requested | Self::NoRestart | Self::TooOften => {
                " To bring it back, stop them with Ctrl-C, and start `zerohop up` again"
            }
        }
    }
}
