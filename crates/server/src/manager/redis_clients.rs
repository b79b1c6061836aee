//! Redis clients at the manager's port, which serves no Redis: each of their commands gets an error that names the right ports.

use std::io;

use tokio::time::timeout_at;

use super::connection_guard::ManagerConnectionGuard;
use super::shared::ManagerShared;
use super::stream::Stream;

/// The first byte of a command: no HTTP request, no frame and no TLS record begins with it.
pub(super) const FIRST_BYTE: u8 = b'*';

/// The most bytes that are read at once; their contents do not matter.
const READ_BYTES: usize = 4 << 10;

/// The most ports in the error.
const PORTS_SHOWN_MAX: usize = 4;

/// Answers the client until it goes, or its time has passed. A client that waits for each reply gets one for each command.
pub(super) async fn serve(visitor: &ManagerConnectionGuard, mut stream: Stream) {
    let error = error_line(&visitor.shared);
    let answers = async {
        let mut bytes = Vec::with_capacity(READ_BYTES);
        loop {
            stream.readable().await?;
            bytes.clear();
            match stream.try_read_buf(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(_) => stream.write_and_flush(error.as_bytes()).await?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err::<(), io::Error>(error),
            }
        }
    };
    // The connection is closed in each case.
    drop(timeout_at(visitor.due, answers).await);
}

fn error_line(shared: &ManagerShared) -> String {
    let history = shared.history.borrow();
    let own = history.map().node(shared.node.get());
    let instances = own.into_iter().flat_map(|node| node.instances());
    let ports: Vec<&str> = instances.filter_map(|instance| Some(instance.addr.rsplit_once(':')?.1)).collect();
    let advice = match &ports[..] {
        [] => "`zerohop node list` has them".to_owned(),
        ports if ports.len() > PORTS_SHOWN_MAX => {
            format!("{} and {} more", ports[..PORTS_SHOWN_MAX].join(", "), ports.len() - PORTS_SHOWN_MAX)
        }
        ports => ports.join(", "),
    };
    format!(
        "-ERR this is the port of the node's manager, which serves no Redis: use the port of an instance ({advice})\r\n"
    )
}
