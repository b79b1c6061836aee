//! Control requests, one after the other: decided, saved, told to every instance, and only then answered.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, timeout};
use tracing::{error, info};
use zerohop_placement::{Change, MapDelta};
use zerohop_wire::admin::{
    AdminAnswer, AdminRequest, Answer, Ask, Done, KeyspaceStatus, REFUSED_FAILED, REFUSED_REQUEST,
};
use zerohop_wire::ids::KeyspaceId;

use super::changes::{self, Decided, Refusal, Situation};
use super::instances::{self, tell};
use super::shared::Shared;
use super::{Job, ReplyTo, closing, clustered, groups, status, tokens};
use crate::clock::unix_ms;
use crate::entropy::random_u64;
use crate::instance::{Figures, Notice};
use crate::server::limits::{DROP_AGAIN, DROP_LOOK, INBOX_FULL_PAUSE, MAP_WAIT};
use crate::server::{NodeFolder, SavedNode};

/// Alone changes the map of a node that stands alone; in a cluster it has the control group do so.
pub(super) struct Worker {
    shared: Rc<Shared>,
    alone: Option<Alone>,
}

/// What a node that stands alone decides by itself.
struct Alone {
    folder: NodeFolder,
    next_keyspace: KeyspaceId,
}

impl Worker {
    pub(super) fn alone(shared: Rc<Shared>, folder: NodeFolder, next_keyspace: KeyspaceId) -> Self {
        Worker { shared, alone: Some(Alone { folder, next_keyspace }) }
    }

    pub(super) fn in_cluster(shared: Rc<Shared>) -> Self {
        Worker { shared, alone: None }
    }

