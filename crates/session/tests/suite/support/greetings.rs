//! The greetings of the fake cluster: its version of the protocol, and its secret.

use std::collections::{BTreeMap, BTreeSet};

use zerohop_session::ConnectionId;
use zerohop_wire::Failure;
use zerohop_wire::auth::{Challenge, Guard};
use zerohop_wire::limits::VERSION_MAX;
use zerohop_wire::messages::{Hello, HelloAck, Prove};

pub struct Greetings {
    /// The version that it chooses for every connection.
    pub version: u8,
    /// What it answers to every greeting, if that is an error.
    pub refusal: Option<Failure<'static>>,
    /// The guard of the secret, if there is one.
    pub guard: Option<Guard>,
    challenges: BTreeMap<ConnectionId, Challenge>,
    proved: BTreeSet<ConnectionId>,
}

impl Default for Greetings {
    fn default() -> Greetings {
        Greetings {
            version: VERSION_MAX,
            refusal: None,
            guard: None,
            challenges: BTreeMap::new(),
            proved: BTreeSet::new(),
        }
    }
}

impl Greetings {
    pub fn answer(
        &mut self,
        id: ConnectionId,
        hello: &Hello<'_>,
        mut ack: HelloAck,
    ) -> Result<HelloAck, Failure<'static>> {
        if let Some(failure) = &self.refusal {
            return Err(failure.clone());
        }
        ack.version = self.version;
        if let Some(guard) = &mut self.guard {
            self.challenges.insert(id, guard.challenge(hello, &mut ack)?);
        }
        Ok(ack)
    }

    /// Checks a proof. The inner `None`: no server has asked for one.
    pub fn prove(&mut self, id: ConnectionId, prove: &Prove) -> Result<(), Option<Failure<'static>>> {
        let challenge = self.challenges.remove(&id).ok_or(None)?;
        challenge.accept(prove).map_err(Some)?;
        self.proved.insert(id);
        Ok(())
    }

    /// Whether this connection has not proved what it must.
    pub fn lacks_proof(&self, id: ConnectionId) -> bool {
        self.guard.is_some() && !self.proved.contains(&id)
    }
}
