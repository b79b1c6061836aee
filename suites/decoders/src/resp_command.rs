//! Any bytes from a client of Redis: decoded, executed over records in memory, some of them in partitions that answer
//! late, and replied to. The first byte says in which pieces they come, the second which partitions are away.

use zerohop_placement::hash::key_slot;
use zerohop_resp::model::ModelWorld;
use zerohop_resp::{Connection, ConnectionWorld, NextStep, Scratch, Unit, execute};
use zerohop_wire::ids::{KeyspaceId, PartitionId};

/// Goes through any input; panics where it breaks a promise.
pub fn run(bytes: &[u8]) {
    let [pieces, away, bytes @ ..] = bytes else { return };
    // As a unit of another process, it may be refused, and must not panic.
    if let Ok(unit) = Unit::decode(bytes) {
        let mut world = ModelWorld::new(1, key_slot);
        let place = zerohop_resp::PartitionPlace { keyspace: KeyspaceId(1), partition: PartitionId(0) };
        let _ = execute(&unit, world.records(place), &mut Scratch::default(), &mut Vec::new());
    }
    let mut world = ModelWorld::new(4, key_slot);
    world.remote.extend((0..4).filter(|partition| away & (1 << partition) != 0));
    world.moves = away & 16 != 0;
    let mut connection = Connection::new(1, KeyspaceId(1), "peer", "here", world.now_us());
    let (mut rest, mut out) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(usize::from(*pieces) + 1) {
        rest.extend_from_slice(piece);
        loop {
            let received = connection.receive(&rest, &mut world, &mut out);
            rest.drain(..received.used);
            let at = usize::from(*away >> 5) % world.promised().max(1);
            world.deliver(at, &mut connection, &mut out);
            world.now_ms += 1;
            world.run_waiting(&mut connection, &mut out);
            match received.then {
                NextStep::More => break,
                NextStep::Close => return,
                NextStep::PauseInput if world.promised() == 0 && received.used == 0 => {
                    // What waits for a value ends with its time.
                    world.now_ms += 24 * 60 * 60 * 1000;
                    world.run_waiting(&mut connection, &mut out);
                }
                NextStep::PauseInput => {}
            }
        }
    }
    while world.promised() > 0 {
        world.deliver(0, &mut connection, &mut out);
    }
}
