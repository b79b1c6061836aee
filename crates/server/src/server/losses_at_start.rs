//! The record of possible losses when a standalone node starts.

use tracing::warn;
use zerohop_placement::ClusterMap;

use crate::error::StartError;
use crate::folder::NodeFolder;
use crate::node_files::losses::SavedLosses;
use crate::node_files::persisted::SavedNode;

/// The record of a start, saved. `before` is the state that the last start saved, and `map` the first map of this one. It must be called before the
/// instances start, which remove their marks.
///
/// # Errors
/// The record cannot be read or saved.
pub(super) fn at_start(
    folder: &mut NodeFolder,
    before: &SavedNode,
    map: &ClusterMap,
    instances: usize,
) -> Result<SavedLosses, StartError> {
    let known = folder.read_losses()?;
    if known.is_none() {
        warn!(
            "the record of data that may be missing is corrupt: every keyspace that may lack data is recorded"
        );
    }
    let ended = before.map.node(before.node).map(|own| own.incarnation());
    let closed = super::common_mark((0..instances).map(|place| folder.closed_mark(place)));
    let is_closed = closed.is_some() && closed == ended;
    let mut losses = known.clone().unwrap_or_default();
    if known.is_none() || !is_closed {
        losses.record(map);
    }
    if known.as_ref() != Some(&losses) {
        folder.save_losses(&losses).map_err(StartError::NotSaved)?;
    }
    Ok(losses)
}
