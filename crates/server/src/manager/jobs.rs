//! Control requests, one after the other: decided, saved, sent to every instance, and only then answered.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, timeout};
use tracing::{error, info, warn};
use zerohop_placement::{MapChange, MapDelta};
use zerohop_system::clock::{Stopwatch, unix_ms};
use zerohop_system::repeated::RepeatedEvent;
use zerohop_wire::admin::{
    AdminAnswer, AdminDone, AdminQuestion, AdminReply, AdminRequest, KeyspaceStatus, LossesAcknowledge,
    REFUSED_FAILED, REFUSED_REQUEST, REFUSED_UNFOLLOWED, REFUSED_UNKNOWN,
};
use zerohop_wire::escaped::quoted;
use zerohop_wire::ids::{KeyspaceId, MapEpoch};
use zerohop_wire::plurals::counted;

use super::changes::{self, DecidedChange};
use super::data_losses::DataLosses;
use super::instances::{self, apply_map_change};
use super::keyspace_commands::decide;
use super::shared::ManagerShared;
use super::{clustered, groups, keyspace_drop, status, tokens, watches};
use crate::control_job::{ControlJob, ReplyTo};
use crate::folder::NodeFolder;
use crate::instance::{Figures, InstanceNotice};
use crate::limits::{DROP_AGAIN, DROP_CHECK_INTERVAL, INBOX_FULL_PAUSE, MAP_WAIT, REFUSALS_LOG_INTERVAL_MS};
use crate::node_files::losses::SavedLosses;
use crate::node_files::persisted::SavedNode;

/// Changes the map of a standalone node; in a cluster it has the control group do so.
pub(super) struct JobWorker {
    shared: Rc<ManagerShared>,
    standalone: Option<LoneNode>,
}

/// The state of a standalone node.
struct LoneNode {
    folder: NodeFolder,
    next_keyspace: KeyspaceId,
    losses: SavedLosses,
    /// Changes that could not be saved, with times since `started`.
    unsaved: RepeatedEvent,
    started: Stopwatch,
}

impl JobWorker {
    pub(super) fn standalone(
        shared: Rc<ManagerShared>,
        folder: NodeFolder,
        next_keyspace: KeyspaceId,
        losses: SavedLosses,
    ) -> Self {
        let (unsaved, started) = (RepeatedEvent::new(REFUSALS_LOG_INTERVAL_MS), Stopwatch::start());
        let alone = LoneNode { folder, next_keyspace, losses, unsaved, started };
        let worker = JobWorker { shared, standalone: Some(alone) };
        worker.report_losses();
        if !worker.shared.losses.borrow().all.is_empty() {
            warn!("data may be missing after an unclean shutdown: `zerohop status` lists the keyspaces");
        }
        worker
    }

    pub(super) fn in_cluster(shared: Rc<ManagerShared>) -> Self {
        JobWorker { shared, standalone: None }
    }

    /// Executes requests as they arrive. It ends with the manager.
    pub(super) async fn run(mut self, mut jobs: mpsc::Receiver<ControlJob>) {
        while let Some(ControlJob { encoded, access, reply }) = self.next(&mut jobs).await {
            let request = AdminRequest::from_bytes(&encoded);
            if let Ok(AdminRequest { query: Some(query) }) = &request {
                let permitted = tokens::check_access(self.shared.history.borrow().map(), access, query);
                if let Err(refused) = permitted {
                    send(&self.shared, reply, refused).await;
                    continue;
                }
            }
            match request {
                // A query need not wait for changes, nor changes for an instance that is slow to report.
                Ok(AdminRequest { query: Some(AdminQuestion::Status(_)) }) => {
                    let shared = Rc::clone(&self.shared);
                    spawn_local(async move {
                        let status = status::collect_status(&shared).await;
                        send(&shared, reply, AdminAnswer::of(AdminReply::Status(Box::new(status)))).await;
                    });
                }
                Ok(AdminRequest { query: Some(AdminQuestion::ListWatches(list)) }) => {
                    let shared = Rc::clone(&self.shared);
                    spawn_local(async move {
                        let answer = watches::list(&shared, &list).await;
                        send(&shared, reply, answer).await;
                    });
                }
                Ok(AdminRequest { query: Some(AdminQuestion::ListPartitions(list)) }) => {
                    let pins = clustered::pins(&self.shared, &list.keyspace).await;
                    let answer = groups::list(self.shared.history.borrow().map(), &list, pins.as_ref());
                    send(&self.shared, reply, answer).await;
                }
                Ok(AdminRequest { query: Some(AdminQuestion::ListTokens(_)) }) => {
                    let answer = tokens::list(self.shared.history.borrow().map());
                    send(&self.shared, reply, answer).await;
                }
                // The control group orders these requests, and may take long.
                Ok(AdminRequest { query: Some(query) }) if self.standalone.is_none() => {
                    let shared = Rc::clone(&self.shared);
                    spawn_local(async move {
                        let answer = clustered::change(&shared, query).await;
                        send(&shared, reply, answer).await;
                    });
                }
                Ok(AdminRequest { query: Some(query) }) => {
                    let answer = self.change(query).await;
                    send(&self.shared, reply, answer).await;
                }
                Ok(AdminRequest { query: None }) => {
                    let reason =
                        "this node does not know such a request: it may be older than the program that asks";
                    send(&self.shared, reply, AdminAnswer::refused(REFUSED_REQUEST, reason)).await;
                }
                Err(failure) => {
                    let answer = AdminAnswer::refused(REFUSED_REQUEST, failure.to_string());
                    send(&self.shared, reply, answer).await;
                }
            }
        }
    }

