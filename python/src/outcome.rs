//! The outcome of a call: its answer or its problem, and the arguments that it has used.

use std::future::Future;
use std::sync::Arc;

use pyo3::prelude::*;

use crate::answer::PythonAnswer;
use crate::arguments::Blob;
use crate::blob::BlobOperation;
use crate::core::{CompletedCall, Core};
use crate::memory::Memory;
use crate::operation::PythonOperation;
use crate::problem::Problem;

/// The outcome of a call. It carries the call's arguments, which must be released while the GIL is
/// held.
pub(crate) struct CallOutcome {
    pub(crate) result: Result<PythonAnswer, Problem>,
    pub(crate) spent: UsedArguments,
}

/// The arguments of a call.
#[expect(dead_code, reason = "it is only let go of")]
pub(crate) enum UsedArguments {
    Nothing,
    Operation(PythonOperation),
    Batch(Vec<PythonOperation>),
    Blob(BlobOperation),
    Names(Vec<Blob>),
    Memory(Arc<Memory>),
}

impl From<Result<PythonAnswer, Problem>> for CallOutcome {
    fn from(result: Result<PythonAnswer, Problem>) -> Self {
        CallOutcome { result, spent: UsedArguments::Nothing }
    }
}

impl CompletedCall for CallOutcome {
    fn object(self: Box<Self>, py: Python<'_>, core: &Arc<Core>) -> PyResult<Py<PyAny>> {
        drop(self.spent);
        match self.result {
            Ok(answer) => answer.object(py, core),
            Err(problem) => Err(problem.exception(py)),
        }
    }
}

/// Runs an operation. Returns its result, or for an event loop a future of it.
pub(crate) fn run(
    core: &Arc<Core>,
    py: Python<'_>,
    call: impl Future<Output = CallOutcome> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    core.run_call(py, call)
}
