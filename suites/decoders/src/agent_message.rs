//! Any bytes as a message between agents: refused, or read into what is written and read back the same; and an agent that
//! receives them, alone or after a few others, goes on.

use zerohop_base::time::Time;
use zerohop_control::agent::message::Message;
use zerohop_control::agent::{Agent, AgentEvent, AgentSettings};
use zerohop_placement::Address;
use zerohop_wire::ids::Incarnation;
use zerohop_wire::messages::ClusterId;

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    if let Ok(message) = Message::decode(bytes) {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
    let me = Address::new("me:1").expect("is an address");
    let settings = AgentSettings {
        contacts: vec![Address::new("m:1").expect("is an address")],
        ..AgentSettings::new(1, ClusterId([7; 16]), Incarnation(9), me)
    };
    let (mut agent, _) = Agent::open(Time(0), settings).expect("opens");
    for (at, bytes) in (1..).zip(bytes.split(|byte| *byte == 0xff).chain([bytes])) {
        agent.handle(Time(at * 10_000), AgentEvent::Received { bytes });
    }
}
