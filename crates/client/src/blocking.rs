//! A blocking client for programs without a runtime. The thread that waits for an operation also drives the connections, so that a reply does not
//! have to wake a second thread.

use std::future::IntoFuture;
use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime::{Builder, Handle, Runtime};

use zerohop_session::procedures::{
    Attempts, CommittedTransaction, Error, Keyspace, Operation, Record, Transaction,
};

use crate::client::{Client, ClientOptions};

/// A client whose calls block the calling thread. Clones share it.
#[derive(Clone, Debug)]
pub struct BlockingClient {
    client: Client,
    runtime: Arc<OwnedRuntime>,
}

/// A keyspace of a blocking client: the operations of [`Keyspace`]; [`BlockingHandle::wait_for`] runs each of them to its end.
#[derive(Clone, Debug)]
pub struct BlockingKeyspace {
    keyspace: Keyspace,
    runtime: Arc<OwnedRuntime>,
}

/// A transaction of a blocking client: the operations of [`Transaction`]. Methods that wait for a server block here; [`BlockingHandle::wait_for`] runs
/// the others, such as `read_many` and blob operations.
#[derive(Clone, Debug)]
pub struct BlockingTransaction {
    transaction: Transaction,
    runtime: Arc<OwnedRuntime>,
}

/// A handle that can run an operation of its keyspace or of its transaction to its end.
pub trait BlockingHandle {
    /// Blocks until the operation has ended. Errors: those of the operation, or [`Error::InsideRuntime`].
    fn wait_for<R>(&self, operation: impl IntoFuture<Output = Result<R, Error>>) -> Result<R, Error>;
}

#[derive(Debug)]
struct OwnedRuntime(Option<Runtime>);

impl BlockingClient {
    /// Same as [`Client::connect`].
    pub fn connect(endpoint: &str) -> Result<Self, Error> {
        Self::connect_with(&[endpoint], ClientOptions::default())
    }

    /// Same as [`Client::connect_with`].
    pub fn connect_with(endpoints: &[&str], options: ClientOptions) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|why| Error::Runtime { why: why.to_string().into() })?;
        let runtime = Arc::new(OwnedRuntime(Some(runtime)));
        let client = runtime.block_on(Client::connect_with(endpoints, options))?;
        Ok(Self { client, runtime })
    }

    /// Same as [`Client::keyspace`](zerohop_session::procedures::ClusterHandle::keyspace).
    pub fn keyspace(&self, name: &str) -> Result<BlockingKeyspace, Error> {
        let keyspace = self.runtime.block_on(self.client.keyspace(name))?;
        Ok(BlockingKeyspace { keyspace, runtime: Arc::clone(&self.runtime) })
    }
}

impl BlockingClient {
    /// Same as [`Client::begin`](zerohop_session::procedures::ClusterHandle::begin).
    #[must_use]
    pub fn begin(&self) -> BlockingTransaction {
        BlockingTransaction { transaction: self.client.begin(), runtime: Arc::clone(&self.runtime) }
    }

    /// Same as [`Client::transaction`](zerohop_session::procedures::ClusterHandle::transaction).
    ///
    /// # Errors
    /// Those of [`Client::transaction`](zerohop_session::procedures::ClusterHandle::transaction), or [`Error::InsideRuntime`].
    pub fn transaction<R>(
        &self,
        mut work: impl FnMut(&BlockingTransaction) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut attempts = Attempts::new(&self.client);
        loop {
            let transaction = self.begin();
            let error = match work(&transaction) {
                Ok(result) => match transaction.commit() {
                    Ok(_) | Err(Error::Ended) => return Ok(result),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            let pause = attempts.after(&error).ok_or(error)?;
            self.runtime.block_on(async {
                tokio::time::sleep(pause).await;
                Ok(())
            })?;
        }
    }

    /// Same as [`Client::read_many`](zerohop_session::procedures::ClusterHandle::read_many).
    ///
    /// # Errors
    /// Those of [`Client::read_many`](zerohop_session::procedures::ClusterHandle::read_many), or [`Error::InsideRuntime`].
    pub fn read_many<K: AsRef<[u8]>>(
        &self,
        records: &[(&Keyspace, K)],
    ) -> Result<Vec<Option<Record>>, Error> {
        self.runtime.block_on(self.client.read_many(records))
    }
}

impl BlockingTransaction {
    /// Same as [`Transaction::read`].
    ///
    /// # Errors
    /// Those of [`Transaction::read`], or [`Error::InsideRuntime`].
    pub fn read<R>(&self, operation: Operation<'_, R>) -> Result<R, Error> {
        self.runtime.block_on(self.transaction.read(operation))
    }

    /// Same as [`Transaction::get`].
    ///
    /// # Errors
    /// Those of [`Transaction::get`], or [`Error::InsideRuntime`].
    pub fn get(
        &self,
        keyspace: &Keyspace,
        key: &(impl AsRef<[u8]> + ?Sized),
    ) -> Result<Option<Bytes>, Error> {
        self.runtime.block_on(self.transaction.get(keyspace, key))
    }

    /// Same as [`Transaction::commit`].
    ///
    /// # Errors
    /// Those of [`Transaction::commit`], or [`Error::InsideRuntime`].
    pub fn commit(self) -> Result<CommittedTransaction, Error> {
        self.runtime.block_on(self.transaction.clone().commit())
    }

    /// Same as [`Transaction::abort`].
    pub fn abort(self) {
        self.transaction.abort();
    }
}

/// Gives access to `write`, `insert` and `remove`, which need no server and therefore do not block.
impl std::ops::Deref for BlockingTransaction {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        &self.transaction
    }
}

impl BlockingHandle for BlockingKeyspace {
    fn wait_for<R>(&self, operation: impl IntoFuture<Output = Result<R, Error>>) -> Result<R, Error> {
        self.runtime.block_on(operation)
    }
}

impl BlockingHandle for BlockingTransaction {
    fn wait_for<R>(&self, operation: impl IntoFuture<Output = Result<R, Error>>) -> Result<R, Error> {
        self.runtime.block_on(operation)
    }
}

impl std::ops::Deref for BlockingKeyspace {
    type Target = Keyspace;

    fn deref(&self) -> &Keyspace {
        &self.keyspace
    }
}

impl OwnedRuntime {
    fn block_on<R>(&self, future: impl IntoFuture<Output = Result<R, Error>>) -> Result<R, Error> {
        if Handle::try_current().is_ok() {
            return Err(Error::InsideRuntime);
        }
        match &self.0 {
            Some(runtime) => runtime.block_on(future.into_future()),
            None => Err(Error::InsideRuntime),
        }
    }
}

impl Drop for OwnedRuntime {
    fn drop(&mut self) {
        // Tokio panics if a runtime is dropped inside another runtime, because the drop waits for its threads.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
