//! A gateway over a store in memory, and a client that sends bytes as a test wants them.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zerohop_s3::{FixedUsers, GatewayOptions, S3Gateway};

use crate::memory::MemoryStore;
use crate::signing::SECRET;
pub(crate) use crate::signing::{Answer, SignedRequest, hash};

/// A gateway and its store.
pub(crate) struct TestGateway {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) port: u16,
}

impl TestGateway {
    /// Starts a gateway with one bucket, `bucket`.
    pub(crate) async fn start(change: impl FnOnce(&mut GatewayOptions)) -> Self {
        let store = Arc::new(MemoryStore::default());
        let users = FixedUsers { access_key: Some("tester".to_owned()), secret: SECRET.to_owned() };
        let mut options = GatewayOptions::new(Arc::new(users));
        change(&mut options);
        let gateway = S3Gateway::new(Arc::clone(&store), options).expect("the options are valid");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let port = listener.local_addr().expect("the listener has an address").port();
        tokio::spawn(gateway.serve(listener, std::future::pending()));
        let gateway = Self { store, port };
        let create = SignedRequest::new("PUT", "/bucket");
        assert_eq!(gateway.send(&create, b"").await.status, 200);
        gateway
    }

    /// Sends a request with a signature and these bytes as body.
    pub(crate) async fn send(&self, request: &SignedRequest<'_>, body: &[u8]) -> Answer {
        let (head, _) = request.head(body.len());
        self.exchange(&[head.as_bytes(), body].concat(), usize::MAX).await
    }

    /// Sends bytes in pieces, and reads the answer.
    pub(crate) async fn exchange(&self, bytes: &[u8], piece: usize) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.expect("the gateway listens");
        for piece in bytes.chunks(piece.min(bytes.len().max(1))) {
            // The gateway may have answered and closed already.
            let _ = stream.write_all(piece).await;
            tokio::task::yield_now().await;
        }
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        Answer::parse(&answer)
    }

    /// The status of an object.
    pub(crate) async fn status_of(&self, path: &str) -> u16 {
        self.send(&SignedRequest::new("GET", path), b"").await.status
    }
}
