//! A client: the real session, and the state of the shell around it.

use std::collections::BTreeMap;

use bytes::BytesMut;
use zerohop_base::time::Time;
use zerohop_session::{ConnectionId, ConnectionLoss, Session, SessionEffect, SessionSettings};

use crate::network::{LinkArrival, LinkId};
use crate::procedures::ClientProcedures;

/// Operations of a session with tokens from here on are requests of procedures.
pub(crate) const PROCEDURES_FROM: usize = 1 << 47;

/// One life of a client: when it dies, another begins in its place.
#[derive(Debug)]
pub(crate) struct ClientLife {
    pub(crate) session: Session<usize>,
    pub(crate) procedures: ClientProcedures,
    pub(crate) life: u32,
    links: BTreeMap<ConnectionId, LinkId>,
    input: BTreeMap<LinkId, BytesMut>,
    /// What has arrived while it was paused, in order.
    backlog: Vec<(LinkId, ConnectionId, LinkArrival)>,
    pub(crate) paused_until: Time,
    /// The time of its next turn.
    pub(crate) turn_at: Option<Time>,
    /// Open calls, as indexes in the history.
    pub(crate) calls: Vec<usize>,
    effects: Vec<SessionEffect<usize>>,
}

impl ClientLife {
    pub(crate) fn new(settings: SessionSettings, procedures: ClientProcedures, life: u32) -> Self {
        Self {
            session: Session::new(settings),
            procedures,
            life,
            links: BTreeMap::new(),
            input: BTreeMap::new(),
            backlog: Vec::new(),
            paused_until: Time(0),
            turn_at: None,
            calls: Vec::new(),
            effects: Vec::new(),
        }
    }

    /// Stores an arrival for the next turn.
    pub(crate) fn arrive(&mut self, link: LinkId, connection: ConnectionId, what: LinkArrival) {
        self.backlog.push((link, connection, what));
    }

    /// Passes all arrivals to the session, and returns the session's effects.
    pub(crate) fn run_turn(&mut self, now: Time) -> Vec<SessionEffect<usize>> {
        for (link, connection, what) in std::mem::take(&mut self.backlog) {
            if self.links.get(&connection) != Some(&link) {
                continue;
            }
            match what {
                LinkArrival::Opened => self.session.connected(now, connection),
                LinkArrival::Bytes(bytes) => {
                    let input = self.input.entry(link).or_default();
                    input.extend_from_slice(&bytes);
                    self.session.received(now, connection, input);
                }
                LinkArrival::Refused => {
                    self.connection_lost(now, connection, std::io::ErrorKind::ConnectionRefused)
                }
                LinkArrival::Disconnected => {
                    self.connection_lost(now, connection, std::io::ErrorKind::ConnectionReset)
                }
            }
        }
        self.run_procedures(now);
        self.session.step(now, &mut self.effects);
        std::mem::take(&mut self.effects)
    }

    /// Polls the procedures that are due, and submits their requests.
    pub(crate) fn run_procedures(&mut self, now: Time) {
        for (request, token) in self.procedures.run(now) {
            self.session.submit(now, request, PROCEDURES_FROM + token);
        }
    }

    /// When the client has something to do next.
    pub(crate) fn next_turn_due(&self) -> Option<Time> {
        self.session.next_turn_due().into_iter().chain(self.procedures.next_due()).min()
    }

    /// Assigns a link to a connection that the session asked for.
    pub(crate) fn opens(&mut self, connection: ConnectionId, link: LinkId) {
        self.links.insert(connection, link);
    }

    pub(crate) fn link(&self, connection: ConnectionId) -> Option<LinkId> {
        self.links.get(&connection).copied()
    }

    pub(crate) fn closes(&mut self, connection: ConnectionId) -> Option<LinkId> {
        let link = self.links.remove(&connection)?;
        self.input.remove(&link);
        Some(link)
    }

    /// All its links.
    pub(crate) fn open_links(&self) -> Vec<LinkId> {
        self.links.values().copied().collect()
    }

    fn connection_lost(&mut self, now: Time, connection: ConnectionId, kind: std::io::ErrorKind) {
        self.closes(connection);
        self.session.disconnected(now, connection, ConnectionLoss { kind, fault: None, expired_s: None });
    }
}
