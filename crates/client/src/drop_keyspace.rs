//! The drop of a keyspace, which goes on whether or not anybody waits for it.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};
use zerohop_session::SessionError as Reason;
use zerohop_wire::admin::{
    AdminAnswer, AdminQuestion, AdminRefusal, AdminReply, AdminRequest, KeyspaceDrop, KeyspaceStatus,
    REFUSED_CLOSING, REFUSED_FAILED, REFUSED_UNKNOWN,
};

use crate::client::{Client, micros};
use crate::error::Error;
use crate::limits::{DROP_ANSWER_MAX, DROP_NOT_NOW_MAX, DROP_PAUSE};

/// How a keyspace is dropped.
#[derive(Clone, Copy, Debug)]
pub struct DropOptions {
    /// Whatever is under way there. Transactions over it and others may be undone in the others, though they were acknowledged.
    pub at_once: bool,
    /// How long to wait until it is gone.
    pub wait: Duration,
}

impl Client {
    /// Drops a keyspace with all that is in it, and waits until it is gone, until the client's deadline: first the transactions over
    /// it that are under way end.
    ///
    /// # Errors
    /// [`Error::UnderWay`] if it is not gone by then: the drop goes on. [`Error::Refused`] if there is none of this name.
    pub async fn drop_keyspace(&self, name: &str) -> Result<(), Error> {
        let options = DropOptions { at_once: false, wait: self.options().deadline };
        self.drop_keyspace_with(name, options, |_| ()).await.map(drop)
    }

    /// The same, waiting so long. Says what it was, and meanwhile, whenever that changes, what the drop waits for.
    ///
    /// # Errors
    /// As there.
    pub async fn drop_keyspace_with(
        &self,
        name: &str,
        options: DropOptions,
        mut tell: impl FnMut(&str),
    ) -> Result<KeyspaceStatus, Error> {
        let now = Instant::now();
        let (due, not_now) = (now + options.wait, now + self.options().deadline.min(DROP_NOT_NOW_MAX));
        let mut begun: Option<StartedDrop> = None;
        loop {
            let left = due.saturating_duration_since(Instant::now());
            let ask = KeyspaceDrop {
                name: name.to_owned(),
                at_once: options.at_once,
                // Another that has the name by now is not meant.
                id: begun.as_ref().map_or(0, |begun| begun.id),
                wait_ms: Some(u32::try_from(left.as_millis()).unwrap_or(u32::MAX)),
            };
            match self.ask_for_drop(ask, left).await {
                Ok(AdminReply::Keyspace(keyspace)) => return Ok(keyspace),
                Ok(AdminReply::Refused(AdminRefusal { code, reason, keyspace })) => match &*code {
                    REFUSED_CLOSING => {
                        if begun.as_ref().is_none_or(|begun| begun.waits_for != reason) {
                            tell(&reason);
                        }
                        begun = Some(StartedDrop { id: keyspace, waits_for: reason });
                    }
                    // It went between two questions.
                    REFUSED_UNKNOWN if begun.is_some() => {
                        return Ok(KeyspaceStatus { name: name.to_owned(), ..KeyspaceStatus::default() });
                    }
                    // A node that has just been started still reads its data.
                    REFUSED_FAILED if Instant::now() < not_now => sleep(DROP_PAUSE).await,
                    _ => return Err(Error::Refused { code: code.into(), reason: reason.into() }),
                },
                Ok(_) => return Err(Error::Unexpected),
                // Whom it has asked is away, and the drop goes on without them.
                Err(error) => match &begun {
                    Some(_) if may_pass(&error) => sleep(DROP_PAUSE).await,
                    _ => return Err(error),
                },
            }
            if let Some(StartedDrop { waits_for, .. }) = &begun
                && Instant::now() >= due
            {
                let (keyspace, reason) = (name.into(), waits_for.as_str().into());
                return Err(Error::UnderWay { keyspace, waited: options.wait, reason });
            }
        }
    }

    /// Asks a manager once, who answers when it is done or when so much time has passed.
    async fn ask_for_drop(&self, ask: KeyspaceDrop, left: Duration) -> Result<AdminReply, Error> {
        // At once everybody has to follow before it is answered.
        let longest = if ask.at_once { Duration::MAX } else { left + DROP_ANSWER_MAX };
        let limit = self.options().deadline.min(longest);
        let request = Bytes::from(AdminRequest::of(AdminQuestion::DropKeyspace(ask)).to_bytes());
        let answer = self.admin_within(request, micros(limit)).await?;
        let answer = AdminAnswer::from_bytes(&answer).map_err(|_| Error::Unexpected)?;
        answer.answer.ok_or(Error::Unexpected)
    }
}

/// A drop of which a manager has said that it is under way.
#[derive(Debug)]
struct StartedDrop {
    id: u32,
    waits_for: String,
}

/// Whether somebody else, or the same later, may answer.
fn may_pass(error: &Error) -> bool {
    matches!(error.reason(), Some(Reason::Deadline { .. } | Reason::Unknown { .. }))
}
