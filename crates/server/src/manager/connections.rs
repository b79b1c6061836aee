//! Connections to the manager's port: they are accepted, counted, and distinguished by their first byte.

use std::io::{self, ErrorKind};
use std::net;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout_at};
use tracing::{debug, warn};
use zerohop_system::clock::Stopwatch;
use zerohop_system::descriptors::{ConnectionRoom, CountedConnection, Descriptors};
use zerohop_system::refused_connections;
use zerohop_system::repeated::RepeatedEvent;
use zerohop_wire::MAGIC;

use super::accept_limits::AcceptResult;
use super::connection_guard::ManagerConnectionGuard;
use super::shared::ManagerShared;
use super::stream::Stream;
use super::{frames, http, redis_clients};
use crate::limits::REFUSALS_LOG_INTERVAL_MS;

/// Pause after the system could provide no more sockets: an immediate retry would spin.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Converts a listener into one of the runtime.
pub(super) fn into_runtime_listener(listener: net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Accepts connections for as long as it is polled.
pub(super) async fn accept(shared: &Rc<ManagerShared>, listener: TcpListener) {
    let started = Stopwatch::start();
    // One for each reason: a frequent one does not hide another.
    let [mut failures, mut lacking, mut full] =
        [(); 3].map(|()| RepeatedEvent::new(REFUSALS_LOG_INTERVAL_MS));
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
            Err(error) => {
                if let Some(attempts) = failures.record(started.elapsed_ms(), 1) {
                    warn!(%error, attempts, "the manager cannot accept a connection");
                }
                sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let counted = CountedConnection::count();
        let descriptors = Descriptors::of_process();
        // The last descriptors of connections are for the manager: it answers reports and joins.
        if descriptors.room_for(&counted, &stream) == ConnectionRoom::Closed {
            refused_connections::record(1);
            if let Some(refused) = lacking.record(started.elapsed_ms(), 1) {
                warn!(
                    refused,
                    "connections to the manager are closed: this process may have {descriptors}; start it with a higher limit \
                     (`ulimit -n`; LimitNOFILE for systemd), or close connections that are not needed"
                );
            }
            continue;
        }
        let entrance = {
            let history = shared.history.borrow();
            shared.door.borrow_mut().enter(Some(peer.ip()), history.map())
        };
        let AcceptResult::Open(key, place) = entrance else {
            shared.refused.set(shared.refused.get() + 1);
            if let Some(refused) = full.record(started.elapsed_ms(), 1) {
                warn!(refused, "the manager has reached its connection limit; new connections are closed");
            }
            continue;
        };
        let visitor = ManagerConnectionGuard::new(shared, key, place, counted);
        let task = spawn_local(async move { serve(&visitor, stream).await });
        ManagerConnectionGuard::is_served_by(shared, (key, place), task.abort_handle());
    }
}

async fn serve(visitor: &ManagerConnectionGuard, stream: TcpStream) {
    let shared = &visitor.shared;
    // Reading will show if the peer is gone.
    drop(stream.set_nodelay(true));
    let peer = stream.peer_addr();
    let first_byte = async {
        let mut stream = Stream::accepted(stream, shared).await?;
        let first = stream.peek().await?;
        Ok::<_, io::Error>((stream, first))
    };
    match timeout_at(visitor.due, first_byte).await {
        Ok(Ok((stream, Some(first)))) if first == MAGIC[0] => frames::serve(visitor, stream).await,
        Ok(Ok((stream, Some(redis_clients::FIRST_BYTE)))) => redis_clients::serve(visitor, stream).await,
        Ok(Ok((stream, Some(_)))) => http::serve(visitor, stream).await,
        Ok(Err(error)) if error.kind() == ErrorKind::InvalidData => {
            match shared.door.borrow_mut().certificates_refused.must_log(&error, REFUSALS_LOG_INTERVAL_MS) {
                true => {
                    let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
                    warn!(peer, reason = %error, "a client is refused by the manager");
                }
                false => debug!(%error, "a connection was not set up"),
            }
        }
        // The connection is closed, broken, or silent.
        _ => {}
    }
}
