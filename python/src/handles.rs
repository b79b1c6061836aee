//! What Python gets for a keyspace, a snapshot, staged contents and pinned blobs: the client's handle, and the core that runs its calls. The
//! methods are beside the operations.

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use zerohop_client::{Keyspace, PinnedBlobs, Snapshot, StagedContents};

use crate::core::Core;
use crate::maintenance::OwnedByProcess;

/// A keyspace. Every operation returns its result, or for an event loop a future of it.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeKeyspace {
    pub(crate) core: Arc<Core>,
    pub(crate) keyspace: Arc<Keyspace>,
}

/// Staged contents, which the client renews while the object exists.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeStagedContents(
    #[expect(dead_code, reason = "it ends the renewal")] OwnedByProcess<StagedContents>,
);

/// Blobs as they were at one moment. Every operation returns its result, or for an event loop a future of it.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativePinnedBlobs {
    pub(crate) core: Arc<Core>,
    pub(crate) pinned: OwnedByProcess<Arc<PinnedBlobs>>,
}

/// A snapshot. Every operation returns its result, or for an event loop a future of it.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeSnapshot {
    pub(crate) core: Arc<Core>,
    /// `None` after `close`.
    pub(crate) snapshot: OwnedByProcess<Mutex<Option<Arc<Snapshot>>>>,
    pub(crate) at: u64,
}

impl NativeStagedContents {
    pub(crate) fn new(staged: StagedContents) -> Self {
        Self(OwnedByProcess::new(staged))
    }
}
