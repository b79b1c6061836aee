//! The same client for programs without a runtime: the thread that waits for an operation drives the connections
//! meanwhile, so that an answer wakes no second thread.

use std::future::IntoFuture;
use std::sync::Arc;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::client::{Client, Options};
use crate::error::Error;
use crate::keyspace::Keyspace;

/// A client whose calls block the thread that makes them. Clones share it.
#[derive(Clone, Debug)]
pub struct BlockingClient {
    client: Client,
    runtime: Arc<Owned>,
}

/// A keyspace of a blocking client: [`Keyspace`]'s operations, each ended by [`Blocking::wait_for`].
#[derive(Clone, Debug)]
pub struct BlockingKeyspace {
    keyspace: Keyspace,
    runtime: Arc<Owned>,
}

/// What can run an operation of its keyspace to the end.
pub trait Blocking {
    /// Blocks until the operation has ended. Errors: its own, or [`Error::InsideRuntime`].
    fn wait_for<R>(&self, operation: impl IntoFuture<Output = Result<R, Error>>) -> Result<R, Error>;
}

#[derive(Debug)]
struct Owned(Option<Runtime>);

impl BlockingClient {
    /// As [`Client::connect`].
    pub fn connect(endpoint: &str) -> Result<Self, Error> {
        Self::connect_with(&[endpoint], Options::default())
    }

    /// As [`Client::connect_with`].
    pub fn connect_with(endpoints: &[&str], options: Options) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|why| Error::Runtime { why: why.to_string().into() })?;
        let runtime = Arc::new(Owned(Some(runtime)));
        let client = runtime.block_on(Client::connect_with(endpoints, options))?;
        Ok(Self { client, runtime })
    }

    /// As [`Client::keyspace`].
    pub fn keyspace(&self, name: &str) -> Result<BlockingKeyspace, Error> {
        let keyspace = self.runtime.block_on(self.client.keyspace(name))?;
        Ok(BlockingKeyspace { keyspace, runtime: Arc::clone(&self.runtime) })
    }
}

impl Blocking for BlockingKeyspace {
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

impl Owned {
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

impl Drop for Owned {
    fn drop(&mut self) {
        // A runtime must not be dropped, waiting for its thread, inside another.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
