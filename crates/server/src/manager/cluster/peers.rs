//! Between managers: messages of agents over connections to the manager's port.
//!
//! A connection has one direction and is opened when there is a message to send. It begins with the same greeting as every other connection:
//! [`zerohop_wire::Features::AGENT`] is agreed on, and the cluster's secret is proved, if there is one. Messages follow, each as its length (4
//! bytes), the CRC-32C of its bytes (4) and its bytes. They have no answers: agents answer by messages of their own. A message without room or
//! without a connection is dropped, including gossip: a queue is never longer than the time limit of a probe.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};
use zerohop_control::limits::AGENT_FRAME_BYTES_MAX;
use zerohop_placement::{Address, ClusterMap};
use zerohop_wire::auth::Caller;
use zerohop_wire::checksum::crc32c;
use zerohop_wire::ids::{Incarnation, InstanceId, MapEpoch, NodeId};
use zerohop_wire::limits::{VERSION_MAX, VERSION_MIN};
use zerohop_wire::messages::{ClusterId, Hello, HelloAck, MapGet, Prove};
use zerohop_wire::{BadRequestReason, DecodeResult, Decoder, Encoder, Envelope, Failure, Features, Message};

use super::super::cluster_handle::Input;
use super::super::shared::ManagerShared;
use super::super::stream::Stream;
use super::INPUTS_MAX;
use crate::limits::{FRAME_TIME_OUT, SEND_TIME_OUT};

/// Maximum number of messages that wait for one manager.
const MESSAGES_MAX: usize = 256;

/// Connections without a message for this long are closed; they are opened again for the next message.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Time limit for connecting, and again for the greeting: the messages to send are outdated by then.
const CONNECT_MAX: Duration = Duration::from_millis(1_000);

/// Pause after a manager could not be reached.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Maximum number of connections to other managers: most nodes of a large cluster are not contacted for a long time.
const PEERS_MAX: usize = 512;

/// The connections to other managers.
#[derive(Debug)]
pub(super) struct Peers {
    shared: Rc<ManagerShared>,
    by: BTreeMap<Address, mpsc::Sender<Vec<u8>>>,
}

impl Peers {
    pub(super) fn new(shared: &Rc<ManagerShared>) -> Peers {
        Peers { shared: Rc::clone(shared), by: BTreeMap::new() }
    }

    /// Sends a message, or drops it.
    pub(super) fn send(&mut self, to: Address, bytes: Vec<u8>) {
        if bytes.len() > AGENT_FRAME_BYTES_MAX {
            return;
        }
        if self.by.get(&to).is_none_or(mpsc::Sender::is_closed) {
            if self.by.len() >= PEERS_MAX {
                // Connections that have ended are removed first; if all are in use, any: a connection is opened again when it is needed.
                self.by.retain(|_, sender| !sender.is_closed());
                if self.by.len() >= PEERS_MAX {
                    self.by.pop_first();
                }
            }
            let (sender, messages) = mpsc::channel(MESSAGES_MAX);
            spawn_local(send_messages(Rc::clone(&self.shared), to.clone(), messages));
            self.by.insert(to.clone(), sender);
        }
        if let Some(sender) = self.by.get(&to) {
            drop(sender.try_send(bytes));
        }
    }
}

/// Sends messages to one manager until none has arrived for a while.
async fn send_messages(shared: Rc<ManagerShared>, to: Address, mut messages: mpsc::Receiver<Vec<u8>>) {
    let mut stream = None::<Stream>;
    let mut is_logged = false;
    while let Ok(Some(first)) = timeout(IDLE_MAX, messages.recv()).await {
        let mut bytes = Vec::new();
        frame(&first, &mut bytes);
        while bytes.len() < AGENT_FRAME_BYTES_MAX
            && let Ok(next) = messages.try_recv()
        {
            frame(&next, &mut bytes);
        }
        // A write shows that the peer has closed the connection, the first or the second one: then it is tried once more.
        for _ in 0..2 {
            if stream.is_none() {
                stream = connect(&shared, &to, &mut is_logged).await;
            }
            let Some(open) = &mut stream else { break };
            match timeout(SEND_TIME_OUT, open.write_and_flush(&bytes)).await {
                Ok(Ok(())) => break,
                _ => stream = None,
            }
        }
        if stream.is_none() {
            // Messages that waited meanwhile are outdated.
            tokio::time::sleep(RETRY_PAUSE).await;
            while messages.try_recv().is_ok() {}
        }
    }
}

