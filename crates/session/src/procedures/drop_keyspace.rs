//! The drop of a keyspace. It continues in the cluster even if no client waits for it.

use std::time::Duration;

use crate::SessionError as Reason;
use bytes::Bytes;
use zerohop_wire::admin::{
    AdminAnswer, AdminQuestion, AdminRefusal, AdminReply, AdminRequest, KeyspaceDrop, KeyspaceStatus,
    REFUSED_DROPPING, REFUSED_FAILED, REFUSED_UNKNOWN,
};

use super::cluster_handle::{ClusterHandle, micros};
use super::error::Error;
use super::limits::{DROP_ANSWER_MAX, DROP_NOT_NOW_MAX, DROP_PAUSE};

/// Options for the drop of a keyspace.
#[derive(Clone, Copy, Debug)]
pub struct DropOptions {
    /// Drop the keyspace without waiting for pending work. Transactions over it and other keyspaces may be undone in the others, even if they were
    /// acknowledged.
    pub at_once: bool,
    /// How long the call waits until the keyspace is gone.
    pub wait: Duration,
}

impl ClusterHandle {
    /// Drops a keyspace with all its contents, and waits until it is gone, up to the client's deadline. The cluster first lets the pending
    /// transactions over the keyspace finish.
    ///
    /// # Errors
    /// [`Error::UnderWay`] if the keyspace is not gone within the deadline; the drop continues. [`Error::Refused`] if there is no keyspace of this
    /// name, or, with [`Error::is_unknown`], if the control group has not decided in time.
    pub async fn drop_keyspace(&self, name: &str) -> Result<(), Error> {
        let options = DropOptions { at_once: false, wait: self.settings().deadline };
        self.drop_keyspace_with(name, options, |_| ()).await.map(drop)
    }

    /// Same as [`ClusterHandle::drop_keyspace`], with options. Returns what the keyspace was. Whenever the reason for the wait changes, the client reports
    /// it to the caller.
    ///
    /// # Errors
    /// Same as [`ClusterHandle::drop_keyspace`].
    pub async fn drop_keyspace_with(
        &self,
        name: &str,
        options: DropOptions,
        mut tell: impl FnMut(&str),
    ) -> Result<KeyspaceStatus, Error> {
        let now = self.now();
        let not_now = now.after_us(micros(self.settings().deadline.min(DROP_NOT_NOW_MAX)));
        let due = now.after_us(micros(options.wait));
        let mut begun: Option<StartedDrop> = None;
        loop {
            let left = Duration::from_micros(due.since_us(self.now()));
            let query = KeyspaceDrop {
                name: name.to_owned(),
                at_once: options.at_once,
                // The id makes sure that the request does not drop a newer keyspace of the same name.
                id: begun.as_ref().map_or(0, |begun| begun.id),
                wait_ms: Some(u32::try_from(left.as_millis()).unwrap_or(u32::MAX)),
            };
            match self.send_drop_request(query, left).await {
                Ok(AdminReply::Keyspace(keyspace)) => return Ok(*keyspace),
                Ok(AdminReply::Refused(AdminRefusal { code, reason, keyspace })) => match &*code {
                    REFUSED_DROPPING => {
                        if begun.as_ref().is_none_or(|begun| begun.waits_for != reason) {
                            tell(&reason);
                        }
                        begun = Some(StartedDrop { id: keyspace, waits_for: reason });
                    }
                    // The drop was completed between two requests.
                    REFUSED_UNKNOWN if begun.is_some() => {
                        return Ok(KeyspaceStatus { name: name.to_owned(), ..KeyspaceStatus::default() });
                    }
                    // A node that has just been started is still reading its data.
                    REFUSED_FAILED if self.now() < not_now => self.sleep(DROP_PAUSE).await,
                    _ => return Err(Error::Refused { code: code.into(), reason: reason.into() }),
                },
                Ok(_) => return Err(Error::Unexpected),
                // The manager is unreachable, but the drop continues without it.
                Err(error) => match &begun {
                    Some(_) if is_retryable(&error) => self.sleep(DROP_PAUSE).await,
                    _ => return Err(error),
                },
            }
            if let Some(StartedDrop { waits_for, .. }) = &begun
                && self.now() >= due
            {
                let (keyspace, reason) = (name.into(), waits_for.as_str().into());
                return Err(Error::UnderWay { keyspace, waited: options.wait, reason });
            }
        }
    }

    /// Sends one request to a manager. The manager replies when the drop is complete or when the given time is over.
    async fn send_drop_request(&self, query: KeyspaceDrop, left: Duration) -> Result<AdminReply, Error> {
        // A drop without waiting is answered only once every node follows it.
        let longest = if query.at_once { Duration::MAX } else { left + DROP_ANSWER_MAX };
        let limit = self.settings().deadline.min(longest);
        let request = Bytes::from(AdminRequest::of(AdminQuestion::DropKeyspace(query)).to_bytes());
        let answer = self.admin_within(request, micros(limit)).await?;
        let answer = AdminAnswer::from_bytes(&answer).map_err(|_| Error::Unexpected)?;
        answer.answer.ok_or(Error::Unexpected)
    }
}

/// A drop that a manager has reported as in progress.
#[derive(Debug)]
struct StartedDrop {
    id: u32,
    waits_for: String,
}

/// Whether another manager, or the same manager later, may reply.
fn is_retryable(error: &Error) -> bool {
    matches!(error.reason(), Some(Reason::Deadline { .. } | Reason::Unknown { .. }))
}
