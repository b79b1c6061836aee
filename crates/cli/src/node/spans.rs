//! Commands of Redis clients over several partitions, which a client of this node's cluster does as transactions.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use zerohop_client::{ClientOptions, ClientTls, Secret};
use zerohop_node::server::{NoRoom, ReplyAddress, Server, Spanning};
use zerohop_redis::Spans;

/// How long an instance that has no room for a reply is left alone. It takes its messages every few microseconds.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// How often it is asked then. One that is stuck for so long is stopped, and its clients with it.
const FULL_TRIES_MAX: u32 = 10_000;

#[derive(Debug)]
struct ByTransactions(Spans);

impl Spanning for ByTransactions {
    fn take(&self, keyspace: &str, unit: Vec<u8>, asker: ReplyAddress) -> Result<(), NoRoom> {
        let tell = move |reply| tell(asker, reply);
        self.0.take(keyspace, unit, Box::new(tell)).map_err(|_| NoRoom)
    }
}

fn tell(asker: ReplyAddress, reply: Vec<u8>) {
    let Err(mut untold) = asker.tell(reply) else { return };
    tokio::spawn(async move {
        for _ in 0..FULL_TRIES_MAX {
            tokio::time::sleep(FULL_PAUSE).await;
            match untold.0.tell(untold.1) {
                Ok(()) => return,
                Err(again) => untold = again,
            }
        }
    });
}

/// Has a node do them, with what its clients must know to be served, each within this time.
pub(super) fn add(
    server: &Server,
    (secret, tls): (Option<Secret>, Option<ClientTls>),
    deadline: Duration,
) -> io::Result<()> {
    let options =
        ClientOptions { name: "zerohop-redis".to_owned(), secret, tls, deadline, ..ClientOptions::default() };
    let own = std::iter::once(server.manager_address());
    let endpoints = own.chain(server.instances().iter().map(|(_, at)| *at)).map(|at| at.to_string());
    let spans = Spans::start(endpoints.collect(), options)?;
    let spanning: Arc<dyn Spanning> = Arc::new(ByTransactions(spans));
    server.span(&spanning);
    Ok(())
}
