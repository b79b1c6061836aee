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
use zerohop_system::descriptors::Descriptors;
use zerohop_wire::MAGIC;

use super::accept_limits::AcceptResult;
use super::shared::ManagerShared;
use super::stream::Stream;
use super::visitor::Visitor;
use super::{frames, http};
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
    let mut told = None::<Stopwatch>;
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok((stream, _)) if Descriptors::here().refuses(&stream) => {
                log_rate_limited(&mut told, || {
                    warn!(
                        "connections to the manager are closed: the descriptors that are left are kept for data"
                    );
                });
                continue;
            }
            Ok(accepted) => accepted,
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
            Err(error) => {
                log_rate_limited(&mut told, || warn!(%error, "the manager can take up no connection"));
                sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let entrance = {
            let history = shared.history.borrow();
            shared.door.borrow_mut().enter(Some(peer.ip()), history.map())
        };
        let AcceptResult::Open(key, place) = entrance else {
            shared.refused.set(shared.refused.get() + 1);
            let refused = shared.refused.get();
            log_rate_limited(&mut told, || {
                warn!(refused, "the manager has as many connections as it takes; others are closed")
            });
            continue;
        };
        let visitor = Visitor::new(shared, key, place);
        let task = spawn_local(async move { serve(&visitor, stream).await });
        Visitor::is_served_by(shared, (key, place), task.abort_handle());
    }
}

async fn serve(visitor: &Visitor, stream: TcpStream) {
    let shared = &visitor.shared;
    // Reading will show if the peer is gone.
    drop(stream.set_nodelay(true));
    let taken_up = async {
        let mut stream = Stream::accepted(stream, shared).await?;
        let first = stream.peek().await?;
        Ok::<_, io::Error>((stream, first))
    };
    match timeout_at(visitor.due, taken_up).await {
        Ok(Ok((stream, Some(first)))) if first == MAGIC[0] => frames::serve(visitor, stream).await,
        Ok(Ok((stream, Some(_)))) => http::serve(visitor, stream).await,
        Ok(Err(error)) if error.kind() == ErrorKind::InvalidData => {
            debug!(%error, "a connection did not come about");
        }
        // The connection is closed, broken, or silent.
        _ => {}
    }
}

/// Calls `say`, unless that was done a moment ago.
fn log_rate_limited(told: &mut Option<Stopwatch>, say: impl FnOnce()) {
    if told.is_none_or(|told| told.elapsed_ms() >= REFUSALS_LOG_INTERVAL_MS) {
        say();
        *told = Some(Stopwatch::start());
    }
}
