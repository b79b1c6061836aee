//! Timers of the session's objects.
//!
//! Most timers never fire, because an operation is answered long before its deadline. Each position of a table therefore has one timer, which is
//! only ever moved to an earlier time. When it fires, the object at that position says when to look next. An operation that is submitted and
//! answered within the period of the one before it costs one comparison.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use zerohop_base::time::Time;

/// The object of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// The operation at this position.
    Operation(u32),
    /// The connection at this position.
    Connection(u32),
    /// The composite operation at this position.
    Composite(u32),
    /// The requests for the map and the opening of a session.
    Maintenance,
}

#[derive(Debug)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Time, Subject)>>,
    operations: Vec<Time>,
    connections: Vec<Time>,
    composite: Vec<Time>,
    maintenance: Time,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            operations: Vec::new(),
            connections: Vec::new(),
            composite: Vec::new(),
            maintenance: Time::NEVER,
        }
    }

    /// When the timer of the operation at this position fires.
    pub(crate) fn of_operation(&self, index: u32) -> Time {
        self.operations.get(index as usize).copied().unwrap_or(Time::NEVER)
    }

    /// Sets a timer that fires at `due` or before.
    #[inline]
    pub(crate) fn arm(&mut self, subject: Subject, due: Time) {
        let armed = self.armed(subject);
        if due < *armed {
            *armed = due;
            self.heap.push(Reverse((due, subject)));
        }
    }

    /// Removes and returns an object whose timer has fired. It has no timer until it is armed again.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Subject> {
        loop {
            let Reverse((due, subject)) = *self.heap.peek()?;
            if due > now {
                return None;
            }
            self.heap.pop();
            let armed = self.armed(subject);
            if *armed == due {
                *armed = Time::NEVER;
                return Some(subject);
            }
        }
    }

    /// The earliest time at which [`Self::pop`] may find something.
    pub(crate) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((due, _))| *due)
    }

    fn armed(&mut self, subject: Subject) -> &mut Time {
        let (table, index) = match subject {
            Subject::Operation(index) => (&mut self.operations, index as usize),
            Subject::Connection(index) => (&mut self.connections, index as usize),
            Subject::Composite(index) => (&mut self.composite, index as usize),
            Subject::Maintenance => return &mut self.maintenance,
        };
        if index >= table.len() {
            table.resize(index + 1, Time::NEVER);
        }
        &mut table[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_moves_forward_and_fires_once() {
        let mut timers = Timers::new();
        timers.arm(Subject::Operation(3), Time(50));
        timers.arm(Subject::Operation(3), Time(80));
        timers.arm(Subject::Operation(3), Time(20));
        timers.arm(Subject::Connection(3), Time(30));
        assert_eq!((timers.next(), timers.pop(Time(19))), (Some(Time(20)), None));
        assert_eq!(timers.pop(Time(60)), Some(Subject::Operation(3)));
        assert_eq!(timers.pop(Time(60)), Some(Subject::Connection(3)));
        assert_eq!(timers.pop(Time(60)), None);
        timers.arm(Subject::Operation(3), Time(80));
        assert_eq!(timers.pop(Time(80)), Some(Subject::Operation(3)));
    }

    #[test]
    fn rearmed_timer_uses_one_heap_entry() {
        let mut timers = Timers::new();
        for start in 0..1000 {
            timers.arm(Subject::Operation(0), Time(start + 5000));
        }
        assert_eq!(timers.heap.len(), 1);
    }
}
