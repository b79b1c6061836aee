//! Connections to the manager's port: taken up, counted, and told apart by their first byte.

use std::io::{self, ErrorKind};
use std::net;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};
use zerohop_wire::MAGIC;

use super::shared::Shared;
use super::stream::Stream;
use super::{frames, http};
use crate::clock::Stopwatch;
use crate::server::limits::{GREETING_TIME_OUT, MANAGER_CONNECTIONS_MAX, REFUSALS_TOLD_EVERY_MS};

/// Pause after the system would give no more sockets: trying again at once would spin.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Makes the runtime's own of a listener.
pub(super) fn take_over(listener: net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Takes up connections for as long as it is polled.
pub(super) async fn accept(shared: &Rc<Shared>, listener: TcpListener) {
    let mut told = None::<Stopwatch>;
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
            Err(error) => {
                tell(&mut told, || warn!(%error, "the manager can take up no connection"));
                sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        if shared.connections.get() >= MANAGER_CONNECTIONS_MAX {
            shared.refused.set(shared.refused.get() + 1);
            let refused = shared.refused.get();
            tell(&mut told, || {
                warn!(refused, "the manager has as many connections as it takes; others are closed")
            });
            continue;
        }
        let counted = Counted::new(Rc::clone(shared));
        spawn_local(async move {
            serve(&counted.0, stream).await;
            drop(counted);
        });
    }
}

async fn serve(shared: &Rc<Shared>, stream: TcpStream) {
    // A peer that is gone already is found out by reading.
    drop(stream.set_nodelay(true));
    let taken_up = async {
        let mut stream = Stream::accepted(stream, shared).await?;
        let first = stream.peek().await?;
        Ok::<_, io::Error>((stream, first))
    };
    match timeout(GREETING_TIME_OUT, taken_up).await {
        Ok(Ok((stream, Some(first)))) if first == MAGIC[0] => frames::serve(shared, stream).await,
        Ok(Ok((stream, Some(_)))) => http::serve(shared, stream).await,
        Ok(Err(error)) if error.kind() == ErrorKind::InvalidData => {
            debug!(%error, "a connection did not come about");
        }
        // Closed, broken, or silent.
        _ => {}
    }
}

/// A connection that counts as long as this lives.
struct Counted(Rc<Shared>);

impl Counted {
    fn new(shared: Rc<Shared>) -> Self {
        shared.connections.set(shared.connections.get() + 1);
        Counted(shared)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
    }
}

/// Tells something unless something was told a moment ago.
fn tell(told: &mut Option<Stopwatch>, say: impl FnOnce()) {
    if told.is_none_or(|told| told.elapsed_ms() >= REFUSALS_TOLD_EVERY_MS) {
        say();
        *told = Some(Stopwatch::start());
    }
}
