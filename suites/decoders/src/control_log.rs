//! Any bytes as the log of a manager: refused, or opened, and then some of them are good and time may pass.

use zerohop_base::time::Time;
use zerohop_control::manager::{ManagerEvent, ManagerSettings, RaftManager};

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    let Ok((mut manager, good)) = RaftManager::open(Time(0), bytes, ManagerSettings::new(1)) else { return };
    assert!(good <= bytes.len());
    manager.handle(Time(1_000_000), ManagerEvent::Tick);
}