async fn connect(shared: &ManagerShared, to: &Address, is_logged: &mut bool) -> Option<Stream> {
    let connected = timeout(CONNECT_MAX, TcpStream::connect(to.as_str())).await;
    let stream = match connected {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            debug!(to = to.as_str(), %error, "a manager cannot be reached");
            return None;
        }
        Err(_) => return None,
    };
    stream.set_nodelay(true).ok()?;
    let tls = shared.about.tls.as_ref().and_then(|tls| tls.client.as_ref());
    let mut stream = Stream::opened(stream, to.as_str(), tls).ok()?;
    match timeout(CONNECT_MAX, handshake(shared, to, &mut stream)).await {
        Ok(Ok(())) => {
            *is_logged = false;
            Some(stream)
        }
        Ok(Err(RejectedPeer { reason, is_final, is_expected })) => {
            if is_expected {
                debug!(to = to.as_str(), reason, "a manager is not used");
            } else if !std::mem::replace(is_logged, true) {
                warn!(to = to.as_str(), reason, "the connection to a manager was rejected");
            }
            if is_final && let Some(cluster) = shared.cluster_handle() {
                // The attempt is repeated, and so is this report.
                drop(cluster.inputs.try_send(Input::Refused { by: to.clone(), reason }));
            }
            None
        }
        Err(_) => None,
    }
}

/// The reason why another manager is of no use.
struct RejectedPeer {
    /// The reason in words.
    reason: String,
    /// The refusal is final: the versions or the secrets differ.
    is_final: bool,
    /// It is one of the addresses that a returning member has of its cluster: its own.
    is_expected: bool,
}

impl From<Failure<'_>> for RejectedPeer {
    fn from(failure: Failure<'_>) -> RejectedPeer {
        let is_final = matches!(
            failure,
            Failure::UnsupportedVersion { .. } | Failure::AuthRequired | Failure::AuthFailed { .. }
        );
        RejectedPeer { reason: failure.to_string(), is_final, is_expected: false }
    }
}

impl From<std::io::Error> for RejectedPeer {
    fn from(error: std::io::Error) -> RejectedPeer {
        RejectedPeer { reason: error.to_string(), is_final: false, is_expected: false }
    }
}

/// Exchanges greetings with another manager, and has both sides prove that they know the cluster's secret.
async fn handshake(shared: &ManagerShared, to: &Address, stream: &mut Stream) -> Result<(), RejectedPeer> {
    let mut hello = Hello {
        version_min: VERSION_MIN,
        version_max: VERSION_MAX,
        features: Features::AGENT,
        // Agents exchange their cluster ids themselves: a joining node does not know the id yet.
        cluster: ClusterId::default(),
        map_epoch: MapEpoch(0),
        proof_method: 0,
        nonce: [0; 32],
        name: "manager",
    };
    let caller = match &mut *shared.proofs.borrow_mut() {
        Some(proofs) => Some(proofs.credential.add_proof_offer(&mut hello)?),
        None => None,
    };
    let (ack, prove) = exchange(stream, &Message::Hello(hello), |message| match message {
        Message::HelloAck(ack) => Caller::check_if_any(caller, ack).map(|prove| (*ack, prove)),
        other => Err(refusal(other)),
    })
    .await?;
    // A node that has joined before waits for the other managers that it knows.
    let is_final = shared.node.get() == NodeId(0);
    if let Some(reason) = useless(&ack, shared.about.incarnation) {
        let manager = match ack.incarnation == shared.about.incarnation {
            true => None,
            false => manager_of(stream, to, (&ack, prove)).await,
        };
        let reason = manager.map_or(reason.to_owned(), |manager| {
            format!(
                "it is the port of instance {}: name the manager of its node, {}",
                ack.instance,
                manager.as_str()
            )
        });
        let is_expected = !is_final && ack.incarnation == shared.about.incarnation;
        return Err(RejectedPeer { reason, is_final, is_expected });
    }
    match prove {
        None => Ok(()),
        Some(prove) => send_proof(stream, ack.version, prove).await,
    }
}

/// Proves knowledge of the cluster's secret.
async fn send_proof(stream: &mut Stream, version: u8, prove: Prove) -> Result<(), RejectedPeer> {
    exchange_with(stream, Decoder::before_proof(version), &Message::Prove(prove), |message| match message {
        Message::Proved => Ok(()),
        other => Err(refusal(other)),
    })
    .await
}

/// Why the process that has sent this greeting cannot take a node of this incarnation into a cluster; `None`: it may.
fn useless(ack: &HelloAck, own: Incarnation) -> Option<&'static str> {
    if ack.incarnation == own {
        return Some("it is the address of this node itself: name a node that runs in the cluster");
    }
    if ack.features.has(Features::AGENT) {
        return None;
    }
    Some(match ack.instance {
        InstanceId(0) => {
            "this address is a standalone node or an instance. Name the port of a node's manager (`zerohop node list` prints it), \
             or start a cluster with --hosts on all its nodes"
        }
        _ => {
            "this address is the port of an instance. Name the port of a node's manager (`zerohop node list` prints it)"
        }
    })
}

