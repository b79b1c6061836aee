//! The class `NativeClient`: connection, keyspaces, close.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use zerohop_client::{
    Client, ClientOptions, ClientTls, ConfigError, DropOptions, Error, KeyOrder, Keyspace, Secret,
    SnapshotOptions, Token, no_address, read_key, read_secret, read_token, until_none_listens,
};
use zerohop_layer_log::keys::PARTITIONS_MAX;
use zerohop_layer_queue::{CreateQueue, PARTITIONS_MAX as QUEUE_PARTITIONS_MAX};
use zerohop_log_client::StorageSettings;
use zerohop_wire::admin::{AdminQuestion, AdminReply, KeyspaceSettings};

use crate::answer::PythonAnswer;
use crate::arguments::{Blob, Credentials, limit};
use crate::cluster;
use crate::core::Core;
use crate::handles::NativeKeyspace;
use crate::log::{self, LogArguments};
use crate::objects;
use crate::outcome;
use crate::problem::Problem;
use crate::queue;
use crate::transaction::NativeTransaction;

/// More bytes than any certificate file has.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// A client: of blocking threads, or of an event loop.
#[pyclass(frozen, module = "zerohop._native")]
pub(crate) struct NativeClient(Arc<Core>);

#[pymethods]
impl NativeClient {
    /// A client that is not connected. With `create_future` it is one of an event loop.
    #[new]
    #[pyo3(signature = (create_future = None))]
    fn new(py: Python<'_>, create_future: Option<Py<PyAny>>) -> PyResult<Self> {
        let core = match create_future {
            None => Core::here(),
            Some(create_future) => Core::side_thread(create_future),
        };
        Ok(Self(Arc::new(core.map_err(|problem| problem.exception(py))?)))
    }

    /// Connects. Must be called once, before anything else.
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a call in Python")]
    fn connect(
        &self,
        py: Python<'_>,
        endpoints: Vec<String>,
        secret: Option<Vec<u8>>,
        secret_file: Option<PathBuf>,
        token: Option<Vec<u8>>,
        token_file: Option<PathBuf>,
        timeout: Option<f64>,
        connect_timeout: Option<f64>,
        name: Option<String>,
        tls_ca: Option<PathBuf>,
        tls_cert: Option<PathBuf>,
        tls_key: Option<PathBuf>,
    ) -> PyResult<Py<PyAny>> {
        let credentials = Credentials { secret, secret_file, token, token_file };
        let mut options = ClientOptions {
            name: name.unwrap_or_else(|| "zerohop-python".to_owned()),
            ..ClientOptions::default()
        };
        options.deadline = limit(timeout)?.unwrap_or(options.deadline);
        // The time limit of operations bounds the first answer too.
        options.connect_deadline = limit(connect_timeout)?.unwrap_or(options.deadline);
        (options.secret, options.token) = proof(credentials, py)?;
        options.tls = tls_of((tls_ca, tls_cert, tls_key), py)?;
        let core = Arc::clone(&self.0);
        outcome::run(&self.0, py, async move {
            let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
            let looked_up = AtomicUsize::new(0);
            let connected = tokio::select! {
                connected = Client::connect_with(&endpoints, options) => connected,
                why = until_none_listens(&endpoints, &looked_up) => return Err(Problem::NoListener(why)).into(),
            };
            let host =
                looked_up.load(Ordering::Relaxed).checked_sub(1).and_then(|place| endpoints.get(place));
            match (connected, host) {
                (Err(_), Some(host)) => {
                    Err(Problem::NoListener(no_address(host, "the look-up takes too long")))
                }
                (connected, _) => connected
                    .map(|client| core.connected(client))
                    .map(|()| PythonAnswer::Nothing)
                    .map_err(Problem::from),
            }
            .into()
        })
    }

    /// A keyspace by its name.
    fn keyspace(&self, py: Python<'_>, name: String) -> PyResult<Py<PyAny>> {
        let client = self.client(py)?;
        outcome::run(&self.0, py, async move {
            client.keyspace(&name).await.map(PythonAnswer::Keyspace).map_err(Problem::from).into()
        })
    }

