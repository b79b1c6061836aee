//! Control requests to a manager.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout};
use zerohop_client::{Client, DropOptions, Reason};
use zerohop_wire::admin::{
    AdminAnswer, AdminQuestion, AdminReply, AdminRequest, DelegateToken, KeyspaceSettings, KeyspaceStatus,
    LossesAcknowledge, ManagersSet, NodeRemove, NodeStateSet, PartitionList, PartitionMove, PartitionRecover,
    PartitionStatus, REFUSED_FAILED, REFUSED_UNFOLLOWED, RegionSplit, Status, StatusGet, TokenList, TokenPut,
    TokenRevoke, TokenStatus, WatchList, Watches, leaves_outcome_open,
};

use super::ending::CommandError;
use super::{interrupt, names, view};
use crate::output;

/// How long to repeat a question to a manager that cannot answer yet; the time-out, if that is
/// shorter.
const NOT_NOW_MAX: Duration = Duration::from_secs(5);

/// How long to wait for the status after a command that is in doubt.
const DOUBT_STATUS_MAX: Duration = Duration::from_secs(2);

/// What a call may take beyond the time-out.
const CALL_GRACE: Duration = Duration::from_millis(200);

/// The pause before it is asked again.
const NOT_NOW_PAUSE: Duration = Duration::from_millis(100);

/// The status of the cluster.
pub(crate) async fn status(client: &Client) -> Result<Status, CommandError> {
    match request_until_answered(client, AdminQuestion::Status(StatusGet {})).await? {
        AdminReply::Status(status) => Ok(*status),
        _ => Err(CommandError::Unexpected),
    }
}

/// Whether a keyspace is dropped, or is being dropped.
pub(crate) async fn is_dropped(client: &Client, name: &str) -> Result<bool, CommandError> {
    let keyspaces = status(client).await?.keyspaces;
    Ok(!keyspaces.iter().any(|keyspace| keyspace.name == name && !keyspace.dropping))
}

/// Creates a keyspace.
pub(crate) async fn create(
    client: &Client,
    settings: KeyspaceSettings,
) -> Result<KeyspaceStatus, CommandError> {
    keyspace(request_until_answered(client, AdminQuestion::CreateKeyspace(settings)).await?)
}

/// Changes a keyspace.
pub(crate) async fn alter(
    client: &Client,
    settings: KeyspaceSettings,
) -> Result<KeyspaceStatus, CommandError> {
    keyspace(request_until_answered(client, AdminQuestion::AlterKeyspace(settings)).await?)
}

/// Removes a keyspace, and returns its settings. Waits at most this long for pending transactions
/// there, and prints that it waits.
pub(crate) async fn drop_keyspace(
    client: &Client,
    name: &str,
    (at_once, wait): (bool, Duration),
) -> Result<KeyspaceStatus, CommandError> {
    let tell = |reason: &str| output::problem(&format!("Waiting up to {wait:?}: {reason}."));
    interrupt::note_sent(output::COMMAND);
    let dropped = client.drop_keyspace_with(name, DropOptions { at_once, wait }, tell).await;
    match dropped {
        Err(zerohop_client::Error::Refused { code, reason }) if &*code == REFUSED_UNFOLLOWED => {
            Err(CommandError::UnderWay(reason.into()))
        }
        Err(error) if error.is_unknown() => Err(in_doubt(client, &reason(&error)).await),
        dropped => Ok(dropped?),
    }
}

/// Sets the state of a node.
pub(crate) async fn set_node_state(client: &Client, node: u32, state: &str) -> Result<(), CommandError> {
    done(
        request_until_answered(
            client,
            AdminQuestion::SetNodeState(NodeStateSet { node, state: state.to_owned() }),
        )
        .await?,
    )
}

/// Removes a node that has no partitions.
pub(crate) async fn remove_node(client: &Client, node: u32) -> Result<(), CommandError> {
    done(request_until_answered(client, AdminQuestion::RemoveNode(NodeRemove { node })).await?)
}

/// Makes these nodes the control group.
pub(crate) async fn set_managers(client: &Client, nodes: Vec<u32>) -> Result<(), CommandError> {
    done(request_until_answered(client, AdminQuestion::SetManagers(ManagersSet { nodes })).await?)
}

/// Makes a token valid, for this long if a time is given.
pub(crate) async fn put_token(
    client: &Client,
    put: TokenPut,
    lasts: Option<Duration>,
) -> Result<(), CommandError> {
    let requested = match lasts {
        Some(lasts) => AdminQuestion::LendToken(DelegateToken {
            put,
            lasts_ms: u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX),
        }),
        None => AdminQuestion::PutToken(put),
    };
    done(request_until_answered(client, requested).await?)
}

