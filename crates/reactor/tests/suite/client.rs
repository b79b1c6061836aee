//! A client that sends plain frames over a blocking socket.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use crate::give_up::GIVE_UP_AFTER;
use zerohop_wire::ids::{MapEpoch, RequestId, Timestamp};
use zerohop_wire::messages::{ClusterId, Hello, Outcome, Query, RecordRead};
use zerohop_wire::{DecodeResult, Decoder, Encoder, Envelope, Failure, Features, GREETING_VERSION, Message};

/// The content of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SocketAnswer {
    Ack,
    Value(Vec<u8>),
    Failed(Failure<'static>),
}

pub(crate) struct SocketClient {
    pub(crate) socket: TcpStream,
    received: Vec<u8>,
}

impl SocketClient {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(GIVE_UP_AFTER)).unwrap();
        socket.set_nodelay(true).unwrap();
        SocketClient { socket, received: Vec::new() }
    }

    /// Connects and sends the greeting.
    pub(crate) fn connect_with_hello(address: SocketAddr) -> Self {
        let mut client = SocketClient::connect(address);
        client.send(&hello());
        assert_eq!(client.next(), Some((1, SocketAnswer::Ack)));
        client
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// The next answer, or `None` when the server has closed.
    pub(crate) fn next(&mut self) -> Option<(u64, SocketAnswer)> {
        let mut chunk = [0; 1 << 16];
        loop {
            if let DecodeResult::Frame { frame, used } =
                Decoder::with_version(version_of(&self.received), Features(0)).decode(&self.received)
            {
                let content = match frame.message(&mut Vec::new()).unwrap() {
                    Message::HelloAck(_) => SocketAnswer::Ack,
                    Message::Answer(Ok(Outcome::Value { bytes, .. })) => SocketAnswer::Value(bytes.to_vec()),
                    Message::Answer(Err(failure)) => SocketAnswer::Failed(failure.into_owned()),
                    other => panic!("{other:?}"),
                };
                let request = frame.envelope.request.0;
                self.received.drain(..used);
                return Some((request, content));
            }
            match self.socket.read(&mut chunk).unwrap() {
                0 => {
                    assert!(self.received.is_empty(), "closed in the middle of an answer");
                    return None;
                }
                count => self.received.extend_from_slice(&chunk[..count]),
            }
        }
    }
}

/// The version of the first frame of these bytes: a greeting has one of its own.
fn version_of(bytes: &[u8]) -> u8 {
    bytes.get(3).copied().unwrap_or(GREETING_VERSION)
}

pub(crate) fn encoded(request: u64, message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let envelope = Envelope { request: RequestId(request), ..Envelope::default() };
    Encoder::newest_for(message).encode(&envelope, message, &mut out).unwrap();
    out
}

pub(crate) fn lookup(request: u64, key: &[u8]) -> Vec<u8> {
    encoded(request, &Message::Read { seen: Timestamp::ZERO, read: RecordRead { key, query: Query::Lookup } })
}

pub(crate) fn hello() -> Vec<u8> {
    let hello = Hello {
        version_min: zerohop_wire::limits::VERSION_MIN,
        version_max: zerohop_wire::limits::VERSION_MAX,
        features: Features(0),
        cluster: ClusterId::default(),
        map_epoch: MapEpoch(0),
        proof_method: 0,
        nonce: [0; 32],
        name: "test",
    };
    encoded(1, &Message::Hello(hello))
}