    /// Creates a keyspace; omitted options have the cluster's defaults.
    #[pyo3(signature = (name, durability, replicas, min_in_sync, partitions, ordered = false, split_at = Vec::new(), history_ms = None, history_bytes = None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a call in Python")]
    fn create_keyspace(
        &self,
        py: Python<'_>,
        name: String,
        durability: Option<String>,
        replicas: Option<u32>,
        min_in_sync: Option<u32>,
        partitions: Option<u32>,
        ordered: bool,
        split_at: Vec<Blob>,
        history_ms: Option<u32>,
        history_bytes: Option<u32>,
    ) -> PyResult<Py<PyAny>> {
        // A node that does not know separators refuses the number.
        let regions = (!split_at.is_empty()).then(|| split_at.len() as u32 + 1);
        let split_at = split_at.iter().map(|key| key.as_ref().to_vec()).collect();
        let hash = ordered.then(|| KeyOrder::ORDERED.to_owned());
        let settings = KeyspaceSettings {
            name,
            partitions: partitions.or(regions),
            hash,
            replicas,
            min_in_sync,
            durability,
            split_at,
            history_ms,
            history_bytes,
            ..Default::default()
        };
        self.keyspace_change(py, AdminQuestion::CreateKeyspace(settings))
    }

    /// A log by its name.
    fn log(&self, py: Python<'_>, name: String) -> PyResult<Py<PyAny>> {
        let client = self.client(py)?;
        outcome::run(&self.0, py, async move { log::open(&client, name).await.into() })
    }

    /// Creates a log; omitted options have the cluster's defaults. `id` is random.
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a call in Python")]
    fn create_log(
        &self,
        py: Python<'_>,
        name: String,
        id: [u8; 16],
        partitions: u32,
        retention_ms: Option<u64>,
        retention_bytes: Option<u64>,
        durability: Option<String>,
        replicas: Option<u32>,
        min_in_sync: Option<u32>,
    ) -> PyResult<Py<PyAny>> {
        if !(1..=PARTITIONS_MAX).contains(&partitions) {
            return Err(PyValueError::new_err(format!("a log has 1 to {PARTITIONS_MAX} partitions")));
        }
        let client = self.client(py)?;
        let settings = StorageSettings { replicas, min_in_sync, durability };
        let arguments = LogArguments { id, partitions, retention_ms, retention_bytes, settings };
        outcome::run(&self.0, py, async move { log::create(&client, name, arguments).await.into() })
    }

    /// A queue by its name.
    fn queue(&self, py: Python<'_>, name: String) -> PyResult<Py<PyAny>> {
        let client = self.client(py)?;
        outcome::run(&self.0, py, async move { queue::open(&client, &name).await.into() })
    }

    /// Creates a queue; omitted options have the cluster's defaults. `id` is random, and times are in milliseconds.
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a call in Python")]
    fn create_queue(
        &self,
        py: Python<'_>,
        name: String,
        id: [u8; 16],
        partitions: u32,
        lease: u64,
        tries: u32,
        names: u64,
        durability: Option<String>,
        replicas: Option<u32>,
        min_in_sync: Option<u32>,
    ) -> PyResult<Py<PyAny>> {
        if !(1..=QUEUE_PARTITIONS_MAX).contains(&partitions) {
            return Err(PyValueError::new_err(format!(
                "a queue has 1 to {} partitions",
                QUEUE_PARTITIONS_MAX
            )));
        }
        let client = self.client(py)?;
        let settings = StorageSettings { replicas, min_in_sync, durability };
        let create = CreateQueue { id, partitions, lease, tries, names };
        outcome::run(&self.0, py, async move { queue::create(&client, name, create, settings).await.into() })
    }

    /// A bucket by its name.
    fn bucket(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        let (client, name) = (self.client(py)?, objects::bucket_argument(name)?);
        outcome::run(&self.0, py, async move { objects::open(&client, name).await.into() })
    }

    /// Creates a bucket, and opens it.
    fn create_bucket(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        let (client, name) = (self.client(py)?, objects::bucket_argument(name)?);
        outcome::run(&self.0, py, async move { objects::create(&client, name).await.into() })
    }

