//! The manager's end of the way to the instances: messages out, answers back within a time.

use std::cell::Cell;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};
use zerohop_partition::instance::MapChangeError;
use zerohop_placement::{ClusterMap, MapDelta};
use zerohop_wire::ids::InstanceId;

use crate::instance::{Figures, Notice, Recovered};
use crate::reactor::{Mailbox, NotTaken};
use crate::server::limits::{INBOX_FULL_PAUSE, MAP_WAIT, STATS_WAIT};

/// One instance, as the manager knows it.
#[derive(Debug)]
pub(crate) struct InstanceHandle {
    pub(crate) id: InstanceId,
    pub(crate) mailbox: Mailbox<Notice>,
    pub(crate) recovered: Recovered,
    /// It has not said that it took up the last change of the map: it gets the next one as a whole map.
    behind: Cell<bool>,
}

impl InstanceHandle {
    pub(crate) fn new(id: InstanceId, mailbox: Mailbox<Notice>, recovered: Recovered) -> Self {
        InstanceHandle { id, mailbox, recovered, behind: Cell::new(false) }
    }

    /// Leaves a notice, and waits for room until `due`. `false`: there was none, or the instance has ended.
    pub(crate) async fn leave(&self, mut notice: Notice, due: Instant) -> bool {
        loop {
            notice = match self.mailbox.leave(notice) {
                Ok(()) => return true,
                Err(NotTaken::Ended(_)) => return false,
                Err(NotTaken::Full(notice)) if Instant::now() < due => notice,
                Err(NotTaken::Full(_)) => return false,
            };
            sleep(INBOX_FULL_PAUSE).await;
        }
    }
}

/// Tells every instance of a change of the map, and waits until they have taken it up. Returns what went wrong, in
/// words.
pub(super) async fn tell(
    instances: &[InstanceHandle],
    delta: &Arc<MapDelta>,
    map: &ClusterMap,
) -> Vec<(InstanceId, String)> {
    let due = Instant::now() + MAP_WAIT;
    let mut waits = Vec::with_capacity(instances.len());
    for instance in instances {
        let whole = instance.behind.get().then(|| Arc::new(map.to_delta()));
        let (done, answer) = oneshot::channel();
        let notice = Notice::Map { delta: whole.unwrap_or_else(|| Arc::clone(delta)), done };
        instance.behind.set(true);
        waits.push((instance, instance.leave(notice, due).await.then_some(answer)));
    }
    let mut faults = Vec::new();
    for (instance, answer) in waits {
        let reason = match answer {
            None => format!("it takes no message for {MAP_WAIT:?}, or has ended"),
            Some(answer) => match timeout_at(due, answer).await {
                Ok(Ok(Ok(()))) => {
                    instance.behind.set(false);
                    continue;
                }
                Ok(Ok(Err(error @ MapChangeError::Partition(_)))) => {
                    // The map it has; a partition it could not open or remove.
                    instance.behind.set(false);
                    error.to_string()
                }
                Ok(Ok(Err(error))) => error.to_string(),
                Ok(Err(_)) => "it has ended".to_owned(),
                Err(_) => format!("it has not answered for {MAP_WAIT:?}: its disk is slow or stuck"),
            },
        };
        faults.push((instance.id, reason));
    }
    faults
}

/// Asks every instance how it stands. `None` for those that do not answer in time.
pub(super) async fn figures(instances: &[InstanceHandle]) -> Vec<Option<Box<Figures>>> {
    let due = Instant::now() + STATS_WAIT;
    let mut waits = Vec::with_capacity(instances.len());
    for instance in instances {
        let (asker, answer) = oneshot::channel();
        waits.push(instance.leave(Notice::Figures(asker), due).await.then_some(answer));
    }
    let mut figures = Vec::with_capacity(waits.len());
    for answer in waits {
        figures.push(match answer {
            Some(answer) => timeout_at(due, answer).await.ok().and_then(Result::ok),
            None => None,
        });
    }
    figures
}

const _: () = assert!(STATS_WAIT.as_millis() < MAP_WAIT.as_millis() && INBOX_FULL_PAUSE.as_nanos() > 0);
