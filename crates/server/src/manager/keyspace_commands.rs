//! The effect of a request about keyspaces on the map.

use zerohop_system::entropy::random_u64;
use zerohop_wire::admin::AdminQuestion;
use zerohop_wire::ids::KeyspaceId;

use super::change_refusal::ChangeRefusal;
use super::changes::{ChangeContext, DecidedChange};
use super::shared::ManagerShared;

/// The effect of a request on the map, or the refusal.
pub(super) fn decide(
    shared: &ManagerShared,
    query: AdminQuestion,
    next_keyspace: KeyspaceId,
) -> Result<DecidedChange, ChangeRefusal> {
    let history = shared.history.borrow();
    let now =
        ChangeContext { map: history.map(), node: shared.node.get(), in_memory: shared.about.in_memory };
    let decided = match query {
        AdminQuestion::CreateKeyspace(settings) => {
            let seed = random_u64().map_err(ChangeRefusal::failed)?;
            now.create(&settings, next_keyspace, seed)
        }
        AdminQuestion::AlterKeyspace(settings) => now.alter(&settings),
        AdminQuestion::DropKeyspace(named) => now.drop(&named),
        AdminQuestion::SplitRegion(split) => now.split_region(&split),
        AdminQuestion::PutToken(_) | AdminQuestion::LendToken(_) | AdminQuestion::RevokeToken(_) => {
            Err(ChangeRefusal::decided("a token is no keyspace"))
        }
        AdminQuestion::SetNodeState(_)
        | AdminQuestion::RemoveNode(_)
        | AdminQuestion::MovePartition(_)
        | AdminQuestion::RecoverPartition(_)
        | AdminQuestion::AcknowledgeLosses(_)
        | AdminQuestion::SetManagers(_) => {
            Err(ChangeRefusal::decided("this node stands alone: it is all of its cluster"))
        }
        AdminQuestion::Status(_)
        | AdminQuestion::ListPartitions(_)
        | AdminQuestion::ListTokens(_)
        | AdminQuestion::ListWatches(_) => {
            Err(ChangeRefusal::failed("a question is not a change".to_owned()))
        }
    }?;
    if let Some(delta) = &decided.delta {
        // A violated rule of maps is found before anything is done.
        now.map.apply(delta)?;
    }
    Ok(decided)
}
