//! A node: its process with an agent and instances, its clock, its disks, and its persisted state.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use zerohop_base::time::Time;
use zerohop_control::agent::{Agent, AgentSettings, ControlRole};
use zerohop_control::command::{ManagerId, ManagerInfo};
use zerohop_engine::disk::simulated::{SimulatedDisk, SimulatedFaults};
use zerohop_placement::{Address, ClusterMap};
use zerohop_wire::ids::{Incarnation, InstanceId, NodeId};

use super::control_disk::ControlDisk;
use super::slot::ClusterSlot;
use crate::node::{CLUSTER, NodeClock};

/// See the module.
pub(crate) struct ClusterHost {
    pub(crate) at: usize,
    pub(crate) agent: Option<Agent>,
    pub(crate) slots: Vec<ClusterSlot>,
    /// Range of its instances among those of all nodes.
    pub(crate) instance_range: Range<usize>,
    pub(crate) clock: NodeClock,
    pub(crate) folder: HostFolder,
    pub(crate) control: ControlDisk,
    /// Its manager id, if it is a manager.
    pub(crate) manager: Option<ManagerId>,
    pub(crate) domain: u32,
    /// Its log was lost: it is a manager with a new id for the first time, and waits to be
    /// admitted.
    pub(crate) is_new_manager: bool,
    pub(crate) has_lost_log: bool,
    /// Counts its processes, so that an event for one does not reach the next.
    pub(crate) life: u32,
    pub(crate) incarnation: Incarnation,
    pub(crate) is_up: bool,
    /// It never restarts by itself.
    pub(crate) stays_down: bool,
    /// It has been removed from the cluster permanently.
    pub(crate) is_removed: bool,
    pub(crate) paused_until: Time,
    /// Its agent is paused until then, while its instances go on.
    pub(crate) agent_paused_until: Time,
    pub(crate) agent_due: Option<Time>,
    /// Messages that arrived while it was paused, and events of its own instances.
    pub(crate) agent_inbox: Vec<Vec<u8>>,
    pub(crate) agent_pending_events: Vec<super::delayed_event::DelayedEvent>,
    /// A disk has failed in this process: a partition may accept no writes until the next start.
    pub(crate) has_failed: bool,
    /// Power is lost in the middle of one of its next disk operations.
    pub(crate) is_doomed: bool,
}

/// The persisted state of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostFolder {
    pub(crate) node: Option<NodeId>,
    pub(crate) first_instance: Option<InstanceId>,
    pub(crate) map: Arc<ClusterMap>,
}

impl ClusterHost {
    pub(crate) fn new(
        at: usize,
        disks: Vec<(SimulatedDisk, SimulatedDisk)>,
        places: Range<usize>,
        now: Time,
    ) -> Self {
        Self {
            at,
            agent: None,
            slots: disks.into_iter().map(ClusterSlot::new).collect(),
            instance_range: places,
            clock: NodeClock::new(now),
            folder: HostFolder::default(),
            control: ControlDisk::default(),
            manager: None,
            domain: 0,
            is_new_manager: false,
            has_lost_log: false,
            life: 0,
            incarnation: Incarnation(0),
            is_up: false,
            stays_down: false,
            is_removed: false,
            paused_until: Time(0),
            agent_paused_until: Time(0),
            agent_due: None,
            agent_inbox: Vec::new(),
            agent_pending_events: Vec::new(),
            has_failed: false,
            is_doomed: false,
        }
    }

    /// The settings of its agent for this start.
    pub(crate) fn settings(&self, seed: u64, members: &[ManagerInfo], contacts: &[Address]) -> AgentSettings {
        let mut settings = AgentSettings::new(seed, CLUSTER, self.incarnation, manager_address(self.at));
        settings.node = self.folder.node;
        settings.instances = (0..self.slots.len()).map(|slot| instance_address(self.at, slot)).collect();
        settings.domain = self.domain;
        settings.contacts = contacts.to_vec();
        settings.map = Arc::clone(&self.folder.map);
        settings.control = match (self.manager, self.control.bytes()) {
            (None, _) => ControlRole::No,
            (Some(id), []) if self.is_new_manager => ControlRole::New { id },
            (Some(id), []) => ControlRole::Bootstrap { id, members: members.to_vec(), addresses: Vec::new() },
            (Some(_), log) => ControlRole::Log(log.to_vec()),
        };
        settings
    }

    /// The time until which its agent is paused.
    pub(crate) fn agent_paused_until(&self) -> Time {
        self.paused_until.max(self.agent_paused_until)
    }

    /// The agent's clock.
    pub(crate) fn agent_time(&self, now: Time) -> zerohop_base::time::Time {
        zerohop_base::time::Time(self.clock.elapsed_us(now))
    }

    /// The id of the instance in this slot.
    pub(crate) fn instance_id(&self, slot: usize) -> Option<InstanceId> {
        self.folder.first_instance.map(|first| InstanceId(first.0 + slot as u32))
    }

    pub(crate) fn slot_of(&self, instance: InstanceId) -> Option<usize> {
        let first = self.folder.first_instance?;
        let at = instance.0.checked_sub(first.0)? as usize;
        (at < self.slots.len()).then_some(at)
    }

    pub(crate) fn repair_disks(&mut self) {
        for slot in &self.slots {
            slot.disk.set_faults(SimulatedFaults::default());
            slot.disk.set_capacity(None);
        }
    }
}

impl fmt::Debug for ClusterHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("at", &self.at).field("is_up", &self.is_up).finish_non_exhaustive()
    }
}

/// The address of a node's manager.
pub(crate) fn manager_address(host: usize) -> Address {
    parsed(&format!("n{host}:7400"))
}

/// The address of a node's instance.
pub(crate) fn instance_address(host: usize, slot: usize) -> Address {
    parsed(&format!("n{host}:{}", 7401 + slot))
}

/// The node and the port of such an address.
pub(crate) fn host_and_port(address: &str) -> Option<(usize, usize)> {
    let (host, port) = address.strip_prefix('n')?.split_once(':')?;
    Some((host.parse().ok()?, port.parse().ok()?))
}

fn parsed(address: &str) -> Address {
    Address::new(address).expect("is an address")
}
