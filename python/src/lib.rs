//! The native half of the Python package `zerohop`: operations of the client, run by the calling
//! thread or, for event loops, by a thread aside.
//!
//! ```text
//!   zerohop/*.py       the user's interface: mappings, exceptions, documentation
//!        │ _native
//!   client, keyspace,  Python classes; arguments come in, a result or a future goes out
//!   scan
//!   operation          an operation on a keyspace with owned arguments: runs without Python
//!   core               the executor ┬─ here:  the caller drives connections, checks for Ctrl-C
//!                                   └─ aside: a thread drives them; a byte wakes the event loop
//!   maintenance             a thread beside blocking callers, for renewals while none of them waits
//!   answer, problem    results, as Python objects and exceptions
//! ```
//!
//! The GIL is released (`Python::detach`) during every wait, and the thread aside never acquires
//! it.

mod answer;
mod arguments;
mod batch;
mod blob;
mod blob_list;
mod blobs;
mod client;
mod cluster;
mod core;
mod handles;
mod keyspace;
mod log;
mod log_group;
mod log_handles;
mod maintenance;
mod memory;
mod number;
mod object_handles;
mod object_place;
mod objects;
mod operation;
mod outcome;
mod pinned;
mod problem;
mod promises;
mod queue;
mod queue_handles;
mod scan;
mod side_thread;
mod snapshot;
mod staged_extension;
mod transaction;
mod transaction_blobs;
mod watch;
mod watch_event;

/// The module `zerohop._native`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::batch::NativeBatch;
    #[pymodule_export]
    use crate::blob_list::NativeBlobList;
    #[pymodule_export]
    use crate::blobs::NativeBlobs;
    #[pymodule_export]
    use crate::client::NativeClient;
    #[pymodule_export]
    use crate::handles::NativeKeyspace;
    #[pymodule_export]
    use crate::handles::NativePinnedBlobs;
    #[pymodule_export]
    use crate::handles::NativeSnapshot;
    #[pymodule_export]
    use crate::handles::NativeStagedContents;
    #[pymodule_export]
    use crate::log_group::NativeLogGroup;
    #[pymodule_export]
    use crate::log_handles::NativeLog;
    #[pymodule_export]
    use crate::log_handles::NativeLogPopper;
    #[pymodule_export]
    use crate::log_handles::NativeLogReader;
    #[pymodule_export]
    use crate::object_handles::NativeBucket;
    #[pymodule_export]
    use crate::object_handles::NativeObjectReader;
    #[pymodule_export]
    use crate::object_handles::NativeObjectWriter;
    #[pymodule_export]
    use crate::queue_handles::NativeQueue;
    #[pymodule_export]
    use crate::scan::NativeScan;
    #[pymodule_export]
    use crate::staged_extension::NativeStagedExtension;
    #[pymodule_export]
    use crate::transaction::NativeTransaction;
    #[pymodule_export]
    use crate::transaction_blobs::NativeTransactionBlobs;
    #[pymodule_export]
    use crate::watch::NativeWatch;

    /// The highest number of open operations of a batch; longer batches are split.
    #[pymodule_export]
    const BATCH_OPERATIONS_MAX: usize = crate::operation::BATCH_OPERATIONS_MAX;

    /// The version of the package, equal to that of the program: both are the workspace's.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
