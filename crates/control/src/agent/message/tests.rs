//! Encoded messages decode to the same value, and other bytes are refused.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::command::{CommandRefusal, CommandResult, ControlCommand};
use crate::golden::{assert_golden, fields_in, fields_of, pinned_bytes};

fn address(text: &str) -> Address {
    Address::new(text).unwrap()
}

/// One message of each kind; none is long.
fn short_bodies() -> Vec<AgentBody> {
    let news = ControlGroupNews {
        applied_count: 7,
        managers: vec![ManagerInfo { id: ManagerId(3), addr: address("m:1") }],
        leader: Some(ManagerId(3)),
    };
    let id = RequestId { origin: 5, number: 6 };
    let piece = DeltaPieceId { since: MapEpoch(3), epoch: MapEpoch(9), piece: 1 };
    let done =
        CommandOutcome { result: Ok(CommandResult { number: 1, epoch: MapEpoch(2) }), applied_count: 3 };
    let refused = CommandOutcome { result: Err(CommandRefusal::NotControl), applied_count: 3 };
    let answer = |answer| AgentBody::Answer { id, answer, news: news.clone() };
    vec![
        AgentBody::Propose(CommandRequest {
            id,
            after: 3,
            command: ControlCommand::DropKeyspace(KeyspaceId(4)),
        }),
        raft(0, 1, vec![1, 2, 3]),
        AgentBody::Gossip(vec![1; 20]),
        answer(ProposalAnswer::Decided(done)),
        answer(ProposalAnswer::Decided(refused)),
        answer(ProposalAnswer::NotLeader),
        answer(ProposalAnswer::Busy),
        AgentBody::MapRequest { node: None, have: MapEpoch(0), piece: None, is_confirmation: false },
        AgentBody::MapRequest {
            node: Some(NodeId(0)),
            have: MapEpoch(4),
            piece: Some(piece),
            is_confirmation: true,
        },
        AgentBody::MapPiece { news: news.clone(), piece, pieces: 2, bytes: vec![1] },
        AgentBody::MapPiece {
            news: ControlGroupNews::default(),
            piece: DeltaPieceId { piece: 0, ..piece },
            pieces: 0,
            bytes: Vec::new(),
        },
        reports(1),
        loads(1),
        AgentBody::BootstrapRequest { incarnation: Incarnation(4) },
        bootstrap_state(vec![(address("other:1"), Incarnation(5))]),
        AgentBody::OtherCluster,
    ]
}

/// The short messages, every command, and the longest messages.
fn bodies() -> Vec<AgentBody> {
    let mut bodies = short_bodies();
    let id = RequestId { origin: 5, number: 6 };
    let query = |command| AgentBody::Propose(CommandRequest { id, after: 3, command });
    bodies.extend(crate::command::tests::commands().into_iter().map(query));
    bodies.extend([
        raft(0, 3, vec![7; PIECE_BYTES]),
        reports(REPORTS_MAX),
        loads(LOADS_REPORTED_MAX),
        bootstrap_state(vec![(address("other:1"), Incarnation(5)); MANAGERS_MAX]),
    ]);
    bodies
}

fn raft(piece: u32, pieces: u32, bytes: Vec<u8>) -> AgentBody {
    AgentBody::Raft { from: ManagerId(1), to: ManagerId(2), number: 4, piece, pieces, bytes }
}

fn reports(count: usize) -> AgentBody {
    AgentBody::Reports { by: NodeId(1), about: vec![(NodeId(2), Incarnation(3)); count] }
}

fn loads(count: usize) -> AgentBody {
    AgentBody::Loads(vec![(KeyspaceId(1), PartitionId(2), 3); count])
}

fn bootstrap_state(starts: Vec<(Address, Incarnation)>) -> AgentBody {
    AgentBody::BootstrapState {
        incarnation: Incarnation(4),
        is_bootstrapped: true,
        expects: Incarnation(5),
        known_starts: starts,
    }
}

fn message(body: AgentBody) -> Message {
    Message { cluster: ClusterId([7; 16]), from: Some(address("me:1")), body }
}

#[test]
fn messages_round_trip_and_fit_a_frame() {
    for body in bodies() {
        let message = message(body);
        let bytes = message.encode();
        assert!(bytes.len() <= AGENT_FRAME_BYTES_MAX, "{} bytes: {message:?}", bytes.len());
        assert_eq!(Message::decode(&bytes).as_ref(), Ok(&message));
        assert!(Message::decode(&bytes[..bytes.len() - 1]) != Ok(message), "one byte short");
    }
}

#[test]
fn messages_match_golden_bytes_and_decode() {
    const PINNED: &str = include_str!("golden/messages.hex");
    let vectors = || short_bodies().into_iter().map(|body| (format!("{body:?}"), message(body).encode()));
    assert_golden(PINNED, vectors());
    let fields: BTreeSet<u64> = vectors().flat_map(|(_, bytes)| fields_in(&bytes[1..])).collect();
    assert!(fields_of("body").is_subset(&fields), "some message has no golden bytes");
    let read: Vec<_> = pinned_bytes(PINNED).map(|bytes| Message::decode(&bytes).unwrap()).collect();
    assert_eq!(read, short_bodies().into_iter().map(message).collect::<Vec<_>>());
}

#[test]
fn message_beyond_a_length_limit_is_refused() {
    let refused = |body| Message::decode(&message(body).encode()).unwrap_err().to_string();
    let piece = DeltaPieceId { since: MapEpoch(0), epoch: MapEpoch(9), piece: 0 };
    let map = |piece, pieces, bytes| AgentBody::MapPiece {
        news: ControlGroupNews::default(),
        piece,
        pieces,
        bytes,
    };
    assert!(refused(map(piece, 2, vec![0; PIECE_BYTES - 1])).contains("bytes"));
    assert!(refused(map(piece, 1, vec![0; PIECE_BYTES + 1])).contains("bytes"));
    assert!(refused(map(piece, MAP_PIECES_MAX as u32 + 1, vec![0; PIECE_BYTES])).contains("piece 0 of"));
    assert!(refused(map(DeltaPieceId { piece: 2, ..piece }, 2, vec![0])).contains("piece 2 of 2"));
    assert!(refused(AgentBody::Gossip(vec![0; GOSSIP_DATAGRAM_BYTES_MAX + 1])).contains("too long"));
    let about = vec![(NodeId(2), Incarnation(3)); REPORTS_MAX + 1];
    assert!(refused(AgentBody::Reports { by: NodeId(1), about }).contains("more reports"));
    assert!(
        refused(AgentBody::Loads(vec![(KeyspaceId(1), PartitionId(2), 3); LOADS_REPORTED_MAX + 1]))
            .contains("more")
    );
    assert!(
        refused(bootstrap_state(vec![(address("other:1"), Incarnation(5)); MANAGERS_MAX + 1]))
            .contains("bootstrap members")
    );
    let mut other = message(AgentBody::OtherCluster).encode();
    other[0] = 9;
    assert!(Message::decode(&other).unwrap_err().to_string().contains("version 9"));
}

#[test]
fn a_datagram_of_gossip_fits_a_packet() {
    let body = AgentBody::Gossip(vec![0; GOSSIP_DATAGRAM_BYTES_MAX]);
    let bytes = Message { from: None, ..message(body) }.encode();
    assert!(bytes.len() <= 1472, "{}", bytes.len());
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut framed = vec![VERSION];
        framed.extend(&bytes);
        for bytes in [bytes, framed] {
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
            }
        }
    }
}