    /// Names of all buckets, and when they were created.
    fn buckets(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let client = self.client(py)?;
        outcome::run(&self.0, py, async move { objects::list(&client).await.into() })
    }

    /// Removes a bucket that has no objects.
    fn drop_bucket(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        let (client, name) = (self.client(py)?, objects::bucket_argument(name)?);
        outcome::run(&self.0, py, async move { objects::remove(&client, name).await.into() })
    }

    /// Changes a keyspace; omitted options stay.
    #[pyo3(signature = (name, durability, replicas, min_in_sync, history_ms = None, history_bytes = None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a call in Python")]
    fn alter_keyspace(
        &self,
        py: Python<'_>,
        name: String,
        durability: Option<String>,
        replicas: Option<u32>,
        min_in_sync: Option<u32>,
        history_ms: Option<u32>,
        history_bytes: Option<u32>,
    ) -> PyResult<Py<PyAny>> {
        let settings = KeyspaceSettings {
            name,
            replicas,
            min_in_sync,
            durability,
            history_ms,
            history_bytes,
            ..Default::default()
        };
        self.keyspace_change(py, AdminQuestion::AlterKeyspace(settings))
    }

    /// The status of the cluster.
    fn status(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let client = self.client(py)?;
        outcome::run(
            &self.0,
            py,
            async move { cluster::status(&client).await.map(PythonAnswer::Status).into() },
        )
    }

    /// Opens a snapshot of keyspaces.
    #[pyo3(signature = (keyspaces, age = None))]
    fn snapshot(
        &self,
        py: Python<'_>,
        keyspaces: Vec<Bound<'_, NativeKeyspace>>,
        age: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        let client = self.client(py)?;
        let mut options = SnapshotOptions::default();
        options.age = age.map_or(Ok(options.age), snapshot_age)?;
        let keyspaces: Vec<_> = keyspaces.iter().map(|keyspace| Arc::clone(keyspace.get().inner())).collect();
        outcome::run(&self.0, py, async move {
            let keyspaces: Vec<&Keyspace> = keyspaces.iter().map(AsRef::as_ref).collect();
            let opened = client.snapshot_with(&keyspaces, options).await;
            opened.map(PythonAnswer::Snapshot).map_err(Problem::from).into()
        })
    }

    /// Removes a keyspace with all its contents, and waits until it is gone.
    #[pyo3(signature = (name, timeout = None))]
    fn drop_keyspace(&self, py: Python<'_>, name: String, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        let client = self.client(py)?;
        let wait = limit(timeout)?.unwrap_or(client.options().deadline);
        outcome::run(&self.0, py, async move {
            let dropped =
                client.drop_keyspace_with(&name, DropOptions { at_once: false, wait }, |_| ()).await;
            dropped.map(|_| PythonAnswer::Nothing).map_err(Problem::from).into()
        })
    }

    /// Begins a transaction.
    fn transaction(&self, py: Python<'_>) -> PyResult<NativeTransaction> {
        Ok(NativeTransaction::new(Arc::clone(&self.0), &self.client(py)?))
    }

    /// Reads records of several keyspaces consistently at one moment.
    fn read_many(
        &self,
        py: Python<'_>,
        records: Vec<(Bound<'_, NativeKeyspace>, Blob)>,
    ) -> PyResult<Py<PyAny>> {
        let client = self.client(py)?;
        let (keyspaces, keys): (Vec<_>, Vec<_>) =
            records.into_iter().map(|(keyspace, key)| (Arc::clone(keyspace.get().inner()), key)).unzip();
        outcome::run(&self.0, py, async move {
            let records: Vec<_> = keyspaces.iter().map(AsRef::as_ref).zip(&keys).collect();
            client.read_many(&records).await.map(PythonAnswer::Records).map_err(Problem::from).into()
        })
    }

    /// The descriptor that an event loop must watch; none for a blocking client.
    #[getter]
    fn wakes(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        self.0.wakes().map_err(|problem| problem.exception(py))
    }

    /// Sets the results of futures.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        self.0.drain(py)
    }