    /// Carries out what comes. It ends with the manager.
    pub(super) async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        while let Some(Job { encoded, access, reply }) = self.next(&mut jobs).await {
            let request = AdminRequest::from_bytes(&encoded);
            if let Ok(AdminRequest { ask: Some(ask) }) = &request {
                let permitted = tokens::may_ask(self.shared.history.borrow().map(), access, ask);
                if let Err(refused) = permitted {
                    send(&self.shared, reply, refused).await;
                    continue;
                }
            }
            match request {
                // Questions need not wait for changes, nor changes for those who are slow to say how they stand.
                Ok(AdminRequest { ask: Some(Ask::Status(_)) }) => {
                    let shared = Rc::clone(&self.shared);
                    spawn_local(async move {
                        let status = status::gather(&shared).await;
                        send(&shared, reply, AdminAnswer::of(Answer::Status(Box::new(status)))).await;
                    });
                }
                Ok(AdminRequest { ask: Some(Ask::ListPartitions(list)) }) => {
                    let pins = clustered::pins(&self.shared, &list.keyspace).await;
                    let answer = groups::list(self.shared.history.borrow().map(), &list, pins.as_ref());
                    send(&self.shared, reply, answer).await;
                }
                Ok(AdminRequest { ask: Some(Ask::ListTokens(_)) }) => {
                    let answer = tokens::list(self.shared.history.borrow().map());
                    send(&self.shared, reply, answer).await;
                }
                // The control group puts them in order, and may take its time.
                Ok(AdminRequest { ask: Some(ask) }) if self.alone.is_none() => {
                    let shared = Rc::clone(&self.shared);
                    spawn_local(async move {
                        let answer = clustered::change(&shared, ask).await;
                        send(&shared, reply, answer).await;
                    });
                }
                Ok(AdminRequest { ask: Some(ask) }) => {
                    let answer = self.change(ask).await;
                    send(&self.shared, reply, answer).await;
                }
                Ok(AdminRequest { ask: None }) => {
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

    /// What comes next. Meanwhile keyspaces that are being dropped go, and tokens expire: in a cluster the control group sees to
    /// that.
    async fn next(&mut self, jobs: &mut mpsc::Receiver<Job>) -> Option<Job> {
        loop {
            self.expire_tokens().await;
            let closing = changes::closing(self.shared.history.borrow().map());
            let expires = self.shared.history.borrow().map().expiring().next().is_some();
            if self.alone.is_none() || (closing.is_empty() && !expires) {
                return jobs.recv().await;
            }
            if let Ok(job) = timeout(DROP_AGAIN, jobs.recv()).await {
                return job;
            }
            if self.shared.why_not().is_some() {
                continue;
            }
            for keyspace in closing {
                // Whoever asks for it is told why it is not gone, and a change that fails is logged.
                drop(self.drop_when_drained(None, keyspace, Duration::ZERO).await);
            }
        }
    }

    async fn change(&mut self, ask: Ask) -> AdminAnswer {
        if let Some(reason) = self.shared.why_not() {
            return AdminAnswer::refused(REFUSED_FAILED, format!("nothing can be changed now: {reason}"));
        }
        // A node that stands alone goes on with what its disks have, and says by itself what is damaged.
        if let Ask::AcknowledgeLosses(_) = &ask {
            return AdminAnswer::of(Answer::Done(Done::default()));
        }
        let changed = tokens::change(self.shared.history.borrow().map(), &ask, unix_ms());
        if let Some(change) = changed {
            return match change {
                Ok(change) => self.change_tokens(vec![change]).await,
                Err(refused) => refused,
            };
        }
        let next_keyspace = self.alone.as_ref().map_or(KeyspaceId::NONE, |alone| alone.next_keyspace);
        let drop_wait = match &ask {
            Ask::DropKeyspace(asked) => Some(closing::wait(asked)),
            _ => None,
        };
        let decided = match decide(&self.shared, ask, next_keyspace) {
            Ok(decided) => decided,
            Err(refusal) => return refusal.into_answer(),
        };
        let Decided { delta, keyspace } = decided;
        let closes = |delta: &MapDelta| matches!(delta.changes[..], [Change::CloseKeyspace(_)]);
        if let Some(wait) = drop_wait
            && delta.as_ref().is_none_or(closes)
        {
            return self.drop_when_drained(delta, keyspace, wait).await;
        }
        let done = AdminAnswer::of(Answer::Keyspace(keyspace));
        let Some(delta) = delta else { return done };
        match self.carry_out(Arc::new(delta)).await {
            Ok(()) => done,
            Err(answer) => answer,
        }
    }

    /// Closes a keyspace, unless that was done, waits until nothing is under way there, and drops it.
    async fn drop_when_drained(
        &mut self,
        close: Option<MapDelta>,
        keyspace: KeyspaceStatus,
        wait: Duration,
    ) -> AdminAnswer {
        if let Some(close) = close
            && let Err(answer) = self.carry_out(Arc::new(close)).await
        {
            return answer;
        }
        let due = Instant::now() + wait;
        let id = KeyspaceId(keyspace.id);
        loop {
            let figures = instances::figures(self.shared.instances()).await;
            let is_drained = |one: &Option<Box<Figures>>| {
                one.as_ref().is_some_and(|figures| figures.stats.drained.contains(&id))
            };
            if figures.iter().all(is_drained) {
                break;
            }
            if Instant::now() >= due {
                let all = self.shared.instances().iter().zip(&figures);
                let waits = all.filter(|(_, one)| !is_drained(one)).map(|(one, _)| one.id.to_string());
                let waits = format!("instance {}", waits.collect::<Vec<_>>().join(", "));
                return closing::under_way(&keyspace, &waits);
            }
            sleep(DROP_LOOK).await;
        }
        let from = self.shared.history.borrow().map().epoch();
        let delta = MapDelta { from, to: from.next(), changes: vec![Change::DropKeyspace(id)] };
        match self.carry_out(Arc::new(delta)).await {
            Ok(()) => AdminAnswer::of(Answer::Keyspace(keyspace)),
            Err(answer) => answer,
        }
    }

    async fn expire_tokens(&mut self) {
        if self.alone.is_none() || self.shared.why_not().is_some() {
            return;
        }
        let expired = tokens::expired(self.shared.history.borrow().map(), unix_ms());
        if !expired.is_empty() {
            // A change that fails is logged, and made later.
            drop(self.change_tokens(expired).await);
        }
    }

    async fn change_tokens(&mut self, changes: Vec<Change>) -> AdminAnswer {
        let from = self.shared.history.borrow().map().epoch();
        let delta = MapDelta { from, to: from.next(), changes };
        match self.carry_out(Arc::new(delta)).await {
            Ok(()) => AdminAnswer::of(Answer::Done(Done { map_epoch: from.next().0, number: 0 })),
            Err(refused) => refused,
        }
    }

    /// Saves a change, then has everybody follow it.
    async fn carry_out(&mut self, delta: Arc<MapDelta>) -> Result<(), AdminAnswer> {
        let failed = |reason: String| Err(AdminAnswer::refused(REFUSED_FAILED, reason));
        let Some(alone) = &mut self.alone else {
            return failed("the control group changes the map of this node".to_owned());
        };
        let map = self.shared.history.borrow().map().apply(&delta);
        let map = match map {
            Ok(map) => Arc::new(map),
            Err(error) => return failed(error.to_string()),
        };
        let next_keyspace = match delta.changes.first() {
            Some(Change::CreateKeyspace { id, .. }) => KeyspaceId(id.0.saturating_add(1)),
            _ => alone.next_keyspace,
        };
        let (cluster, node) = (self.shared.cluster.get(), self.shared.node.get());
        let saved = SavedNode { cluster, node, next_keyspace, map: Arc::clone(&map) };
        if let Err(error) = alone.folder.save(&saved) {
            error!(%error, "a change of the map could not be saved");
            self.shared.trouble(format!("a change of the map could not be saved: {error}"));
            return failed(format!("the change could not be saved, and was not made: {error}"));
        }
        alone.next_keyspace = next_keyspace;
        if let Err(error) = self.shared.history.borrow_mut().push(&delta) {
            return failed(error.to_string());
        }
        info!(epoch = map.epoch().0, change = describe(&delta), "the map has changed");
        let faults = tell(self.shared.instances(), &delta, &map, MAP_WAIT).await;
        if faults.is_empty() {
            return Ok(());
        }
        let faults: Vec<String> =
            faults.iter().map(|(id, reason)| format!("instance {id}: {reason}")).collect();
        let text = format!("the change is made (map epoch {}), but {}", map.epoch(), faults.join("; "));
        error!(reason = text, "not every instance has followed a change of the map");
        self.shared.trouble(text.clone());
        failed(text)
    }
}

/// What a request makes of the map, or why not.
pub(super) fn decide(shared: &Shared, ask: Ask, next_keyspace: KeyspaceId) -> Result<Decided, Refusal> {
    let history = shared.history.borrow();
    let now = Situation { map: history.map(), node: shared.node.get(), in_memory: shared.about.in_memory };
    let decided = match ask {
        Ask::CreateKeyspace(settings) => {
            let seed = random_u64().map_err(Refusal::failed)?;
            now.create(&settings, next_keyspace, seed)
        }
        Ask::AlterKeyspace(settings) => now.alter(&settings),
        Ask::DropKeyspace(named) => now.drop(&named),
        Ask::PutToken(_) | Ask::LendToken(_) | Ask::RevokeToken(_) => {
            Err(Refusal::decided("a token is no keyspace"))
        }
        Ask::SetNodeState(_)
        | Ask::RemoveNode(_)
        | Ask::MovePartition(_)
        | Ask::RecoverPartition(_)
        | Ask::AcknowledgeLosses(_)
        | Ask::SetManagers(_) => Err(Refusal::decided("this node stands alone: it is all of its cluster")),
        Ask::Status(_) | Ask::ListPartitions(_) | Ask::ListTokens(_) => {
            Err(Refusal::failed("a question is not a change".to_owned()))
        }
    }?;
    if let Some(delta) = &decided.delta {
        // Whatever rule of maps it breaks is found before anything is done.
        now.map.apply(delta)?;
    }
    Ok(decided)
}

/// Brings an answer to whoever asked, if they still wait.
async fn send(shared: &Shared, reply: ReplyTo, mut answer: AdminAnswer) {
    answer.map_epoch = shared.history.borrow().map().epoch().0;
    let encoded = answer.to_bytes();
    match reply {
        ReplyTo::Here { envelope, sender } => drop(sender.try_send((envelope, encoded))),
        ReplyTo::Instance { place, ask } => {
            // Instances take requests before the manager has heard that they serve.
            let due = Instant::now() + MAP_WAIT;
            while shared.instances().is_empty() && Instant::now() < due {
                sleep(INBOX_FULL_PAUSE).await;
            }
            if let Some(instance) = shared.instances().get(place) {
                instance.leave(Notice::Admin { ask, encoded }, Instant::now() + MAP_WAIT).await;
            }
        }
    }
}

fn describe(delta: &MapDelta) -> String {
    let words = delta.changes.iter().map(|change| match change {
        Change::CreateKeyspace { id, config, .. } => format!("keyspace {} ({id}) created", config.name),
        Change::AlterKeyspace { id, config } => format!("keyspace {} ({id}) altered", config.name),
        Change::DropKeyspace(id) => format!("keyspace {id} dropped"),
        Change::CloseKeyspace(id) => format!("keyspace {id} is being dropped"),
        Change::SplitKeyspace(id) => format!("keyspace {id} split"),
        Change::HasSplit { keyspace, splits } => format!("keyspace {keyspace} was split {splits} times"),
        Change::PutToken(token) if token.has_expired() => {
            format!("token {} ({:016x}) has expired", token.name, token.id)
        }
        Change::PutToken(token) => format!("token {} ({:016x}) put", token.name, token.id),
        Change::RemoveToken(id) => format!("token {id:016x} revoked"),
        Change::PutNode(node) => format!("node {} put", node.id),
        Change::RemoveNode(id) => format!("node {id} removed"),
        Change::SetGroup { keyspace, partition, .. } => {
            format!("group of partition {partition} of keyspace {keyspace} set")
        }
    });
    words.collect::<Vec<_>>().join(", ")
}