    /// The next request. While it waits, it drops keyspaces that are drained, and expires tokens; in a cluster the control group does that.
    async fn next(&mut self, jobs: &mut mpsc::Receiver<ControlJob>) -> Option<ControlJob> {
        loop {
            self.expire_tokens().await;
            let dropping = changes::draining_keyspaces(self.shared.history.borrow().map());
            let expires = self.shared.history.borrow().map().expiring().next().is_some();
            if self.standalone.is_none() || (dropping.is_empty() && !expires) {
                return jobs.recv().await;
            }
            if let Ok(job) = timeout(DROP_AGAIN, jobs.recv()).await {
                return job;
            }
            if self.shared.unserved_reason().is_some() {
                continue;
            }
            for keyspace in dropping {
                // A client that requests the drop gets the reason why the keyspace still exists, and a failed change is logged.
                drop(self.drop_when_drained(None, keyspace, Duration::ZERO).await);
            }
        }
    }

    async fn change(&mut self, query: AdminQuestion) -> AdminAnswer {
        if let Some(reason) = self.shared.unserved_reason() {
            return AdminAnswer::refused(REFUSED_FAILED, format!("nothing can be changed now: {reason}"));
        }
        if let AdminQuestion::AcknowledgeLosses(request) = &query {
            return self.acknowledge_losses(request);
        }
        let changed = tokens::change(self.shared.history.borrow().map(), &query, unix_ms());
        if let Some(change) = changed {
            return match change {
                Ok(change) => self.change_tokens(vec![change]).await,
                Err(refused) => refused,
            };
        }
        let next_keyspace = self.standalone.as_ref().map_or(KeyspaceId::NONE, |alone| alone.next_keyspace);
        let drop_wait = match &query {
            AdminQuestion::DropKeyspace(request) => Some(keyspace_drop::wait(request)),
            _ => None,
        };
        let decided = match decide(&self.shared, query, next_keyspace) {
            Ok(decided) => decided,
            Err(refusal) => return refusal.into_answer(),
        };
        let DecidedChange { delta, keyspace } = decided;
        let closes = |delta: &MapDelta| matches!(delta.changes[..], [MapChange::BeginDropKeyspace(_)]);
        if let Some(wait) = drop_wait
            && delta.as_ref().is_none_or(closes)
        {
            return self.drop_when_drained(delta, keyspace, wait).await;
        }
        let done = AdminAnswer::of(AdminReply::Keyspace(Box::new(keyspace)));
        let Some(delta) = delta else { return done };
        match self.save_and_apply(Arc::new(delta)).await {
            Ok(()) => done,
            Err(answer) => answer,
        }
    }

    /// Has the status report the losses of a standalone node.
    fn report_losses(&self) {
        let Some(alone) = &self.standalone else { return };
        let node = self.shared.node.get();
        let all = Arc::new(alone.losses.by_partition(self.shared.history.borrow().map(), node));
        self.shared.losses.replace(DataLosses { all, node: Some(node), ..DataLosses::default() });
    }

