//! Bugs that can be planted, so that a test can show that the simulator finds them. Without the feature `planted-bugs`
//! there are none: the checks are constants.

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A write that comes again is evaluated again: nobody looks into the session table.
    SessionsNotConsulted,
    /// A write's answer does not wait for its entry to be durable.
    AnswersBeforeFlush,
    /// A write is evaluated over what is committed, and does not see what is appended.
    OverlayNotSeen,
    /// Reads and refused writes do not wait for what they were evaluated over.
    ReadsUncommitted,
    /// A session lets go of the outcome that it must still have.
    WindowOneTooFar,
    /// A start does not take the sessions over.
    SessionsForgottenAtStart,
    /// Nobody looks at what waits for a record when that changes.
    WaitsNotWoken,
    /// A request is taken up whatever epoch it names.
    EpochNotChecked,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 8] = [
        Bug::SessionsNotConsulted,
        Bug::AnswersBeforeFlush,
        Bug::OverlayNotSeen,
        Bug::ReadsUncommitted,
        Bug::WindowOneTooFar,
        Bug::SessionsForgottenAtStart,
        Bug::WaitsNotWoken,
        Bug::EpochNotChecked,
    ];
}

#[cfg(feature = "planted-bugs")]
mod chosen {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug in the partitions of this thread, or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    pub(crate) fn is_planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(feature = "planted-bugs")]
pub(crate) use chosen::is_planted;
#[cfg(feature = "planted-bugs")]
pub use chosen::plant;

#[cfg(not(feature = "planted-bugs"))]
pub(crate) const fn is_planted(_: Bug) -> bool {
    false
}
