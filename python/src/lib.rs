//! The native half of the Python package `zerohop`: operations of the client, done by the calling thread or, for event
//! loops, by a thread aside.
//!
//! ```text
//!   zerohop/*.py       what users see: mappings, exceptions, documentation
//!        │ _native
//!   client, keyspace,  classes of Python; arguments come in, a result or a future goes out
//!   scan
//!   operation          what is asked of a keyspace, owned: carried out without Python
//!   core               who carries it out ┬─ here:  the waiting thread drives the connections, and looks for Ctrl-C
//!                                         └─ aside: a thread drives them; a byte wakes the event loop, which takes answers
//!   answer, problem    what came of it, as objects and exceptions of Python
//! ```
//!
//! Python is let go (`Python::detach`) while anything is waited for, and the thread aside never takes hold of it.

mod answer;
mod arguments;
mod aside;
mod blob;
mod blobs;
mod client;
mod core;
mod fill;
mod keyspace;
mod memory;
mod number;
mod operation;
mod problem;
mod scan;
mod transaction;
mod transaction_blobs;

/// The module `zerohop._native`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::answer::NativeStagedContents;
    #[pymodule_export]
    use crate::blob::NativeBlobList;
    #[pymodule_export]
    use crate::blobs::NativeBlobs;
    #[pymodule_export]
    use crate::client::NativeClient;
    #[pymodule_export]
    use crate::fill::NativeBlobFill;
    #[pymodule_export]
    use crate::keyspace::NativeKeyspace;
    #[pymodule_export]
    use crate::scan::NativeScan;
    #[pymodule_export]
    use crate::transaction::NativeTransaction;
    #[pymodule_export]
    use crate::transaction_blobs::NativeTransactionBlobs;

    /// Most operations that a batch has under way at once; longer ones go in pieces.
    #[pymodule_export]
    const BATCH_OPERATIONS_MAX: usize = crate::operation::BATCH_OPERATIONS_MAX;

    /// The version of the package, as the program tells its own: both are the workspace's.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