    /// Ends the report of losses that the operator knows.
    fn acknowledge_losses(&mut self, request: &LossesAcknowledge) -> AdminAnswer {
        let map = self.shared.history.borrow().map().clone();
        let Some(alone) = &mut self.standalone else {
            return AdminAnswer::of(AdminReply::Done(AdminDone::default()));
        };
        let keyspace = match map.keyspace_named(&request.keyspace) {
            _ if request.keyspace.is_empty() => KeyspaceId::NONE,
            Some((id, _)) => id,
            None => {
                let reason = format!("there is no keyspace {:?}", request.keyspace);
                return AdminAnswer::refused(REFUSED_UNKNOWN, reason);
            }
        };
        let mut left = alone.losses.clone();
        let number = left.acknowledge(&map, keyspace, MapEpoch(request.map_epoch));
        if left != alone.losses {
            if let Err(error) = alone.folder.save_losses(&left) {
                return AdminAnswer::refused(REFUSED_FAILED, format!("this could not be saved: {error}"));
            }
            alone.losses = left;
            self.report_losses();
        }
        AdminAnswer::of(AdminReply::Done(AdminDone { map_epoch: map.epoch().0, number }))
    }

    /// Closes a keyspace, unless that is done, waits until it is drained, and drops it.
    async fn drop_when_drained(
        &mut self,
        close: Option<MapDelta>,
        keyspace: KeyspaceStatus,
        wait: Duration,
    ) -> AdminAnswer {
        if let Some(close) = close
            && let Err(answer) = self.save_and_apply(Arc::new(close)).await
        {
            return answer;
        }
        let due = Instant::now() + wait;
        let id = KeyspaceId(keyspace.id);
        loop {
            let figures = instances::figures(self.shared.instances()).await;
            let is_drained = |one: &Option<Box<Figures>>| {
                one.as_ref()
                    .is_some_and(|figures| figures.stats.keyspaces.get(&id).is_some_and(|one| one.is_drained))
            };
            if figures.iter().all(is_drained) {
                break;
            }
            if Instant::now() >= due {
                let all = self.shared.instances().iter().zip(&figures);
                let waits = all.filter(|(_, one)| !is_drained(one)).map(|(one, _)| one.id.to_string());
                let waits = format!("instance {}", waits.collect::<Vec<_>>().join(", "));
                return keyspace_drop::under_way(&keyspace, &waits);
            }
            sleep(DROP_CHECK_INTERVAL).await;
        }
        let from = self.shared.history.borrow().map().epoch();
        let delta = MapDelta { from, to: from.next(), changes: vec![MapChange::DropKeyspace(id)] };
        match self.save_and_apply(Arc::new(delta)).await {
            Ok(()) => AdminAnswer::of(AdminReply::Keyspace(Box::new(keyspace))),
            Err(answer) => answer,
        }
    }

    async fn expire_tokens(&mut self) {
        if self.standalone.is_none() || self.shared.unserved_reason().is_some() {
            return;
        }
        let expired = tokens::expired(self.shared.history.borrow().map(), unix_ms());
        if !expired.is_empty() {
            // A failed change is logged, and repeated later.
            drop(self.change_tokens(expired).await);
        }
    }

    async fn change_tokens(&mut self, changes: Vec<MapChange>) -> AdminAnswer {
        let from = self.shared.history.borrow().map().epoch();
        let delta = MapDelta { from, to: from.next(), changes };
        match self.save_and_apply(Arc::new(delta)).await {
            Ok(()) => AdminAnswer::of(AdminReply::Done(AdminDone { map_epoch: from.next().0, number: 0 })),
            Err(refused) => refused,
        }
    }

