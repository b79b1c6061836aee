//! Hand-written histories, correct and wrong.

use super::*;

const X: u64 = 1;
const Y: u64 = 2;

fn append(key: u64, value: u64) -> CheckedAction {
    CheckedAction::Append { key, value }
}

fn read(key: u64, values: &[u64]) -> CheckedAction {
    CheckedAction::Read { key, values: values.to_vec() }
}

fn committed(begin: u64, end: u64, actions: &[CheckedAction]) -> Transaction {
    Transaction { begin, end: Some(end), fate: TransactionFate::Committed, actions: actions.to_vec() }
}

fn cycle_of(history: &[Transaction]) -> Vec<EdgeReason> {
    match check(history) {
        Err(Anomaly::Cycle(edges)) => {
            let mut why: Vec<EdgeReason> = edges.into_iter().map(|(_, _, why)| why).collect();
            why.sort_unstable();
            why
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_serial_history_is_right() {
    let history = [
        committed(0, 1, &[append(X, 1), append(Y, 2)]),
        committed(2, 3, &[read(X, &[1]), append(Y, 3)]),
        committed(4, 5, &[read(X, &[1]), read(Y, &[2, 3])]),
    ];
    assert_eq!(check(&history), Ok(()));
}

#[test]
fn concurrent_transactions_may_have_happened_in_any_order() {
    let history = [
        committed(0, 9, &[append(X, 1)]),
        committed(0, 9, &[read(X, &[])]),
        committed(0, 9, &[read(X, &[1])]),
    ];
    assert_eq!(check(&history), Ok(()));
}

#[test]
fn stale_read_is_found() {
    let history = [committed(0, 1, &[append(X, 1)]), committed(2, 3, &[read(X, &[])])];
    assert_eq!(cycle_of(&history), [EdgeReason::ReadWrite, EdgeReason::RealTime]);
}

#[test]
fn lost_update_is_found() {
    let history = [
        committed(0, 9, &[read(X, &[]), append(X, 1)]),
        committed(0, 9, &[read(X, &[]), append(X, 2)]),
        committed(10, 11, &[read(X, &[1, 2])]),
    ];
    assert_eq!(cycle_of(&history), [EdgeReason::WriteWrite, EdgeReason::ReadWrite]);
}

#[test]
fn partially_visible_transaction_is_found() {
    let history =
        [committed(0, 9, &[append(X, 1), append(Y, 2)]), committed(0, 9, &[read(X, &[1]), read(Y, &[])])];
    assert_eq!(cycle_of(&history), [EdgeReason::WriteRead, EdgeReason::ReadWrite]);
}

#[test]
fn write_skew_is_found() {
    let history = [
        committed(0, 9, &[read(X, &[]), append(Y, 1)]),
        committed(0, 9, &[read(Y, &[]), append(X, 2)]),
        committed(10, 11, &[read(X, &[2]), read(Y, &[1])]),
    ];
    assert_eq!(cycle_of(&history), [EdgeReason::ReadWrite, EdgeReason::ReadWrite]);
}

#[test]
fn contradictory_write_order_of_two_lists_is_found() {
    let history = [
        committed(0, 9, &[append(X, 1), append(Y, 2)]),
        committed(0, 9, &[append(X, 3), append(Y, 4)]),
        committed(10, 11, &[read(X, &[1, 3]), read(Y, &[4, 2])]),
    ];
    assert_eq!(cycle_of(&history), [EdgeReason::WriteWrite, EdgeReason::WriteWrite]);
}

#[test]
fn write_missing_in_later_read_is_found() {
    let writer = Transaction {
        end: None,
        fate: TransactionFate::Unknown,
        ..committed(0, 0, &[append(X, 1), append(Y, 2)])
    };
    let history = [writer, committed(1, 2, &[read(X, &[1])]), committed(3, 4, &[read(Y, &[])])];
    assert_eq!(cycle_of(&history), [EdgeReason::WriteRead, EdgeReason::ReadWrite, EdgeReason::RealTime]);
}

#[test]
fn lost_acknowledged_write_is_found() {
    let history = [
        committed(0, 1, &[append(X, 1)]),
        committed(2, 3, &[append(X, 2)]),
        committed(4, 5, &[read(X, &[2])]),
    ];
    assert_eq!(cycle_of(&history), [EdgeReason::WriteWrite, EdgeReason::RealTime]);
}

#[test]
fn anomaly_without_cycle_is_reported() {
    let aborted = Transaction { fate: TransactionFate::Aborted, ..committed(0, 1, &[append(X, 1)]) };
    let history = [aborted, committed(2, 3, &[read(X, &[1])])];
    assert_eq!(check(&history), Err(Anomaly::AbortedRead { reader: 1, value: 1 }));
    let history = [committed(2, 3, &[read(X, &[7])])];
    assert_eq!(check(&history), Err(Anomaly::Phantom { reader: 0, value: 7 }));
    let history = [committed(0, 1, &[append(X, 1)]), committed(2, 3, &[read(X, &[1, 1])])];
    assert_eq!(check(&history), Err(Anomaly::Duplicate { reader: 1, value: 1 }));
    let writers = [committed(0, 9, &[append(X, 1)]), committed(0, 9, &[append(X, 2)])];
    let readers = [committed(0, 9, &[read(X, &[1])]), committed(0, 9, &[read(X, &[2])])];
    let history = [writers, readers].concat();
    assert_eq!(check(&history), Err(Anomaly::Incompatible { one: 2, other: 3, key: X }));
}

#[test]
fn unseen_unknown_and_aborted_transactions_are_accepted() {
    let unknown =
        Transaction { end: None, fate: TransactionFate::Unknown, ..committed(0, 0, &[append(X, 1)]) };
    let aborted = Transaction { fate: TransactionFate::Aborted, ..committed(0, 1, &[append(X, 2)]) };
    let history = [unknown, aborted, committed(2, 3, &[read(X, &[])])];
    assert_eq!(check(&history), Ok(()));
}

#[test]
fn intermediate_read_is_found() {
    let writer = committed(0, 9, &[append(X, 1), append(X, 2)]);
    let reader = committed(0, 9, &[read(X, &[1])]);
    assert_eq!(check(&[writer, reader]), Err(Anomaly::Intermediate { reader: 1, value: 1 }));
    let writer = committed(0, 9, &[write(X, 1, None), write(X, 2, Some(5))]);
    let reader = committed(0, 9, &[read_action(X, 1, 5)]);
    assert_eq!(check(&[writer, reader]), Err(Anomaly::Intermediate { reader: 1, value: 1 }));
}

#[test]
fn transaction_must_read_its_own_writes() {
    let own = committed(0, 9, &[read(X, &[]), append(X, 1), read(X, &[1]), append(X, 2), read(X, &[1, 2])]);
    assert_eq!(check(&[own]), Ok(()));
    let own = committed(0, 9, &[append(X, 1), read(X, &[])]);
    assert_eq!(check(&[own]), Err(Anomaly::Internal { reader: 0, key: X }));
    let own = committed(
        0,
        9,
        &[write(X, 1, Some(4)), read_action(X, 1, 4), write(Y, 2, Some(4)), read_action(Y, 3, 4)],
    );
    assert_eq!(check(&[own]), Err(Anomaly::Internal { reader: 0, key: Y }));
}

fn write(key: u64, value: u64, version: Option<u64>) -> CheckedAction {
    CheckedAction::Write { key, value, version }
}

fn read_action(key: u64, value: u64, version: u64) -> CheckedAction {
    CheckedAction::Look { key, value, version }
}

#[test]
fn versions_order_register_writes() {
    let history = [
        committed(0, 1, &[write(X, 1, Some(10))]),
        // Only the transaction that has read it proves that it took effect.
        Transaction { end: None, fate: TransactionFate::Unknown, ..committed(2, 0, &[write(X, 2, None)]) },
        committed(3, 4, &[read_action(X, 2, 20)]),
        committed(5, 6, &[write(X, 3, Some(30))]),
        committed(7, 8, &[read_action(X, 3, 30)]),
    ];
    assert_eq!(check(&history), Ok(()));
    let mut late = history.clone();
    late[4] = committed(7, 8, &[read_action(X, 2, 20)]);
    assert_eq!(cycle_of(&late), [EdgeReason::ReadWrite, EdgeReason::RealTime]);
    let mut out_of_order = history.clone();
    out_of_order[3] = committed(5, 6, &[write(X, 3, Some(5))]);
    out_of_order[4] = committed(7, 8, &[read_action(X, 3, 5)]);
    assert!(matches!(check(&out_of_order), Err(Anomaly::Cycle(_))));
}

#[test]
fn value_and_version_must_match_one_to_one() {
    let history = [committed(0, 1, &[write(X, 1, Some(10))]), committed(0, 9, &[read_action(X, 1, 11)])];
    assert_eq!(check(&history), Err(Anomaly::Versions { one: 0, other: 1, key: X }));
    let history = [committed(0, 1, &[write(X, 1, Some(10))]), committed(0, 1, &[write(X, 2, Some(10))])];
    assert_eq!(check(&history), Err(Anomaly::Versions { one: 0, other: 1, key: X }));
    assert_eq!(
        check(&[committed(0, 9, &[read_action(X, 7, 1)])]),
        Err(Anomaly::Phantom { reader: 0, value: 7 })
    );
}

#[test]
fn lost_updates_and_write_skew_of_registers_are_found() {
    let first = committed(0, 1, &[write(X, 1, Some(1)), write(Y, 2, Some(1))]);
    let lost = [
        first.clone(),
        committed(2, 9, &[read_action(X, 1, 1), write(X, 3, Some(3))]),
        committed(2, 9, &[read_action(X, 1, 1), write(X, 4, Some(4))]),
    ];
    assert_eq!(cycle_of(&lost), [EdgeReason::WriteWrite, EdgeReason::ReadWrite]);
    let skew = [
        first,
        committed(2, 9, &[read_action(X, 1, 1), write(Y, 3, Some(3))]),
        committed(2, 9, &[read_action(Y, 2, 1), write(X, 4, Some(4))]),
    ];
    assert_eq!(cycle_of(&skew), [EdgeReason::ReadWrite, EdgeReason::ReadWrite]);
}

/// The class that the checker reports for a history.
fn class_of(history: &[Transaction]) -> CycleClass {
    match check(history) {
        Err(Anomaly::Cycle(edges)) => CycleClass::of(&edges),
        other => panic!("{other:?}"),
    }
}

#[test]
fn simplest_cycle_is_reported_with_its_class() {
    let writes = [
        committed(0, 9, &[append(X, 1), append(Y, 2)]),
        committed(0, 9, &[append(X, 3), append(Y, 4)]),
        committed(10, 11, &[read(X, &[1, 3]), read(Y, &[4, 2])]),
    ];
    assert_eq!(class_of(&writes), CycleClass::G0);
    let flows =
        [committed(0, 9, &[append(X, 1), read(Y, &[2])]), committed(0, 9, &[append(Y, 2), read(X, &[1])])];
    assert_eq!(class_of(&flows), CycleClass::G1c);
    let half =
        [committed(0, 9, &[append(X, 1), append(Y, 2)]), committed(0, 9, &[read(X, &[1]), read(Y, &[])])];
    assert_eq!(class_of(&half), CycleClass::GSingle);
    let skew = [
        committed(0, 9, &[read(X, &[]), append(Y, 1)]),
        committed(0, 9, &[read(Y, &[]), append(X, 2)]),
        committed(10, 11, &[read(X, &[2]), read(Y, &[1])]),
    ];
    assert_eq!(class_of(&skew), CycleClass::G2);
    // All four at once, on separate lists.
    let shifted = |history: &[Transaction], by: u64| -> Vec<Transaction> {
        let key = |key: u64| key + by;
        let of = |action: &CheckedAction| match action {
            CheckedAction::Append { key: list, value } => append(key(*list), *value),
            CheckedAction::Read { key: list, values } => read(key(*list), values),
            other => other.clone(),
        };
        history
            .iter()
            .map(|one| Transaction { actions: one.actions.iter().map(of).collect(), ..one.clone() })
            .collect()
    };
    let all = [shifted(&skew, 0), shifted(&half, 10), shifted(&flows, 20), shifted(&writes, 30)];
    assert_eq!(class_of(&all.concat()), CycleClass::G0);
    assert_eq!(class_of(&all[..3].concat()), CycleClass::G1c);
    assert_eq!(class_of(&all[..2].concat()), CycleClass::GSingle);
}

#[test]
fn real_time_violation_is_found_across_many_transactions() {
    // One after the other, without overlap: the first reads as if the last had not run.
    let mut history: Vec<Transaction> =
        (0..2_000).map(|at| committed(at * 2, at * 2 + 1, &[append(X, at)])).collect();
    let all: Vec<u64> = (0..2_000).collect();
    history.push(committed(5_000, 5_001, &[read(X, &all)]));
    assert_eq!(check(&history), Ok(()));
    history.push(committed(6_000, 6_001, &[read(X, &all[..1_999])]));
    // By way of the transaction that has read it between the two.
    assert_eq!(cycle_of(&history), [EdgeReason::WriteRead, EdgeReason::ReadWrite, EdgeReason::RealTime]);
}
