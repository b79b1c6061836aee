//! Executes the effects of an instance: answers go to connections, other effects to their targets.

use tokio::sync::mpsc;
use tracing::{error, info};
use zerohop_partition::Token;
use zerohop_reactor::{ClockSample, ConnectionId, Replies, RequestToken};
use zerohop_relay::{UNIT_TOKEN_BIT, UnitAnswer};
use zerohop_shard::{AnswerOrigin, InstanceEffect, InstanceEffects, LargeRegion};
use zerohop_wire::Message;
use zerohop_wire::admin::{AdminQuestion, AdminRequest, RegionSplit};
use zerohop_wire::auth::Access;
use zerohop_wire::ids::{InstanceId, KeyspaceId, PartitionId};

use super::latencies::OperationLatencies;
use super::links::Links;
use super::notice::InstanceMessage;
use super::stage_waits::StageWaits;
use super::timestamp_bounds::TimestampBounds;
use crate::control_job::{ControlJob, ReplyTo};

/// The targets of effects other than answers to connections.
#[derive(Debug)]
pub(crate) struct Outlet {
    /// Answers to units of Redis clients; processed when no other call is in progress.
    pub(crate) answered: Vec<(u64, UnitAnswer)>,
    pub(crate) links: Links,
    pub(crate) timestamp_bounds: TimestampBounds,
    /// The channel to the manager for the control group; `None` for a standalone node.
    pub(crate) manager_messages: Option<mpsc::Sender<InstanceMessage>>,
    /// The channel to the manager for changes that a client could request too.
    pub(crate) jobs: mpsc::Sender<ControlJob>,
    pub(crate) this_member: InstanceId,
    /// Times of requests of native clients.
    pub(crate) latencies: OperationLatencies,
    /// Where these requests wait.
    pub(crate) stage_waits: StageWaits,
}

impl Outlet {
    fn send_to_manager(&self, word: InstanceMessage) {
        if let Some(words) = &self.manager_messages {
            // If the channel is full, the message is repeated later.
            drop(words.try_send(word));
        }
    }

    fn split_region(&self, large: &LargeRegion) {
        let LargeRegion { name, region, bytes, separator, share, .. } = large;
        info!(keyspace = %name, region = region.get(), bytes, "a region is large and is split");
        let split = RegionSplit {
            keyspace: name.to_string(),
            separator: separator.clone(),
            share: Some(u32::from(*share)),
            region: Some(region.get()),
        };
        let request = AdminRequest::of(AdminQuestion::SplitRegion(split));
        let job = ControlJob { encoded: request.to_bytes(), access: Access::All, reply: ReplyTo::NoClient };
        // If the channel is full, the request is repeated later.
        drop(self.jobs.try_send(job));
    }
}

/// The effects of one call of an instance.
pub(crate) struct OutletEffects<'a, 'r> {
    pub(crate) replies: &'a mut Replies<'r>,
    pub(crate) outlet: &'a mut Outlet,
    pub(crate) now: ClockSample,
}

impl InstanceEffects for OutletEffects<'_, '_> {
    #[inline]
    fn push(&mut self, effect: InstanceEffect<'_>) {
        match effect {
            InstanceEffect::Answer { to, place, message } => self.answer(to, place, message),
            InstanceEffect::Reply { to, bytes } => {
                self.outlet.answered.push((to.request.0, UnitAnswer::Reply(bytes.to_vec())))
            }
            InstanceEffect::Dropped { to } => self.drop_request(to),
            InstanceEffect::Send { to, envelope, message } => {
                self.outlet.links.send(to, envelope, message, self.now, self.replies)
            }
            InstanceEffect::ProposeChange { place, change } => {
                self.outlet.send_to_manager(InstanceMessage::ProposeChange {
                    instance: self.outlet.this_member,
                    group: place,
                    change,
                })
            }
            InstanceEffect::FetchMap => self.outlet.send_to_manager(InstanceMessage::MapOutdated),
            InstanceEffect::SyncTimestampBound(timestamp_bound) => {
                self.outlet.timestamp_bounds.sync(timestamp_bound)
            }
            InstanceEffect::InvariantBroken { keyspace, partition, broken } => {
                error!(
                    instance = self.outlet.this_member.0,
                    keyspace = keyspace.0,
                    partition = partition.0,
                    "{broken}: this replica has stopped until the node starts again; another in-sync replica takes over if there is one"
                )
            }
            InstanceEffect::Flush(stage) => self.outlet.stage_waits.flush(stage),
            InstanceEffect::SplitRegion(large) => self.outlet.split_region(large),
            InstanceEffect::Drained { keyspace, map } => {
                self.outlet.send_to_manager(InstanceMessage::Drained {
                    instance: self.outlet.this_member,
                    keyspace,
                    map,
                })
            }
        }
    }
}

impl OutletEffects<'_, '_> {
    fn answer(&mut self, to: Token, place: AnswerOrigin, message: &Message<'_>) {
        if to.connection & UNIT_TOKEN_BIT != 0 {
            return self.outlet.answered.push((to.request.0, UnitAnswer::of(message)));
        }
        self.outlet.latencies.answered(to);
        self.outlet.stage_waits.answered(to);
        let AnswerOrigin { keyspace, partition, epoch, read_lock_us } = place;
        let connection = ConnectionId::from_u64(to.connection);
        let token = RequestToken { connection, request: to.request, keyspace, partition };
        self.replies.answer_read_locked(token, (epoch, read_lock_us), message);
    }

    fn drop_request(&mut self, to: Token) {
        self.outlet.latencies.dropped(to);
        self.outlet.stage_waits.dropped(to);
        // Nothing is sent, so these fields of the answer are not read.
        let (keyspace, partition) = (KeyspaceId::NONE, PartitionId(0));
        let connection = ConnectionId::from_u64(to.connection);
        self.replies.drop_request(RequestToken { connection, request: to.request, keyspace, partition });
    }
}
