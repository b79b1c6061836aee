//! Any bytes as the log of a manager: refused, or opened, and then some of them are good and time may pass.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zerohop_control::Time;
use zerohop_control::manager::{Event, Manager, Settings};

fuzz_target!(|bytes: &[u8]| {
    let Ok((mut manager, good)) = Manager::open(Time(0), bytes, Settings::new(1)) else { return };
    assert!(good <= bytes.len());
    manager.handle(Time(1_000_000), Event::Tick);
});
