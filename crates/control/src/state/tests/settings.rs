//! The settings of a keyspace that may change, and the contents that a snapshot may have.

use zerohop_placement::Separators;

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
fn alteration_of_ordered_keyspace_keeps_separators_and_is_short() {
    let mut bench = StateBench::new(1, Durability::Interval { ms: 100 });
    let separators = Separators::new((1..1000_u32).map(u32::to_be_bytes)).unwrap();
    let config = KeyspaceConfig::new("events".parse().unwrap(), 6).fitted_to(1);
    let config = config.divided_at(separators.clone());
    let made = bench.done(ControlCommand::CreateKeyspace(config.clone())).outcome.result.unwrap();
    let id = KeyspaceId(made.number as u32);
    let altered = KeyspaceConfig { durability: Durability::Sync, ..config };
    let bytes = bench.done(ControlCommand::AlterKeyspace(id, altered.clone())).delta.unwrap().encode().len();
    assert!(bytes < 100, "{bytes} bytes");
    assert_eq!(bench.state.map().keyspace(id).unwrap().config(), &altered);
    assert_eq!(
        bench.done(ControlCommand::AlterKeyspace(id, altered.clone())).delta,
        None,
        "it is so already"
    );
    let other = altered.divided_at(Separators::new(["b"]).unwrap());
    let refusal = bench.refused(ControlCommand::AlterKeyspace(id, other));
    assert!(matches!(&refusal, CommandRefusal::Map(why) if why.contains("set of separators")), "{refusal:?}");
    let refusal = bench.refused(ControlCommand::SplitKeyspace(id));
    assert!(
        matches!(&refusal, CommandRefusal::Map(why) if why.contains("region split NAME --at")),
        "{refusal:?}"
    );
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
