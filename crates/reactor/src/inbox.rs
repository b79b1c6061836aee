//! The channel from other threads to a reactor's thread: a bounded queue and a waker.

use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::task::Waker;

use super::limits::INBOX_MAX;

/// The sender, with which other threads send notices to a reactor's service. Clones lead to the same reactor.
#[derive(Debug)]
pub struct ReactorMailbox<N> {
    queue: SyncSender<N>,
    waker: Waker,
}

/// The reason why a notice was not accepted; the notice is returned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NoticeError<N> {
    /// [`INBOX_MAX`] notices are already waiting: the sender must retry later.
    Full(N),
    /// The reactor has ended.
    Ended(N),
}

/// The reactor's end of the channel.
#[derive(Debug)]
pub struct Inbox<N> {
    queue: Receiver<N>,
}

impl<N> ReactorMailbox<N> {
    /// Sends a notice and wakes the reactor. Never blocks.
    ///
    /// # Errors
    /// [`NoticeError`], with the notice.
    pub fn leave(&self, notice: N) -> Result<(), NoticeError<N>> {
        self.queue.try_send(notice).map_err(|error| match error {
            TrySendError::Full(notice) => NoticeError::Full(notice),
            TrySendError::Disconnected(notice) => NoticeError::Ended(notice),
        })?;
        self.waker.wake_by_ref();
        Ok(())
    }
}

impl<N> Inbox<N> {
    /// An empty inbox, and the mailbox for other threads. `waker` wakes the thread that reads the inbox.
    #[must_use]
    pub fn new(waker: Waker) -> (ReactorMailbox<N>, Inbox<N>) {
        let (sender, receiver) = sync_channel(INBOX_MAX);
        (ReactorMailbox { queue: sender, waker }, Inbox { queue: receiver })
    }

    /// The next notice; `None` if there is none now, also if all senders are gone.
    pub fn take(&self) -> Option<N> {
        self.queue.try_recv().ok()
    }
}

impl<N> Clone for ReactorMailbox<N> {
    fn clone(&self) -> Self {
        ReactorMailbox { queue: self.queue.clone(), waker: self.waker.clone() }
    }
}

impl<N> fmt::Debug for NoticeError<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoticeError::Full(_) => "Full",
            NoticeError::Ended(_) => "Ended",
        })
    }
}

impl<N> fmt::Display for NoticeError<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoticeError::Full(_) => {
                write!(f, "{INBOX_MAX} messages already wait for this instance: tell it again later")
            }
            NoticeError::Ended(_) => f.write_str("the instance has ended"),
        }
    }
}

impl<N> std::error::Error for NoticeError<N> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_inbox_returns_the_notice_and_closed_one_errors() {
        let (mailbox, inbox) = Inbox::new(Waker::noop().clone());
        for notice in 0..INBOX_MAX {
            mailbox.leave(notice).unwrap();
        }
        assert_eq!(mailbox.clone().leave(7), Err(NoticeError::Full(7)));
        assert_eq!(inbox.take(), Some(0));
        mailbox.leave(INBOX_MAX).unwrap();
        drop(inbox);
        assert_eq!(mailbox.leave(8), Err(NoticeError::Ended(8)));
    }
}
