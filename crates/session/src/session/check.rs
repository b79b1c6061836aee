//! The invariants of a session, checked at the end of every turn in builds with debug assertions: tests and simulations.

use zerohop_base::invariant::{BrokenInvariant, check_rules};

use super::Session;
use crate::operation::OperationState;

/// Everything is checked at one of so many turns.
const ALL_EVERY: u32 = 32;

/// The owner of these invariants.
pub(super) const SESSION: &str = "a session";

/// Checks the session at the end of a turn.
///
/// # Panics
/// With debug assertions, if an invariant is broken.
pub(super) fn check_turn<T>(session: &mut Session<T>) {
    if !cfg!(debug_assertions) || crate::planted::is_any_planted() {
        return;
    }
    let checked = if session.check_turn.is_due(ALL_EVERY) { check_all(session) } else { check(session) };
    if let Err(broken) = checked {
        panic!("{broken}");
    }
}

/// Checks what costs the same for every session.
///
/// # Errors
/// The broken invariant.
fn check<T>(session: &Session<T>) -> Result<(), BrokenInvariant> {
    let is_idle = session.outstanding() == 0;
    session.connections.check()?;
    check_rules(
        SESSION,
        [
            (
                !is_idle || session.operations.counts_no_bytes(),
                "a session without operations counts no bytes of them",
            ),
            (!session.closed || is_idle, "a closed session has no operations"),
        ],
    )
}

/// Checks each part, and what parts say about each other.
///
/// # Errors
/// The broken invariant.
fn check_all<T>(session: &Session<T>) -> Result<(), BrokenInvariant> {
    let Session { operations, composites, connections, numbering, timers, .. } = session;
    check(session)?;
    connections.check_all()?;
    operations.check_all(composites.bytes(), timers)?;
    numbering.check_all(operations)?;
    let flies = |state| match state {
        OperationState::InFlight { in_flight, .. } => connections.frames.get(in_flight).is_some(),
        _ => true,
    };
    let all_fly = operations.iter().all(|(_, operation)| flies(operation.state));
    check_rules(SESSION, [(all_fly, "an operation that was sent is in a frame in flight")])
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use zerohop_base::time::Time;
    use zerohop_placement::Address;
    use zerohop_wire::ids::{KeyspaceId, PartitionId, Sequence, SessionId, Timestamp};

    use super::*;
    use crate::effect::SessionEffect;
    use crate::operation::AssignedSequence;
    use crate::request::{RequestedOperation, SessionRequest};
    use crate::request_kind::RequestKind;
    use crate::sequence_window::SequenceWindow;
    use crate::settings::SessionSettings;
    use crate::slots::Handle;

    const ISSUED: SessionId = SessionId { issued: Timestamp(1), nonce: 1 };

    /// A session with one connection, whose greeting is in flight, and one write, which has a number.
    fn session() -> (Session<u32>, Handle) {
        let endpoint = Address::new("127.0.0.1:7400").expect("is an address");
        let mut session = Session::new(SessionSettings::new(&[endpoint], 1));
        let item = Bytes::from_static(b"an item");
        let write = RequestKind::Record { keyspace: KeyspaceId(1), item, write: true, wait: false };
        let operation = RequestedOperation::Single(write);
        let request = SessionRequest { operation, limit_us: 1_000_000, collecting: Default::default() };
        session.submit(Time(1), request, 7);
        let mut effects = Vec::new();
        session.step(Time(1), &mut effects);
        let connect = |effect: &SessionEffect<u32>| match effect {
            SessionEffect::Connect { connection, .. } => Some(*connection),
            _ => None,
        };
        let id = effects.iter().find_map(connect).expect("opens a connection");
        session.connected(Time(2), id);
        session.step(Time(2), &mut effects);
        let (handle, _) = session.operations.iter().next().expect("waits");
        let window = session.numbering.window((KeyspaceId(1), PartitionId(0)));
        window.begin(ISSUED, Time(1), 0);
        let (sequence, lowest) = (window.next_number(), window.lowest_open());
        let operation = session.operations.get_mut(handle).expect("waits");
        operation.partition = Some(PartitionId(0));
        operation.stamp = Some(AssignedSequence { session: ISSUED, sequence, lowest });
        (session, handle)
    }

    /// The rules that are broken after this change: of the check of every turn, and of all.
    fn broken_by(
        change: impl FnOnce(&mut Session<u32>, Handle),
    ) -> (Option<&'static str>, Option<&'static str>) {
        let (mut session, handle) = session();
        assert_eq!(check_all(&session), Ok(()));
        change(&mut session, handle);
        let rule = |checked: Result<(), BrokenInvariant>| checked.err().map(|broken| broken.rule);
        (rule(check(&session)), rule(check_all(&session)))
    }

    #[test]
    fn turn_check_names_each_broken_invariant() {
        let both = |rule| (Some(rule), Some(rule));
        let found = broken_by(|session, handle| {
            let operation = session.operations.remove(handle).expect("waits");
            session.operations.add_bytes(operation.request.bytes());
        });
        assert_eq!(found, both("a session without operations counts no bytes of them"));
        let found = broken_by(|session, _| session.connections.mark_dirty(0));
        assert_eq!(found, both("a turn visits each connection that has something to send"));
        let found = broken_by(|session, _| session.closed = true);
        assert_eq!(found, both("a closed session has no operations"));
    }

    #[test]
    fn full_check_names_each_broken_invariant() {
        let only_all = |rule| (None, Some(rule));
        let found = broken_by(|session, _| session.operations.add_bytes(1));
        assert_eq!(found, only_all("the bytes of the operations are counted"));
        let found = broken_by(|session, _| session.connections.existing(0).unanswered.add_overdue());
        assert_eq!(found, only_all("each connection counts its frames in flight"));
        let found = broken_by(|session, handle| {
            let operation = session.operations.get_mut(handle).expect("waits");
            let (due, look) = (operation.deadline, operation.deadline);
            // No frame has the handle of another table's value with such a position.
            let in_flight = Handle::unpack(u64::MAX).0;
            operation.state = OperationState::InFlight { in_flight, due, look };
        });
        assert_eq!(found, only_all("an operation that was sent is in a frame in flight"));
        let found = broken_by(|session, handle| {
            session.operations.get_mut(handle).expect("waits").deadline = Time(3);
        });
        assert_eq!(found, only_all("each operation has a timer that fires when it is due"));
        let window = |session: &mut Session<u32>, change: fn(&mut SequenceWindow)| {
            change(session.numbering.window((KeyspaceId(1), PartitionId(0))));
        };
        let found = broken_by(|session, _| window(session, SequenceWindow::close_first_unseen));
        assert_eq!(found, only_all("a window begins with an open number and is bounded"));
        let found = broken_by(|session, _| window(session, |one| one.close(ISSUED, Sequence(1))));
        assert_eq!(found, only_all("the number of a write is open until the write ends"));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "an invariant of a session is broken: a closed session has no operations")]
    fn a_turn_ends_with_a_check() {
        let (mut session, _) = session();
        session.closed = true;
        session.step(Time(3), &mut Vec::new());
    }
}