/// Revokes a token.
pub(crate) async fn revoke_token(client: &Client, name: &str) -> Result<(), CommandError> {
    done(
        request_until_answered(client, AdminQuestion::RevokeToken(TokenRevoke { name: name.to_owned() }))
            .await?,
    )
}

/// All tokens.
pub(crate) async fn tokens(client: &Client) -> Result<Vec<TokenStatus>, CommandError> {
    match request_until_answered(client, AdminQuestion::ListTokens(TokenList {})).await? {
        AdminReply::Tokens(found) => Ok(found.tokens),
        _ => Err(CommandError::Unexpected),
    }
}

/// The watches of the node that answers; of one keyspace, if its name is not empty.
pub(crate) async fn watches(client: &Client, keyspace: &str) -> Result<Watches, CommandError> {
    let list = WatchList { keyspace: keyspace.to_owned() };
    match request_until_answered(client, AdminQuestion::ListWatches(list)).await? {
        AdminReply::Watches(found) => Ok(found),
        _ => Err(CommandError::Unexpected),
    }
}

/// All partitions of a keyspace, and whether the node that was asked knows the placement overrides.
pub(crate) async fn partitions(
    client: &Client,
    keyspace: &str,
) -> Result<(Vec<PartitionStatus>, bool), CommandError> {
    let mut all = Vec::new();
    loop {
        let list = PartitionList { keyspace: keyspace.to_owned(), first: all.len() as u32 };
        let AdminReply::Partitions(page) =
            request_until_answered(client, AdminQuestion::ListPartitions(list)).await?
        else {
            return Err(CommandError::Unexpected);
        };
        let is_last = page.partitions.is_empty();
        all.extend(page.partitions);
        if is_last || all.len() >= page.count as usize {
            return Ok((all, page.pins_known));
        }
    }
}

/// Has a region begin at a key; returns the keyspace after the split.
pub(crate) async fn split_region(
    client: &Client,
    keyspace: &str,
    separator: &[u8],
) -> Result<KeyspaceStatus, CommandError> {
    let split = RegionSplit {
        keyspace: keyspace.to_owned(),
        separator: separator.to_vec(),
        share: None,
        region: None,
    };
    match request_until_answered(client, AdminQuestion::SplitRegion(split)).await? {
        AdminReply::Keyspace(found) => Ok(*found),
        _ => Err(CommandError::Unexpected),
    }
}

/// One partition of a keyspace; `None`: the keyspace has no partition of this number.
pub(crate) async fn partition(
    client: &Client,
    keyspace: &str,
    partition: u32,
) -> Result<Option<PartitionStatus>, CommandError> {
    // In a hashed keyspace the number is the position in the list.
    let list = PartitionList { keyspace: keyspace.to_owned(), first: partition };
    let page = match request_until_answered(client, AdminQuestion::ListPartitions(list)).await? {
        AdminReply::Partitions(page) => page,
        _ => return Err(CommandError::Unexpected),
    };
    let is_it = |one: &PartitionStatus| one.partition == partition;
    match page.partitions.into_iter().find(is_it) {
        Some(found) => Ok(Some(found)),
        None => Ok(partitions(client, keyspace).await?.0.into_iter().find(is_it)),
    }
}

/// Starts the move of a partition; returns the target instance.
pub(crate) async fn move_partition(client: &Client, request: PartitionMove) -> Result<u32, CommandError> {
    match request_until_answered(client, AdminQuestion::MovePartition(request)).await? {
        AdminReply::Done(done) => u32::try_from(done.number).map_err(|_| CommandError::Unexpected),
        _ => Err(CommandError::Unexpected),
    }
}

/// Recovers a partition without members that will not return; or with its damaged copy, or with
/// another copy.
pub(crate) async fn recover_partition(
    client: &Client,
    keyspace: &str,
    partition: u32,
    keep_damaged: Option<bool>,
) -> Result<(), CommandError> {
    let recover = PartitionRecover { keyspace: keyspace.to_owned(), partition, keep_damaged };
    done(request_until_answered(client, AdminQuestion::RecoverPartition(recover)).await?)
}

/// Acknowledges missing data in one keyspace or all, as of the map of this epoch. Returns the
/// number of partitions.
pub(crate) async fn acknowledge_losses(
    client: &Client,
    keyspace: Option<&str>,
    map_epoch: u64,
) -> Result<u64, CommandError> {
    let keyspace = keyspace.unwrap_or_default().to_owned();
    match request_until_answered(
        client,
        AdminQuestion::AcknowledgeLosses(LossesAcknowledge { keyspace, map_epoch }),
    )
    .await?
    {
        AdminReply::Done(done) => Ok(done.number),
        _ => Err(CommandError::Unexpected),
    }
}