    /// Closes the client.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.close(py)
    }
}

impl NativeClient {
    fn client(&self, py: Python<'_>) -> PyResult<Client> {
        self.0.client().cloned().map_err(|problem| problem.exception(py))
    }

    /// Sends a change of a keyspace to a manager. Returns the keyspace as it is then.
    fn keyspace_change(&self, py: Python<'_>, query: AdminQuestion) -> PyResult<Py<PyAny>> {
        let client = self.client(py)?;
        outcome::run(&self.0, py, async move {
            match cluster::request(&client, query).await {
                Ok(AdminReply::Keyspace(found)) => Ok(PythonAnswer::KeyspaceStatus(found)),
                Ok(_) => Err(Problem::Client(Error::Unexpected)),
                Err(problem) => Err(problem),
            }
            .into()
        })
    }
}

/// The longest life of a snapshot, of so many seconds.
fn snapshot_age(seconds: f64) -> PyResult<Duration> {
    let age = Duration::try_from_secs_f64(seconds).ok().filter(|age| !age.is_zero());
    age.ok_or_else(|| {
        PyValueError::new_err(format!("the age of a snapshot is more than 0 seconds, not {seconds}"))
    })
}

/// The TLS settings of a client, from the files of the trusted CA, of its own certificate, and of that one's key.
fn tls_of(
    files: (Option<PathBuf>, Option<PathBuf>, Option<PathBuf>),
    py: Python<'_>,
) -> PyResult<Option<ClientTls>> {
    let unusable =
        |path: &Path, error: ConfigError| PyValueError::new_err(format!("{}: {error}", path.display()));
    match files {
        (None, None, None) => Ok(None),
        (Some(ca), None, None) => {
            ClientTls::new(&public(&ca)?).map(Some).map_err(|error| unusable(&ca, error))
        }
        (Some(ca), Some(certificate), Some(key)) => {
            let cas = public(&ca)?;
            ClientTls::new(&cas).map_err(|error| unusable(&ca, error))?;
            let key = read_key(&key).map_err(|problem| Problem::Secret(problem).exception(py))?;
            let presenting = ClientTls::with_identity(&cas, &public(&certificate)?, &key);
            presenting.map(Some).map_err(|error| unusable(&certificate, error))
        }
        _ => Err(PyValueError::new_err(
            "a client with a certificate needs all of tls_cert, tls_key and tls_ca (or their variables)",
        )),
    }
}

/// The contents of a file that need not be private.
fn public(path: &Path) -> PyResult<Vec<u8>> {
    let unusable = |error: std::io::Error| {
        PyErr::from(std::io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    };
    let mut bytes = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "a file of the user's, not of the store")]
    let file = std::fs::File::open(path).map_err(unusable)?;
    file.take(PEM_BYTES_MAX).read_to_end(&mut bytes).map_err(unusable)?;
    Ok(bytes)
}

/// The credentials of a client.
fn proof(given: Credentials, py: Python<'_>) -> PyResult<(Option<Secret>, Option<Token>)> {
    let Credentials { secret, secret_file, token, token_file } = given;
    let file = |problem| Problem::Secret(problem).exception(py);
    let secret = match (secret, secret_file) {
        (Some(_), Some(_)) => return Err(PyValueError::new_err("a secret or the file of one, not both")),
        (Some(text), None) => {
            Some(Secret::from_chosen(&text).map_err(|why| PyValueError::new_err(why.to_string()))?)
        }
        (None, Some(path)) => Some(read_secret(Path::new(&path)).map_err(file)?),
        (None, None) => None,
    };
    let token = match (token, token_file) {
        (Some(_), Some(_)) => return Err(PyValueError::new_err("a token or the file of one, not both")),
        (Some(text), None) => {
            Some(Token::from_text(text.trim_ascii()).map_err(|_| PyValueError::new_err("this is no token"))?)
        }
        (None, Some(path)) => Some(read_token(Path::new(&path)).map_err(file)?),
        (None, None) => None,
    };
    Ok((secret, token))
}
