//! The settings of a keyspace that may change, and the contents that a snapshot may have.

use super::*;

#[test]
fn durability_may_change_only_for_single_copy_keyspaces() {
    for (nodes, is_done) in [(1, true), (3, false)] {
        let mut bench = StateBench::new(nodes, Durability::Interval { ms: 100 });
        let config = bench.state.map().keyspace(KEYSPACE).unwrap().config().clone();
        let other = KeyspaceConfig { durability: Durability::Sync, ..config.clone() };
        let result = bench.apply_command(ControlCommand::AlterKeyspace(KEYSPACE, other)).outcome.result;
        assert_eq!(result.is_ok(), is_done, "{result:?}");
        assert_eq!(bench.state.map().keyspace(KEYSPACE).unwrap().config() != &config, is_done);
    }
}

#[test]
fn snapshot_with_exhausted_applied_count_is_refused() {
    let mut state = ControlState::new(Vec::new());
    state.requests.jump(APPLIED_MAX);
    assert_eq!(ControlState::decode(&state.encode()).as_ref(), Ok(&state));
    for by in [1, u64::MAX - APPLIED_MAX - 1] {
        state.requests.jump(by);
        let refused = ControlState::decode(&state.encode()).unwrap_err().to_string();
        assert!(refused.contains("which cannot be"), "{refused}");
    }
}
