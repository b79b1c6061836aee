//! `NativeLogGroup`: a member of a group of a log.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use tokio::sync::{Mutex, OwnedMutexGuard};
use zerohop_layer_log::LogError;
use zerohop_log_client::LogMember;

use crate::answer::PythonAnswer;
use crate::arguments::limit;
use crate::core::Core;
use crate::maintenance::OwnedByProcess;
use crate::outcome;
use crate::problem::{LayerUse, Problem, broken};

/// A member of a group, with the name of its log.
type NamedMember = Arc<(String, Arc<Mutex<LogMember>>)>;

/// A member of a group of a log. Every operation returns its result, or for an event loop a future of it.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeLogGroup {
    core: Arc<Core>,
    member: OwnedByProcess<NamedMember>,
}

impl NativeLogGroup {
    pub(crate) fn new(core: Arc<Core>, name: String, member: LogMember) -> Self {
        let member = OwnedByProcess::new(Arc::new((name, Arc::new(Mutex::new(member)))));
        Self { core, member }
    }

    /// Runs an operation of the member.
    fn run<F: Future<Output = Result<PythonAnswer, LogError>> + Send + 'static>(
        &self,
        py: Python<'_>,
        used: LayerUse,
        operation: impl FnOnce(OwnedMutexGuard<LogMember>) -> F + Send + 'static,
    ) -> PyResult<Py<PyAny>> {
        self.core.client().map_err(|problem| problem.exception(py))?;
        let named = self.member.get().cloned().ok_or_else(|| broken("a member of a group is gone"))?;
        outcome::run(&self.core, py, async move {
            let (name, member) = &*named;
            let answer = operation(Arc::clone(member).lock_owned().await).await;
            answer.map_err(|error| Problem::Log { name: name.clone(), error, used }).into()
        })
    }
}

/// The partitions of a member, and records of them.
fn polled(member: &LogMember, records: Vec<zerohop_log_client::PlacedRecord>) -> PythonAnswer {
    let membership = member.membership();
    let (generation, partitions) = match membership {
        Some(membership) => (membership.generation, membership.partitions.clone().collect()),
        None => (0, Vec::new()),
    };
    PythonAnswer::LogPolled { generation, partitions, records }
}

#[pymethods]
impl NativeLogGroup {
    /// Sends a heartbeat, or joins the group. Returns the generation, the partitions, and no records.
    fn keep(&self, py: Python<'_>, received: BTreeMap<u32, u64>) -> PyResult<Py<PyAny>> {
        self.run(py, LayerUse::Read, move |mut member| async move {
            member.resume(&received);
            member.keep().await?;
            Ok(polled(&member, Vec::new()))
        })
    }

    /// Returns the generation, the partitions, and the next records behind those that were received, or none if there is none within
    /// `wait` seconds.
    fn poll(
        &self,
        py: Python<'_>,
        received: BTreeMap<u32, u64>,
        bytes: usize,
        wait: f64,
    ) -> PyResult<Py<PyAny>> {
        let wait: Duration = limit(Some(wait))?.unwrap_or_default();
        self.run(py, LayerUse::Read, move |mut member| async move {
            member.resume(&received);
            let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            let until = if wait == 0 { 0 } else { member.log().now().saturating_add(wait) };
            let records = member.poll(bytes, until).await?;
            Ok(polled(&member, records))
        })
    }

    /// Commits offsets of partitions.
    fn commit(&self, py: Python<'_>, offsets: BTreeMap<u32, u64>) -> PyResult<Py<PyAny>> {
        self.run(py, LayerUse::Write, move |mut member| async move {
            member.commit(&offsets).await.map(|()| PythonAnswer::Nothing)
        })
    }

    /// Leaves the group.
    fn leave(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.run(py, LayerUse::Write, |mut member| async move {
            member.leave().await.map(|()| PythonAnswer::Nothing)
        })
    }
}
