//! A node with Redis clients that shuts down cleanly, as a server does.
//!
//! ```text
//!   yield ──> writes under way end ──> the agent leaves: other nodes take over
//!         ──> end: accepted commands are answered, connections close ──> the process stops
//! ```
//!
//! Each step has a time limit, because there may be no other node. A command that an instance has accepted is answered before its
//! connection closes, unless it waits for a record.

use zerohop_base::time::Time;
use zerohop_control::agent::AgentEvent;
use zerohop_placement::NodeState;

use super::super::ClusterEvent;
use super::super::node_end::NodeEnd;
use super::{MS, RedisEvent, RedisRun};
use crate::streams::Draw;

/// How often a node looks whether a step is done.
const LOOK_US: u64 = 10 * MS;

/// The longest time of a step.
const STEP_US_MAX: u64 = 1_500 * MS;

/// The longest time between the last commands of clients and the end: some have arrived and are not answered then.
const LAST_COMMANDS_US_MAX: u64 = 5 * MS;

/// A node that shuts down cleanly.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeavingNode {
    life: u32,
    step: LeaveStep,
    until: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaveStep {
    Yielding,
    HandingOver,
    /// Clients have just sent more commands.
    LastCommands,
    Ending,
}

impl RedisRun<'_> {
    /// A node is to shut down cleanly.
    pub(in crate::cluster) fn begin_leave(&mut self, host: usize) {
        let (now, life) = (self.world.now(), self.world.hosts[host].life);
        let is_leaving = self.world.redis.leaving.get(&host).is_some_and(|leaving| leaving.life == life);
        if is_leaving || !self.world.hosts[host].is_up {
            return;
        }
        self.world.trace.record(now, format_args!("n{host} is to shut down cleanly"));
        let shown = self.world.hosts[host].clock.show(now);
        for slot in 0..self.world.hosts[host].slots.len() {
            if let Some(side) = &mut self.world.hosts[host].slots[slot].redis {
                side.yield_writes(shown.elapsed_ms);
            }
        }
        self.enter(host, LeaveStep::Yielding);
    }

    fn enter(&mut self, host: usize, step: LeaveStep) {
        let (now, life) = (self.world.now(), self.world.hosts[host].life);
        let until = now.after_us(STEP_US_MAX);
        self.world.redis.leaving.insert(host, LeavingNode { life, step, until });
        self.recheck(host, life);
    }

    fn recheck(&mut self, host: usize, life: u32) {
        let now = self.world.now();
        for slot in 0..self.world.hosts[host].slots.len() {
            self.world.schedule_slot(host, slot, now);
        }
        self.world
            .event_queue
            .at(now.after_us(LOOK_US), ClusterEvent::Redis(RedisEvent::Leave { host, life }));
    }

    /// Continues the stop of a node.
    pub(super) fn leave_on(&mut self, host: usize, life: u32) {
        let now = self.world.now();
        let Some(leaving) = self.world.redis.leaving.get(&host).copied() else { return };
        if leaving.life != life || self.world.hosts[host].life != life || !self.world.hosts[host].is_up {
            return;
        }
        if now < self.world.hosts[host].paused_until {
            return self.recheck(host, life);
        }
        let is_late = now >= leaving.until;
        match leaving.step {
            LeaveStep::Yielding => {
                if !is_late && !self.all_sides(host, |side| side.has_yielded()) {
                    return self.recheck(host, life);
                }
                self.world.handle_agent_event(host, AgentEvent::Leave);
                self.enter(host, LeaveStep::HandingOver);
            }
            LeaveStep::HandingOver => {
                let map = &self.world.hosts[host].folder.map;
                let node = self.world.hosts[host].folder.node.and_then(|id| map.node(id));
                let is_gone = node.is_none_or(|node| node.state() == NodeState::Down);
                if !is_late && !is_gone {
                    return self.recheck(host, life);
                }
                if !self.world.redis.behaviour.asks_leaving_nodes {
                    return self.end_clients(host);
                }
                self.clients_of_node_send(host);
                let until = now.after_us(self.world.redis.random.between(100, LAST_COMMANDS_US_MAX));
                let step = LeaveStep::LastCommands;
                self.world.redis.leaving.insert(host, LeavingNode { life, step, until });
                self.world.event_queue.at(until, ClusterEvent::Redis(RedisEvent::Leave { host, life }));
            }
            LeaveStep::LastCommands => self.end_clients(host),
            LeaveStep::Ending => {
                if !is_late && !self.all_sides(host, |side| side.has_ended()) {
                    return self.recheck(host, life);
                }
                self.world.redis.leaving.remove(&host);
                if !is_late {
                    self.world.coverage.blobs_seen("redis: nodes stopped after all replies", 1);
                }
                self.world.end_process(host, NodeEnd::Stopped);
            }
        }
    }

    fn end_clients(&mut self, host: usize) {
        self.all_sides(host, |side| {
            side.end_clients();
            true
        });
        self.enter(host, LeaveStep::Ending);
    }

    /// Whether this is so for the Redis sides of all instances of a node. Each is asked.
    fn all_sides(&mut self, host: usize, mut query: impl FnMut(&mut super::RedisSide) -> bool) -> bool {
        let mut is_so = true;
        let mut unanswered = Vec::new();
        for slot in &mut self.world.hosts[host].slots {
            if let Some(side) = &mut slot.redis {
                is_so &= query(side);
                unanswered.extend(side.take_unanswered());
            }
        }
        for what in unanswered {
            self.world.record_violation("redis", format!("n{host} shuts down cleanly, and {what}"));
        }
        is_so
    }
}
