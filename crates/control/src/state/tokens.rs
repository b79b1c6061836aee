//! Tokens are put, and expire. The leader alone decides by its clock that a token has expired, and the
//! command records that for all others. No other manager and no node uses its own clock for it, so that all
//! agree, and an expired token stays expired.

use zerohop_placement::{MapChange, TokenEntry, TokenExpiry};

use super::{ControlState, MapDraft};
use crate::command::{CommandRefusal, ControlCommand};

/// Puts a token that has not expired yet: only [`ControlCommand::ExpireToken`] expires a token.
pub(super) fn put_token(token: &TokenEntry, draft: &mut MapDraft) -> Result<u64, CommandRefusal> {
    if token.has_expired() {
        return Err(CommandRefusal::Map("a token is not made when its time is over".into()));
    }
    draft.changes.push(MapChange::PutToken(token.clone()));
    Ok(token.id)
}

impl ControlState {
    /// Whether any token is to expire.
    pub fn has_expiring(&self) -> bool {
        self.map().expiring().next().is_some()
    }

    /// The commands to propose at this time, in milliseconds since 1970.
    pub(crate) fn expiries(&self, unix_ms: u64) -> Vec<ControlCommand> {
        let due = self.map().expiring().filter(|(_, at_ms)| *at_ms <= unix_ms);
        due.map(|(token, at_ms)| ControlCommand::ExpireToken { token, at_ms }).collect()
    }

    /// Expires a token, unless it has been replaced since by a token that expires later, or never.
    pub(super) fn expire_token(
        &self,
        id: u64,
        at_ms: u64,
        draft: &mut MapDraft,
    ) -> Result<u64, CommandRefusal> {
        let due = self
            .map()
            .tokens()
            .find(|token| token.id == id)
            .filter(|token| token.expiry == Some(TokenExpiry { at_ms, has_passed: false }));
        let due = due.ok_or_else(|| CommandRefusal::Map("no token of this number expires then".into()))?;
        draft.changes.push(MapChange::PutToken(due.clone().expired()));
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use zerohop_placement::{Grant, Permissions};
    use zerohop_wire::AuthFault;
    use zerohop_wire::ids::KeyspaceId;

    use super::*;
    use crate::command::{CommandRequest, RequestId};

    fn token(id: u64, name: &str) -> TokenEntry {
        let grant = Grant { keyspace: KeyspaceId::NONE, permissions: Permissions::ALL };
        TokenEntry::new(id, name.parse().unwrap(), vec![grant]).unwrap()
    }

    fn apply(state: &mut ControlState, command: ControlCommand) -> Result<(), CommandRefusal> {
        let id = RequestId { origin: 1, number: state.applied_count() + 1 };
        let applied = state.apply(&CommandRequest { id, after: state.applied_count(), command });
        // A manager that starts from a snapshot has the complete state.
        if state.applied_count() < 20 {
            assert_eq!(ControlState::decode(&state.encode()).unwrap(), *state);
        }
        applied.outcome.result.map(|_| ())
    }

    #[test]
    fn token_expires_once_and_only_at_its_current_expiry() {
        let mut state = ControlState::new(Vec::new());
        apply(&mut state, ControlCommand::PutToken(token(1, "ever"))).unwrap();
        apply(&mut state, ControlCommand::PutToken(token(2, "lent").until(500))).unwrap();
        assert_eq!(state.expiries(499), []);
        let expire = ControlCommand::ExpireToken { token: 2, at_ms: 500 };
        assert_eq!(state.expiries(500), std::slice::from_ref(&expire));
        // The operator has put the token again since: the command about the old time is too late.
        apply(&mut state, ControlCommand::PutToken(token(2, "lent").until(900))).unwrap();
        assert!(matches!(apply(&mut state, expire), Err(CommandRefusal::Map(_))));
        assert!(state.map().token(2).is_ok() && state.has_expiring());
        let expire = ControlCommand::ExpireToken { token: 2, at_ms: 900 };
        apply(&mut state, expire.clone()).unwrap();
        assert_eq!(state.map().token(2), Err(AuthFault::TokenExpired));
        // An expired token stays expired, whatever the clock is later, and however often the command is
        // repeated.
        assert!(!state.has_expiring() && state.expiries(u64::MAX).is_empty());
        assert!(matches!(apply(&mut state, expire), Err(CommandRefusal::Map(_))));
        for (id, at_ms) in [(1, 0), (3, 900)] {
            assert!(apply(&mut state, ControlCommand::ExpireToken { token: id, at_ms }).is_err(), "{id}");
        }
        assert!(state.map().token(1).is_ok());
        // Only the leader expires a token.
        assert!(apply(&mut state, ControlCommand::PutToken(token(4, "d").until(1).expired())).is_err());
        apply(&mut state, ControlCommand::RemoveToken(2)).unwrap();
        assert_eq!(state.map().token(2), Err(AuthFault::Token));
    }

    #[test]
    fn expired_token_frees_its_name_and_slot() {
        let mut state = ControlState::new(Vec::new());
        for id in 1..=1024 {
            apply(&mut state, ControlCommand::PutToken(token(id, &format!("t{id}")).until(2000 - id)))
                .unwrap();
        }
        assert!(
            apply(&mut state, ControlCommand::PutToken(token(2000, "t7"))).is_err(),
            "the name is another's"
        );
        assert!(
            apply(&mut state, ControlCommand::PutToken(token(2000, "new"))).is_err(),
            "there is no place"
        );
        for command in state.expiries(2000 - 7) {
            apply(&mut state, command).unwrap();
        }
        assert!(state.map().token(6).is_ok());
        apply(&mut state, ControlCommand::PutToken(token(2000, "t7"))).unwrap();
        assert_eq!(state.map().token(7), Err(AuthFault::Token));
        // The token that expired first.
        apply(&mut state, ControlCommand::PutToken(token(2001, "new"))).unwrap();
        assert_eq!(state.map().token(1024), Err(AuthFault::Token));
        assert_eq!(state.map().token(1023), Err(AuthFault::TokenExpired));
        assert_eq!(state.map().tokens().len(), 1024);
    }
}
