//! Between managers: messages of agents over connections to the manager's port.
//!
//! A connection goes one way and is opened when there is something to send. It begins with [`AGENT_MAGIC`] (8 bytes, of
//! which the last is the version); then come messages, each as its length (4 bytes), the CRC-32C of its bytes (4) and its
//! bytes. Nothing is answered on it: agents answer by messages of their own. What finds no room, or nobody, is let lie, and
//! gossip with it: a queue is never longer than a probe is patient.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};
use zerohop_control::limits::AGENT_FRAME_BYTES_MAX;
use zerohop_placement::Address;
use zerohop_wire::checksum::crc32c;

use super::super::shared::Shared;
use super::{INPUTS_MAX, Input};
use crate::server::limits::{FRAME_TIME_OUT, SEND_TIME_OUT};

/// How a connection between agents begins. Its first byte is of no other protocol of this port.
pub(in crate::manager) const AGENT_MAGIC: [u8; 8] = *b"\xa7zhagnt\x01";

/// Messages that wait for one manager.
const MESSAGES_MAX: usize = 256;

/// Connections of which nothing came for so long are closed; they are opened again when there is something to say.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// How long connecting may take: what is to be said is stale by then.
const CONNECT_MAX: Duration = Duration::from_millis(1_000);

/// Pause after a manager could not be reached.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Ways to other managers: most of a large cluster are asked nothing for a long time.
const PEERS_MAX: usize = 512;

/// The ways to other managers.
#[derive(Debug, Default)]
pub(super) struct Peers {
    by: BTreeMap<Address, mpsc::Sender<Vec<u8>>>,
}

impl Peers {
    /// Sends a message, or lets it lie.
    pub(super) fn send(&mut self, to: Address, bytes: Vec<u8>) {
        if bytes.len() > AGENT_FRAME_BYTES_MAX {
            return;
        }
        if self.by.get(&to).is_none_or(mpsc::Sender::is_closed) {
            if self.by.len() >= PEERS_MAX {
                // Those that have ended first; if all are at work, anybody: a way is opened again when it is needed.
                self.by.retain(|_, sender| !sender.is_closed());
                if self.by.len() >= PEERS_MAX {
                    self.by.pop_first();
                }
            }
            let (sender, messages) = mpsc::channel(MESSAGES_MAX);
            spawn_local(carry(to.clone(), messages));
            self.by.insert(to.clone(), sender);
        }
        if let Some(sender) = self.by.get(&to) {
            drop(sender.try_send(bytes));
        }
    }
}

/// Carries messages to one manager until none has come for a while.
async fn carry(to: Address, mut messages: mpsc::Receiver<Vec<u8>>) {
    let mut stream = None::<TcpStream>;
    while let Ok(Some(first)) = timeout(IDLE_MAX, messages.recv()).await {
        let mut bytes = Vec::new();
        frame(&first, &mut bytes);
        while bytes.len() < AGENT_FRAME_BYTES_MAX
            && let Ok(next) = messages.try_recv()
        {
            frame(&next, &mut bytes);
        }
        // A connection that the other side has closed is found out by the first write, or by the second: once more then.
        for _ in 0..2 {
            if stream.is_none() {
                stream = connect(&to).await;
            }
            let Some(open) = &mut stream else { break };
            match timeout(SEND_TIME_OUT, open.write_all(&bytes)).await {
                Ok(Ok(())) => break,
                _ => stream = None,
            }
        }
        if stream.is_none() {
            // What waited meanwhile is stale.
            tokio::time::sleep(RETRY_PAUSE).await;
            while messages.try_recv().is_ok() {}
        }
    }
}

async fn connect(to: &Address) -> Option<TcpStream> {
    let connected = timeout(CONNECT_MAX, TcpStream::connect(to.as_str())).await;
    let mut stream = match connected {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            debug!(to = to.as_str(), %error, "a manager cannot be reached");
            return None;
        }
        Err(_) => return None,
    };
    stream.set_nodelay(true).ok()?;
    stream.write_all(&AGENT_MAGIC).await.ok()?;
    Some(stream)
}

fn frame(message: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(message.len() as u32).to_le_bytes());
    out.extend_from_slice(&crc32c(message).to_le_bytes());
    out.extend_from_slice(message);
}

/// Takes messages of another manager until the connection ends.
pub(in crate::manager) async fn serve(shared: &Rc<Shared>, mut stream: TcpStream) {
    let Some(cluster) = shared.cluster_handle() else { return };
    let mut magic = [0; AGENT_MAGIC.len()];
    match timeout(FRAME_TIME_OUT, stream.read_exact(&mut magic)).await {
        Ok(Ok(_)) if magic == AGENT_MAGIC => {}
        Ok(Ok(_)) => return warn!("a manager of another version has connected"),
        _ => return,
    }
    let mut last = Instant::now();
    loop {
        let mut head = [0; 8];
        match timeout(2 * IDLE_MAX, stream.read_exact(&mut head)).await {
            Ok(Ok(_)) => {}
            _ => return,
        }
        let [l0, l1, l2, l3, c0, c1, c2, c3] = head;
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if length > AGENT_FRAME_BYTES_MAX {
            return warn!(length, "a message of a manager is longer than any may be");
        }
        let mut bytes = vec![0; length];
        match timeout(FRAME_TIME_OUT, stream.read_exact(&mut bytes)).await {
            Ok(Ok(_)) if crc32c(&bytes) == u32::from_le_bytes([c0, c1, c2, c3]) => {}
            _ => return,
        }
        // Full: as if the network had lost it.
        drop(cluster.inputs.try_send(Input::Received(bytes)));
        if last.elapsed() > Duration::from_millis(10) {
            last = Instant::now();
            tokio::task::yield_now().await;
        }
    }
}

const _: () = assert!(MESSAGES_MAX < INPUTS_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_is_of_no_other_protocol_of_the_port() {
        assert_ne!(AGENT_MAGIC[0], zerohop_wire::MAGIC[0]);
        assert!(!AGENT_MAGIC[0].is_ascii(), "HTTP begins with a letter");
    }
}
