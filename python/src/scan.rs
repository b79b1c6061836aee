//! The class `NativeScan`: the keys of a keyspace, page by page.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use tokio::sync::Mutex;
use zerohop_client::{Error, Keyspace, RangeScan, Scan, ScanKey};

use crate::answer::PythonAnswer;
use crate::arguments::Blob;
use crate::core::Core;
use crate::outcome;
use crate::problem::Problem;

/// A scan in progress.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeScan {
    core: Arc<Core>,
    scan: Arc<Mutex<KeyPages>>,
}

/// The options of a scan.
pub(crate) struct ScanArguments {
    pub(crate) prefix: Blob,
    pub(crate) page_keys: Option<u32>,
    pub(crate) from: Option<Blob>,
    pub(crate) to: Option<Blob>,
    pub(crate) reverse: bool,
    pub(crate) limit: Option<u64>,
    pub(crate) values: bool,
}

/// The remaining pages.
enum KeyPages {
    /// Of a keyspace of any order, with the maximum number of keys.
    All(Scan, u64),
    OfRange {
        scan: RangeScan,
        has_values: bool,
    },
}

#[pymethods]
impl NativeScan {
    /// The next keys, with their values if requested, or a future of them; `None` at the end. After
    /// an error the same page is requested again.
    fn next_page(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let scan = Arc::clone(&self.scan);
        outcome::run(&self.core, py, async move {
            scan.lock().await.next_page().await.map_err(Problem::from).into()
        })
    }
}

impl NativeScan {
    pub(crate) fn new(core: Arc<Core>, keyspace: &Keyspace, arguments: &ScanArguments) -> Self {
        Self { core, scan: Arc::new(Mutex::new(KeyPages::new(keyspace, arguments))) }
    }
}

impl KeyPages {
    fn new(keyspace: &Keyspace, arguments: &ScanArguments) -> Self {
        let ScanArguments { prefix, page_keys, from, to, reverse, limit, values } = arguments;
        let (reverse, values, limit) = (*reverse, *values, limit.unwrap_or(u64::MAX));
        let prefix = Bytes::copy_from_slice(prefix.as_ref());
        if from.is_none() && to.is_none() && !reverse && !values {
            let most = page_keys.map_or(limit, |keys| limit.min(keys.into()));
            let scan = keyspace.scan(prefix).page_keys(u32::try_from(most).unwrap_or(u32::MAX));
            return KeyPages::All(scan, limit);
        }
        let from = from.as_ref().map_or(Bound::Unbounded, |key| Bound::Included(key.as_ref()));
        let to = to.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(key.as_ref()));
        let mut scan = keyspace.scan_range::<&[u8]>((from, to)).prefix(prefix).limit(limit);
        if let Some(keys) = page_keys {
            scan = scan.page_keys(*keys);
        }
        if reverse {
            scan = scan.reverse();
        }
        KeyPages::OfRange { scan: if values { scan.values() } else { scan }, has_values: values }
    }

    async fn next_page(&mut self) -> Result<PythonAnswer, Error> {
        Ok(match self {
            KeyPages::All(_, 0) => PythonAnswer::Keys(None),
            KeyPages::All(scan, left) => {
                let mut page = scan.next_page().await?;
                if let Some(keys) = &mut page {
                    keys.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= keys.len() as u64;
                }
                PythonAnswer::Keys(page)
            }
            KeyPages::OfRange { scan, has_values } => {
                let page: Option<Vec<ScanKey>> = scan.next_page().await?;
                if *has_values { PythonAnswer::KeysAndValues(page) } else { PythonAnswer::Keys(page) }
            }
        })
    }
}
