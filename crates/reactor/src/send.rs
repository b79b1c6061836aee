//! Sending: one write for each connection with bytes to send, at the end of the batch.

use std::io::{ErrorKind, IoSlice};

use super::Reactor;
use super::connection::ConnectionStage;
use super::connections::Connections;
use super::counters::CloseReason;
use super::driver::{ConnectionId, Driver};
use super::service::Service;

impl<D: Driver, S: Service> Reactor<D, S> {
    /// Writes the bytes that the batch has queued, and handles the consequences.
    pub(super) fn flush_all(&mut self) {
        let mut dirty = std::mem::take(&mut self.connections.dirty);
        for id in dirty.drain(..) {
            self.flush(id);
        }
        // Nothing was queued meanwhile, because the service answers only within a batch.
        self.connections.dirty = dirty;
    }

    fn flush(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.dirty = false;
        connection.close_frame();
        if connection.doomed.is_none() && connection.writable && connection.unsent() > 0 {
            self.connections.write(&mut self.driver, id, self.now.elapsed_ms);
        }
        let fits = self.connections.recount(id);
        let Some(connection) = self.connections.get_mut(id) else { return };
        if !fits && connection.unsent() > 0 {
            connection.doomed.get_or_insert(CloseReason::Flooded);
        }
        if let Some(why) = connection.doomed {
            return self.close(id, why);
        }
        if let ConnectionStage::Closing(why) = connection.stage
            && connection.unsent() == 0
        {
            if connection.ended_ms.is_some() {
                return self.close(id, why);
            }
            self.driver.shutdown_write(id);
        } else if connection.is_finished() {
            return self.close(id, CloseReason::Peer);
        }
        self.enqueue(id);
        self.watch(id);
    }
}

impl Connections {
    /// Writes the queued bytes of a connection with one system call.
    pub(super) fn write(&mut self, driver: &mut dyn Driver, id: ConnectionId, now_ms: u64) {
        let Some(connection) = self.get_mut(id) else { return };
        let before = connection.unsent();
        if before == 0 {
            return;
        }
        let written = loop {
            match driver.write(id, &[IoSlice::new(&connection.out[connection.sent..])]) {
                Ok(written) => break written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break 0,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    connection.doomed = Some(CloseReason::Broken);
                    return;
                }
            }
        };
        if written > 0 {
            connection.send_since_ms = now_ms;
        }
        if written < before {
            connection.writable = false;
            connection.sent += written;
            // The sent part is removed once it is the larger part, so that the buffer does not grow without limit.
            if connection.sent > connection.out.len() / 2 {
                connection.out.drain(..connection.sent);
                connection.sent = 0;
            }
        } else {
            connection.sent = 0;
            let mut buffer = std::mem::take(&mut connection.out);
            buffer.clear();
            self.buffers.give(buffer);
        }
        self.unsent_total -= written;
        self.counters.writes += 1;
        self.counters.bytes_out += written as u64;
    }
}
