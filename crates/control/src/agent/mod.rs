//! What the manager of every node does in the cluster, whether or not it is a member of the control group: it joins,
//! follows the map and passes it on, asks for what instances and operators want, tells what the control group is owed, and
//! takes part in gossip.
//!
//! ```text
//!   instances ── InstanceAsks, FetchMap, LogEnds, Unreachable, Load ──┐            ┌── Map, MapReplaced, WantLogEnds ──▶
//!   operator ──── Operate ────────────────────────────────────────────┼──▶ Agent ──┼── Answered ──▶
//!   other agents ─ Received ──────────────────────────────────────────┘     │      └── Send ──▶
//!                                                                           ├── Gossip, once joined
//!   disk ──────── Persisted ──────────────────────────────────────────▶     └── Manager, on members ── Persist ──▶
//! ```
//!
//! Pure, like all of this crate: `sim` and `node` do sockets, disks and calls of instances for it, and nothing else. A
//! start goes: [`Agent::open`]; [`Effect::Open`] with a map no older than the start; the shell opens its instances and says
//! [`Event::Opened`]; [`Effect::Joined`]. `docs/protocols/control.md` tells what agents say to each other.

use std::sync::Arc;

use zerohop_placement::{ClusterMap, MapHistory};
use zerohop_wire::ids::NodeId;

use crate::Time;
use crate::command::{ManagerId, ManagerInfo};
use crate::manager::Manager;

mod effect;
mod event;
mod settings;

pub use effect::{Effect, Ended, LogWanted, Unanswered};
pub use event::{Event, Wish};
pub use settings::{Control, OpenError, Settings};

/// See the module.
pub struct Agent {
    settings: Settings,
    manager: Option<Manager>,
    history: MapHistory,
    node: Option<NodeId>,
    managers: Vec<ManagerInfo>,
    effects: Vec<Effect>,
}

impl Agent {
    /// Starts. The number is how many of the control log's first bytes are good: the rest, which a crash tore, is to be cut
    /// off before anything is appended; zero where there is no log. Effects that there are already come with the first
    /// event, which is to be [`Event::Tick`], at once.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(now: Time, settings: Settings) -> Result<(Agent, usize), OpenError> {
        let _ = now;
        let history = MapHistory::new(Arc::clone(&settings.map));
        let node = settings.node;
        let agent =
            Agent { settings, manager: None, history, node, managers: Vec::new(), effects: Vec::new() };
        Ok((agent, 0))
    }

    /// The next event.
    pub fn handle(&mut self, now: Time, event: Event<'_>) -> Vec<Effect> {
        let _ = (now, event);
        std::mem::take(&mut self.effects)
    }

    /// When [`Event::Tick`] is due, if nothing else happens before.
    pub fn wake_at(&self) -> Time {
        Time::NEVER
    }

    /// The map that it follows: everything in it is decided.
    pub fn map(&self) -> &Arc<ClusterMap> {
        self.history.map()
    }

    /// The map, and how it came about: what clients that fetch it are told.
    pub fn history(&self) -> &MapHistory {
        &self.history
    }

    /// This node's number, once it has one.
    pub fn node(&self) -> Option<NodeId> {
        self.node
    }

    /// Whether the node has joined in this start.
    pub fn has_joined(&self) -> bool {
        false
    }

    /// Its part in the control group, if it has one.
    pub fn manager(&self) -> Option<&Manager> {
        self.manager.as_ref()
    }

    /// The control group, as far as is known.
    pub fn managers(&self) -> &[ManagerInfo] {
        &self.managers
    }

    /// Who leads the control group, as far as is known.
    pub fn leader(&self) -> Option<ManagerId> {
        self.manager.as_ref().and_then(Manager::leader)
    }

    /// How it was told to be.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}
