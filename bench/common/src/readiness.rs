//! A level-triggered epoll, for the load generator and the bare store.

use std::io;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

use crate::limits::EVENTS_MAX;

/// A set of watched sockets.
pub struct Readiness {
    epoll: OwnedFd,
}

/// The watched events of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Received bytes, or their end.
    Receive,
    /// Room for bytes.
    Send,
    /// Either.
    Both,
}

/// A ready socket. A failed one is reported as ready for its watched events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadySocket {
    /// The name given when it was added.
    pub name: u64,
    /// Bytes can be read.
    pub receives: bool,
    /// Bytes can be written.
    pub sends: bool,
}

/// The buffer for the events of one wait.
pub struct Events(Vec<epoll::Event>);

impl Default for Events {
    fn default() -> Self {
        Events(Vec::with_capacity(EVENTS_MAX))
    }
}

impl Events {
    /// The events of the last wait.
    pub fn drain(&mut self) -> impl Iterator<Item = ReadySocket> {
        self.0.drain(..).map(|event| {
            let (flags, data) = (event.flags, event.data);
            let failed = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
            ReadySocket {
                name: data.u64(),
                receives: failed || flags.contains(epoll::EventFlags::IN),
                sends: failed || flags.contains(epoll::EventFlags::OUT),
            }
        })
    }
}

impl Readiness {
    /// An empty set.
    ///
    /// # Errors Those of the system.
    pub fn new() -> io::Result<Readiness> {
        Ok(Readiness { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Watches a socket for received bytes.
    pub fn add(&self, socket: impl AsFd, name: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, epoll::EventData::new_u64(name), flags(Watch::Receive))?)
    }

    /// Changes the watched events of a socket.
    pub fn change(&self, socket: impl AsFd, name: u64, watch: Watch) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, epoll::EventData::new_u64(name), flags(watch))?)
    }

    /// Waits until a socket is ready, or until the limit. Whether any is ready.
    pub fn wait(&self, events: &mut Events, limit: Option<Duration>) -> io::Result<bool> {
        let limit = limit
            .map(|limit| Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() });
        loop {
            match epoll::wait(&self.epoll, spare_capacity(&mut events.0), limit.as_ref()) {
                Ok(count) => return Ok(count > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn flags(watch: Watch) -> epoll::EventFlags {
    match watch {
        Watch::Receive => epoll::EventFlags::IN,
        Watch::Send => epoll::EventFlags::OUT,
        Watch::Both => epoll::EventFlags::IN | epoll::EventFlags::OUT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn socket_readiness_covers_only_watched_events() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let (readiness, mut events) = (Readiness::new().unwrap(), Events::default());
        readiness.add(&here, 7).unwrap();
        let now = Some(Duration::ZERO);
        assert!(!readiness.wait(&mut events, now).unwrap());
        there.write_all(b"x").unwrap();
        let mut ready = |watch| {
            readiness.change(&here, 7, watch).unwrap();
            assert!(readiness.wait(&mut events, now).unwrap());
            events.drain().map(|ready| (ready.name, ready.receives, ready.sends)).collect::<Vec<_>>()
        };
        assert_eq!(ready(Watch::Receive), [(7, true, false)]);
        assert_eq!(ready(Watch::Send), [(7, false, true)]);
        assert_eq!(ready(Watch::Both), [(7, true, true)]);
        drop(there);
        assert_eq!(ready(Watch::Send), [(7, true, true)]);
    }
}
