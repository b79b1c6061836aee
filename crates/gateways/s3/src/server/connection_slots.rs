//! The places of connections: a limit in total and one for each address. Connections of foreign clients end first.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::connection_state::ConnectionState;

/// How many connections a gateway has at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The most connections.
    pub total: usize,
    /// The most connections from one address.
    pub per_address: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { total: 4096, per_address: 1024 }
    }
}

/// The connections in their order.
#[derive(Debug, Default)]
struct ConnectionTable {
    next: u64,
    by_number: BTreeMap<u64, (IpAddr, Arc<ConnectionState>)>,
}

/// The places. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct ConnectionPlaces {
    limits: ConnectionLimits,
    table: Arc<Mutex<ConnectionTable>>,
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPlace {
    number: u64,
    table: Arc<Mutex<ConnectionTable>>,
    pub(super) state: Arc<ConnectionState>,
}

fn locked(table: &Mutex<ConnectionTable>) -> MutexGuard<'_, ConnectionTable> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ConnectionPlaces {
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        Self { limits, table: Arc::default() }
    }

    /// A place for a connection from this address. If there is none, the oldest connection without a request of a user ends.
    /// `None`: there is no such connection.
    pub(super) fn take(&self, address: IpAddr) -> Option<ConnectionPlace> {
        let mut table = locked(&self.table);
        let of_address = table.by_number.values().filter(|(other, _)| *other == address).count();
        let is_foreign = |state: &ConnectionState| !state.is_known.load(Ordering::Relaxed);
        let victim = if of_address >= self.limits.per_address {
            let mut own = table.by_number.iter().filter(|(_, (other, _))| *other == address);
            Some(own.find(|(_, (_, state))| is_foreign(state)).map(|(number, _)| *number)?)
        } else if table.by_number.len() >= self.limits.total {
            Some(
                table
                    .by_number
                    .iter()
                    .find(|(_, (_, state))| is_foreign(state))
                    .map(|(number, _)| *number)?,
            )
        } else {
            None
        };
        if let Some((_, state)) = victim.and_then(|number| table.by_number.remove(&number)) {
            state.end.notify_one();
        }
        let (number, state) = (table.next, Arc::<ConnectionState>::default());
        table.next += 1;
        table.by_number.insert(number, (address, Arc::clone(&state)));
        Some(ConnectionPlace { number, table: Arc::clone(&self.table), state })
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        locked(&self.table).by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const FAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn has_ended(place: &ConnectionPlace) -> bool {
        !locked(&place.table).by_number.contains_key(&place.number)
    }

    #[test]
    fn oldest_foreign_client_ends_for_a_newcomer_and_users_stay() {
        let places = ConnectionPlaces::new(ConnectionLimits { total: 3, per_address: 2 });
        let user = places.take(NEAR).unwrap();
        user.state.is_known.store(true, Ordering::Relaxed);
        let foreign = places.take(NEAR).unwrap();
        // The share of the address is full, although a place is free.
        let second = places.take(NEAR).unwrap();
        assert!(has_ended(&foreign) && !has_ended(&user) && !has_ended(&second));
        // The place of an ended connection is not given back twice.
        drop(foreign);
        second.state.is_known.store(true, Ordering::Relaxed);
        assert!(places.take(NEAR).is_none());
        let far = places.take(FAR).unwrap();
        let another = places.take(FAR).unwrap();
        assert!(has_ended(&far) && !has_ended(&user) && !has_ended(&second));
        another.state.is_known.store(true, Ordering::Relaxed);
        assert!(places.take(FAR).is_none());
        drop(user);
        assert!(places.take(FAR).is_some());
    }
}