    /// Saves a change, then has all instances apply it.
    async fn save_and_apply(&mut self, delta: Arc<MapDelta>) -> Result<(), AdminAnswer> {
        let failed = |reason: String| Err(AdminAnswer::refused(REFUSED_FAILED, reason));
        let Some(alone) = &mut self.standalone else {
            return failed("the control group changes the map of this node".to_owned());
        };
        let map = self.shared.history.borrow().map().apply(&delta);
        let map = match map {
            Ok(map) => Arc::new(map),
            Err(error) => return failed(error.to_string()),
        };
        let next_keyspace = match delta.changes.first() {
            Some(MapChange::CreateKeyspace { id, .. }) => KeyspaceId(id.0.saturating_add(1)),
            _ => alone.next_keyspace,
        };
        let (cluster, node) = (self.shared.cluster.get(), self.shared.node.get());
        let saved = SavedNode { cluster, node, next_keyspace, map: Arc::clone(&map) };
        if let Err(error) = alone.folder.save(&saved) {
            // Clients repeat the request many times a second.
            if let Some(attempts) = alone.unsaved.record(alone.started.elapsed_ms(), 1) {
                error!(%error, attempts, "a change of the map could not be saved");
            }
            self.shared.record_alert(format!("a change of the map could not be saved: {error}"));
            return failed(format!("the change could not be saved, and was not made: {error}"));
        }
        alone.next_keyspace = next_keyspace;
        if let Err(error) = self.shared.history.borrow_mut().push(&delta) {
            return failed(error.to_string());
        }
        info!(epoch = map.epoch().0, change = describe(&delta), "the map has changed");
        // A split has changed the number of partitions.
        self.report_losses();
        let faults = apply_map_change(self.shared.instances(), &delta, &map, MAP_WAIT).await;
        if faults.is_empty() {
            return Ok(());
        }
        let faults: Vec<String> =
            faults.iter().map(|(id, reason)| format!("instance {id}: {reason}")).collect();
        let text = format!("the change is made (map epoch {}), but {}", map.epoch(), faults.join("; "));
        error!(reason = text, "not every instance has followed a change of the map");
        self.shared.record_alert(text.clone());
        Err(AdminAnswer::refused(REFUSED_UNFOLLOWED, text))
    }
}

/// Sends an answer to the client, if it still waits.
async fn send(shared: &ManagerShared, reply: ReplyTo, mut answer: AdminAnswer) {
    answer.map_epoch = shared.history.borrow().map().epoch().0;
    let encoded = answer.to_bytes();
    match reply {
        ReplyTo::NoClient => {
            if let AdminAnswer { answer: Some(AdminReply::Refused(refused)), .. } = &answer {
                warn!(reason = refused.reason, "a change that an instance requested is refused");
            }
        }
        ReplyTo::Here { envelope, sender } => drop(sender.try_send((envelope, encoded))),
        ReplyTo::Instance { instance_index: place, request_number: query } => {
            // Instances accept requests before the manager knows that they serve.
            let due = Instant::now() + MAP_WAIT;
            while shared.instances().is_empty() && Instant::now() < due {
                sleep(INBOX_FULL_PAUSE).await;
            }
            if let Some(instance) = shared.instances().get(place) {
                instance
                    .leave(
                        InstanceNotice::Admin { request_number: query, encoded },
                        Instant::now() + MAP_WAIT,
                    )
                    .await;
            }
        }
    }
}

fn describe(delta: &MapDelta) -> String {
    let words = delta.changes.iter().map(|change| match change {
        MapChange::CreateKeyspace { id, config, .. } => format!("keyspace {} ({id}) created", config.name),
        MapChange::AlterKeyspace { id, config } => format!("keyspace {} ({id}) altered", config.name),
        MapChange::DropKeyspace(id) => format!("keyspace {id} dropped"),
        MapChange::BeginDropKeyspace(id) => format!("keyspace {id} is being dropped"),
        MapChange::SplitKeyspace(id) => format!("keyspace {id} split"),
        MapChange::SplitRegion { keyspace, region, separator, .. } => {
            format!("region {region} of keyspace {keyspace} split at {}", quoted(separator))
        }
        MapChange::BeginSplit { keyspace, .. } => format!("keyspace {keyspace} is to be split"),
        MapChange::CancelSplit(id) => format!("the split of keyspace {id} is given up"),
        MapChange::HasRegions { keyspace, table } => {
            format!("keyspace {keyspace} has {}", counted(table.live().len(), "region"))
        }
        MapChange::HasSplit { keyspace, splits } => {
            format!("keyspace {keyspace} was split {}", counted(*splits, "time"))
        }
        MapChange::PutToken(token) if token.has_expired() => {
            format!("token {} ({:016x}) has expired", token.name, token.id)
        }
        MapChange::PutToken(token) => format!("token {} ({:016x}) put", token.name, token.id),
        MapChange::RemoveToken(id) => format!("token {id:016x} revoked"),
        MapChange::PutNode(node) => format!("node {} put", node.id),
        MapChange::RemoveNode(id) => format!("node {id} removed"),
        MapChange::SetGroup { keyspace, partition, .. } => {
            format!("group of partition {partition} of keyspace {keyspace} set")
        }
    });
    words.collect::<Vec<_>>().join(", ")
}