/// The address of the manager of an instance's node, which the map of the instance at `to` has. `None`: it cannot be asked, or it is no instance.
async fn manager_of(
    stream: &mut Stream,
    to: &Address,
    (ack, prove): (&HelloAck, Option<Prove>),
) -> Option<Address> {
    if let Some(prove) = prove {
        send_proof(stream, ack.version, prove).await.ok()?;
    }
    let decoder = Decoder::with_version(ack.version, ack.features);
    let get = Message::MapGet(MapGet { since: MapEpoch(0) });
    let map = exchange_with(stream, decoder, &get, |message| match message {
        Message::Map(map) => ClusterMap::decode(map.encoded).map_err(|_| BadRequestReason::Unexpected.into()),
        other => Err(refusal(other)),
    });
    let map = map.await.ok()?;
    let instance = map.instance(ack.instance)?;
    // A manager names instance 0 as well. The host may have several names.
    let port = |address: &str| address.rsplit_once(':').map(|(_, port)| port.to_owned());
    if port(instance.addr) != port(to.as_str()) {
        return None;
    }
    Address::new(map.node(instance.node)?.manager()).ok()
}

/// The failure in an unexpected reply.
fn refusal(reply: &Message<'_>) -> Failure<'static> {
    match reply {
        Message::Answer(Err(failure)) => failure.clone().into_owned(),
        _ => BadRequestReason::Unexpected.into(),
    }
}

/// Sends one message of a greeting and receives the answer.
async fn exchange<T>(
    stream: &mut Stream,
    message: &Message<'_>,
    hear: impl FnOnce(&Message<'_>) -> Result<T, Failure<'static>>,
) -> Result<T, RejectedPeer> {
    // The decoder limits the length: a greeting is short.
    exchange_with(stream, Decoder::before_hello(), message, hear).await
}

/// Sends one message in the version that the answer is decoded in, and receives the answer.
async fn exchange_with<T>(
    stream: &mut Stream,
    decoder: Decoder,
    message: &Message<'_>,
    hear: impl FnOnce(&Message<'_>) -> Result<T, Failure<'static>>,
) -> Result<T, RejectedPeer> {
    let mut bytes = Vec::new();
    let encoder = Encoder { version: decoder.version(), ..Encoder::default() };
    encoder.encode(&Envelope::default(), message, &mut bytes)?;
    stream.write_and_flush(&bytes).await?;
    bytes.clear();
    loop {
        let need = match decoder.decode(&bytes) {
            DecodeResult::Need(need) => need,
            DecodeResult::Frame { frame, .. } => {
                let mut expanded = Vec::new();
                let result = frame.message(&mut expanded).and_then(|message| hear(&message));
                return result.map_err(RejectedPeer::from);
            }
            DecodeResult::Refused { failure, .. } => return Err(failure.into()),
            DecodeResult::Broken(broken) => {
                return Err(RejectedPeer { reason: broken.to_string(), is_final: false, is_expected: false });
            }
        };
        let at = bytes.len();
        bytes.resize(need, 0);
        stream.read_exact(&mut bytes[at..]).await?;
    }
}

fn frame(message: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(message.len() as u32).to_le_bytes());
    out.extend_from_slice(&crc32c(message).to_le_bytes());
    out.extend_from_slice(message);
}

/// Receives messages of another manager, after its greeting, until the connection ends.
pub(in crate::manager) async fn serve(shared: &Rc<ManagerShared>, mut stream: Stream) {
    let Some(cluster) = shared.cluster_handle() else { return };
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
        // A full queue counts as a loss by the network.
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
    fn hello_from_own_process_or_without_agent_is_rejected() {
        let own = Incarnation(7);
        let ack = |incarnation: u64, instance: u32, features| HelloAck {
            incarnation: Incarnation(incarnation),
            instance: InstanceId(instance),
            features,
            ..HelloAck::default()
        };
        assert_eq!(useless(&ack(8, 0, Features::AGENT), own), None);
        for (ack, word) in [
            (ack(7, 0, Features::AGENT), "this node itself"),
            (ack(8, 0, Features(0)), "a standalone node"),
            (ack(8, 1, Features(0)), "the port of an instance"),
        ] {
            assert!(useless(&ack, own).unwrap().contains(word), "{word}");
        }
    }
}