fn done(answer: AdminReply) -> Result<(), CommandError> {
    match answer {
        AdminReply::Done(_) => Ok(()),
        _ => Err(CommandError::Unexpected),
    }
}

/// Repeats the question for some time until the manager can answer: a node that has just started
/// still reads its data.
async fn request_until_answered(client: &Client, query: AdminQuestion) -> Result<AdminReply, CommandError> {
    match answer(client, query).await? {
        AdminReply::Refused(refused) => Err(CommandError::refused(&refused.code, refused.reason)),
        answer => Ok(answer),
    }
}

/// The same; a refusal is returned as a reply.
async fn answer(client: &Client, query: AdminQuestion) -> Result<AdminReply, CommandError> {
    if !matches!(
        query,
        AdminQuestion::Status(_)
            | AdminQuestion::ListTokens(_)
            | AdminQuestion::ListPartitions(_)
            | AdminQuestion::ListWatches(_)
    ) {
        interrupt::note_sent(output::COMMAND);
    }
    let request = Bytes::from(AdminRequest::of(query).to_bytes());
    let (start, deadline) = (Instant::now(), client.options().deadline);
    loop {
        // The client ends the first call at the deadline, with a better reason.
        let limit = deadline.saturating_sub(start.elapsed()) + CALL_GRACE;
        let answer = match timeout(limit, client.admin(request.clone())).await {
            Err(_) => return Err(in_doubt(client, "no answer came within the time-out").await),
            Ok(Err(error)) if error.is_unknown() => return Err(in_doubt(client, &reason(&error)).await),
            Ok(answer) => answer?,
        };
        match AdminAnswer::from_bytes(&answer).map_err(|_| CommandError::Unexpected)?.answer {
            // Nothing was changed, so the question can be repeated.
            Some(AdminReply::Refused(refused))
                if refused.code == REFUSED_FAILED && start.elapsed() < deadline.min(NOT_NOW_MAX) =>
            {
                sleep(NOT_NOW_PAUSE).await;
            }
            Some(AdminReply::Refused(refused)) if refused.code == REFUSED_UNFOLLOWED => {
                return Err(CommandError::UnderWay(refused.reason));
            }
            Some(AdminReply::Refused(refused)) if leaves_outcome_open(&refused.code) => {
                return Err(in_doubt(client, &refused.reason).await);
            }
            Some(answer) => return Ok(answer),
            None => return Err(CommandError::Unexpected),
        }
    }
}

/// Why the result of a command is unknown.
fn reason(error: &zerohop_client::Error) -> String {
    match error {
        zerohop_client::Error::Operation { reason, .. } => match &**reason {
            Reason::Unknown { why } => why.to_string(),
            reason => reason.to_string(),
        },
        error => error.to_string(),
    }
}

/// The error of a control command that may or may not be done, with what a manager says about the
/// control group.
async fn in_doubt(client: &Client, why: &str) -> CommandError {
    let message = format!(
        "the command may or may not be done ({why}): `zerohop status` shows it; look before you repeat it"
    );
    let request = Bytes::from(AdminRequest::of(AdminQuestion::Status(StatusGet {})).to_bytes());
    let status = match timeout(DOUBT_STATUS_MAX, client.admin(request)).await {
        Ok(Ok(answer)) => AdminAnswer::from_bytes(&answer).ok().and_then(|answer| answer.answer),
        _ => None,
    };
    CommandError::InDoubt(match status {
        Some(AdminReply::Status(status)) if !view::has_quorum(&status) => format!(
            "{message}. The control group has no quorum, and decides nothing before more of its nodes are up: start the managers again that \
             `zerohop node managers` lists"
        ),
        _ => message,
    })
}

/// The error of a command that has made the keyspace of a log or queue, which is none yet. The command does not drop it: another
/// one may have made it a log or queue meanwhile.
pub(crate) fn half_made(kind: &str, name: &str, error: &CommandError) -> CommandError {
    CommandError::Partly(format!(
        "{error}; the keyspace {} is made, and may be no {kind} yet: the same `zerohop {kind} create` completes it, and `zerohop keyspace \
         drop` removes it",
        names::quoted(name.as_bytes())
    ))
}

fn keyspace(answer: AdminReply) -> Result<KeyspaceStatus, CommandError> {
    match answer {
        AdminReply::Keyspace(keyspace) => Ok(*keyspace),
        _ => Err(CommandError::Unexpected),
    }
}
