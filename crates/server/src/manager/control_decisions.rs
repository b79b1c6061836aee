//! Commands that the control group decides for this node, and their answers.

use std::rc::Rc;

use tokio::time::timeout;
use zerohop_control::agent::NoOutcome;
use zerohop_control::command::{CommandRefusal, CommandResult, ControlCommand};
use zerohop_wire::admin::{
    AdminAnswer, REFUSED_DECIDED, REFUSED_FAILED, REFUSED_FORGOTTEN, REFUSED_UNDECIDED, REFUSED_UNFOLLOWED,
};
use zerohop_wire::ids::MapEpoch;

use super::shared::ManagerShared;
use crate::limits::MAP_WAIT;

/// Has the control group decide a command, and waits until the instances of this node have applied it.
pub(super) async fn have_decided(
    shared: &Rc<ManagerShared>,
    command: ControlCommand,
) -> Result<CommandResult, AdminAnswer> {
    let Some(cluster) = shared.cluster_handle() else {
        return Err(AdminAnswer::refused(REFUSED_FAILED, "there is no cluster".to_owned()));
    };
    let done = match cluster.operate(command).await {
        Ok(outcome) => outcome.result.map_err(|refusal| refused_command(&refusal))?,
        Err(no_outcome) => return Err(without_outcome(no_outcome)),
    };
    followed(shared, done.epoch).await.map(|()| done)
}

/// Waits until the instances of this node have a map of this epoch.
pub(super) async fn followed(shared: &Rc<ManagerShared>, epoch: MapEpoch) -> Result<(), AdminAnswer> {
    timeout(MAP_WAIT, shared.map_changes.reach(epoch)).await.map_err(|_| {
        let reason = format!(
            "the change is made (map epoch {epoch}), but not every instance of this node has followed it within {MAP_WAIT:?}"
        );
        AdminAnswer::refused(REFUSED_UNFOLLOWED, reason)
    })
}

/// The answer to a command that the control group has refused.
fn refused_command(refusal: &CommandRefusal) -> AdminAnswer {
    let code = match refusal {
        // A retry may succeed a moment later.
        CommandRefusal::StaleIncarnation | CommandRefusal::StaleEpoch { .. } => REFUSED_FAILED,
        // An earlier copy of the request may have been decided.
        CommandRefusal::TooOld => REFUSED_FORGOTTEN,
        _ => REFUSED_DECIDED,
    };
    AdminAnswer::refused(code, refusal.to_string())
}

/// The answer to a command without a known outcome. Only a command that was not accepted has changed nothing.
fn without_outcome(no_outcome: NoOutcome) -> AdminAnswer {
    let code = match no_outcome {
        NoOutcome::TimedOut => REFUSED_UNDECIDED,
        NoOutcome::Busy => REFUSED_FAILED,
    };
    AdminAnswer::refused(code, no_outcome.to_string())
}

#[cfg(test)]
mod tests {
    use zerohop_wire::admin::AdminReply;

    use super::*;

    fn code(answer: AdminAnswer) -> String {
        match answer.answer {
            Some(AdminReply::Refused(refused)) => refused.code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_a_command_that_was_not_accepted_is_answered_as_unchanged() {
        let code = |no_outcome| code(without_outcome(no_outcome));
        assert_eq!(code(NoOutcome::TimedOut), REFUSED_UNDECIDED);
        assert_eq!(code(NoOutcome::Busy), REFUSED_FAILED);
    }

    #[test]
    fn command_whose_outcome_is_forgotten_has_a_code_of_its_own() {
        assert_eq!(code(refused_command(&CommandRefusal::TooOld)), REFUSED_FORGOTTEN);
        assert_eq!(code(refused_command(&CommandRefusal::StaleIncarnation)), REFUSED_FAILED);
        assert_eq!(code(refused_command(&CommandRefusal::UnknownKeyspace)), REFUSED_DECIDED);
    }
}
