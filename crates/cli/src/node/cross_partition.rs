//! Cross-partition Redis commands: a client of this node's cluster runs them as transactions.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use zerohop_client::{ClientOptions, ClientTls, Secret};
use zerohop_redis::CrossPartitionCommands;
use zerohop_server::Server;
use zerohop_server::gateway::{CrossPartitionRunner, ReplyAddress, TooManyUnits};

/// The pause before a reply is sent again to an instance whose queue is full. An instance empties
/// its queue every few microseconds.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// Attempts to send a reply. An instance that is stuck for longer is stopped, and its clients with
/// it.
const FULL_TRIES_MAX: u32 = 10_000;

#[derive(Debug)]
struct RedisCrossPartition(CrossPartitionCommands);

impl CrossPartitionRunner for RedisCrossPartition {
    fn start_unit(&self, keyspace: &str, unit: Vec<u8>, requester: ReplyAddress) -> Result<(), TooManyUnits> {
        let tell = move |reply| send_reply(requester, reply);
        self.0.start_unit(keyspace, unit, Box::new(tell)).map_err(|_| TooManyUnits)
    }
}

fn send_reply(requester: ReplyAddress, reply: Vec<u8>) {
    let Err(mut untold) = requester.send(reply) else { return };
    tokio::spawn(async move {
        for _ in 0..FULL_TRIES_MAX {
            tokio::time::sleep(FULL_PAUSE).await;
            match untold.0.send(untold.1) {
                Ok(()) => return,
                Err(again) => untold = again,
            }
        }
    });
}

/// Adds cross-partition commands to a node, with the credentials for its cluster and a time limit
/// for each command.
pub(super) fn add(
    server: &Server,
    (secret, tls): (Option<Secret>, Option<ClientTls>),
    deadline: Duration,
) -> io::Result<()> {
    let options =
        ClientOptions { name: "zerohop-redis".to_owned(), secret, tls, deadline, ..ClientOptions::default() };
    let own = std::iter::once(server.manager_address());
    let endpoints = own.chain(server.instances().iter().map(|(_, at)| *at)).map(|at| at.to_string());
    let commands = CrossPartitionCommands::start(endpoints.collect(), options)?;
    let cross_partition: Arc<dyn CrossPartitionRunner> = Arc::new(RedisCrossPartition(commands));
    server.set_cross_partition(&cross_partition);
    Ok(())
}
