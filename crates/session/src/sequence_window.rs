//! Sequence numbers of one session in one partition.
//!
//! The session assigns a number when it first puts a write into a frame. The number is *open* until the session has the answer or has given the
//! write up. Every write carries the lowest open number. Below it the partition forgets outcomes and drops requests; a write that was given up can
//! therefore not take effect much later.

use std::collections::VecDeque;

use zerohop_wire::ids::{Sequence, SessionId};
use zerohop_wire::limits::SESSION_WINDOW_MAX;

use crate::slots::Handle;
use zerohop_base::time::Time;

/// The sequence numbers of one partition.
#[derive(Debug)]
pub(crate) struct SequenceWindow {
    /// `NONE` until the first write, and after the partition has forgotten the session.
    pub(crate) session: SessionId,
    /// When the latest answered write was sent: the partition remembers the session from that time on.
    pub(crate) touched: Time,
    /// Minimum time for which the partition remembers the session; 0: the server did not report it.
    pub(crate) idle_us: u64,
    /// Writes that wait for room in the window.
    pub(crate) waiting_writes: VecDeque<Handle>,
    /// The first number of `open`.
    lowest: u64,
    /// Whether each number is open, from the lowest open one on. The first is open, if there is one.
    open: VecDeque<bool>,
}

impl SequenceWindow {
    pub(crate) fn new() -> Self {
        let (waiting, open) = (VecDeque::new(), VecDeque::new());
        Self {
            session: SessionId::NONE,
            touched: Time(0),
            idle_us: 0,
            waiting_writes: waiting,
            lowest: 1,
            open,
        }
    }

    /// Starts at number 1 in a new session. Writes in flight under the old session keep their numbers.
    pub(crate) fn begin(&mut self, session: SessionId, requested_at: Time, idle_us: u64) {
        self.session = session;
        self.touched = requested_at;
        self.idle_us = idle_us;
        self.lowest = 1;
        self.open.clear();
    }

    /// How many numbers can be assigned before the window is full.
    pub(crate) fn free_numbers(&self) -> u64 {
        SESSION_WINDOW_MAX - self.open.len() as u64
    }

    pub(crate) fn next_number(&mut self) -> Sequence {
        assert!(self.free_numbers() > 0, "room is asked for first");
        let sequence = self.lowest + self.open.len() as u64;
        self.open.push_back(true);
        Sequence(sequence)
    }

    pub(crate) fn lowest_open(&self) -> Sequence {
        Sequence(self.lowest)
    }

    /// The window of a partition that was split from this one: open numbers and later ones continue in it.
    pub(crate) fn split(&self, open: impl Iterator<Item = u64>) -> SequenceWindow {
        let SequenceWindow { session, touched, idle_us, lowest, .. } = *self;
        let open_before = self.open.iter().map(|_| false).collect();
        let mut child = SequenceWindow {
            session,
            touched,
            idle_us,
            waiting_writes: VecDeque::new(),
            lowest,
            open: open_before,
        };
        for sequence in open {
            let at = sequence.checked_sub(self.lowest).expect("an open number is not below the lowest");
            *child.open.get_mut(at as usize).expect("only numbers that were taken are open") = true;
        }
        child.skip_closed();
        child
    }

    /// Whether a number is open.
    pub(crate) fn is_open(&self, sequence: Sequence) -> bool {
        let at = sequence.0.checked_sub(self.lowest);
        at.and_then(|at| self.open.get(at as usize)) == Some(&true)
    }

    /// Whether the window begins with an open number, if it has any, and has no more numbers than it may.
    pub(crate) fn is_bounded(&self) -> bool {
        self.open.front() != Some(&false) && self.open.len() as u64 <= SESSION_WINDOW_MAX
    }

    /// Closes the first number and leaves it in the window.
    #[cfg(test)]
    pub(crate) fn close_first_unseen(&mut self) {
        self.open[0] = false;
    }

    fn skip_closed(&mut self) {
        while self.open.front() == Some(&false) {
            self.open.pop_front();
            self.lowest += 1;
        }
    }

    /// Closes a number, which the session will not send again.
    pub(crate) fn close(&mut self, session: SessionId, sequence: Sequence) {
        if session != self.session {
            return;
        }
        let at = sequence.0.checked_sub(self.lowest).expect("a number is closed once");
        let open = self.open.get_mut(at as usize).expect("only numbers that were taken are closed");
        assert!(std::mem::replace(open, false), "a number is closed once");
        self.skip_closed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerohop_wire::ids::Timestamp;

    const SESSION: SessionId = SessionId { issued: Timestamp(1), nonce: 1 };

    #[test]
    fn the_lowest_open_number_passes_over_those_closed_early() {
        let mut window = SequenceWindow::new();
        window.begin(SESSION, Time(0), 0);
        let numbers: Vec<Sequence> = (0..4).map(|_| window.next_number()).collect();
        assert_eq!(numbers, [1, 2, 3, 4].map(Sequence));
        window.close(SESSION, Sequence(3));
        window.close(SESSION, Sequence(2));
        assert_eq!(window.lowest_open(), Sequence(1));
        window.close(SESSION, Sequence(1));
        assert_eq!(window.lowest_open(), Sequence(4));
        window.close(SESSION, Sequence(4));
        assert_eq!((window.lowest_open(), window.next_number()), (Sequence(5), Sequence(5)));
    }

    #[test]
    fn the_window_is_bounded_by_the_lowest_open_number() {
        let mut window = SequenceWindow::new();
        window.begin(SESSION, Time(0), 0);
        while window.free_numbers() > 0 {
            window.next_number();
        }
        window.close(SESSION, Sequence(2));
        assert_eq!(window.free_numbers(), 0);
        window.close(SESSION, Sequence(1));
        assert_eq!((window.free_numbers(), window.lowest_open()), (2, Sequence(3)));
    }

    #[test]
    fn sequence_window_ignores_numbers_of_older_session() {
        let mut window = SequenceWindow::new();
        window.begin(SESSION, Time(0), 0);
        window.next_number();
        window.begin(SessionId { nonce: 2, ..SESSION }, Time(9), 0);
        window.next_number();
        window.close(SESSION, Sequence(1));
        assert_eq!(window.lowest_open(), Sequence(1));
    }
}
