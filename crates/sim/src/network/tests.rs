//! What the network does to bytes, and never does.

use super::*;

const FAULT_FREE: NetworkFaults = NetworkFaults {
    delay_us: 50,
    jitter_us: 500,
    spike: 100,
    spike_us: 10_000,
    breaks: 0,
    half_open: 0,
    refused: 0,
    damage: 0,
    repeats: 0,
    repeat_us: 1_000,
    cut_off_every_us: 0,
    cut_off_us: 0,
};

fn network(faults: NetworkFaults) -> (Network, LinkId) {
    let mut network = Network::new(Random::new(7), faults, 1);
    let link = network.open(Time(0), Opener::CopiedFrames, Some(0));
    network.take_in_transit();
    (network, link)
}

/// What arrives at an end, in the order of time.
fn arrived(network: &mut Network, to: LinkEnd) -> (Vec<u8>, bool) {
    let mut all = network.take_in_transit();
    all.retain(|thing| thing.to == to && network.arrives(thing));
    all.sort_by_key(|thing| thing.at);
    let is_gone = all.iter().any(|thing| thing.what == LinkArrival::Disconnected);
    let bytes = all.into_iter().flat_map(|thing| match thing.what {
        LinkArrival::Bytes(bytes) => bytes,
        _ => Vec::new(),
    });
    (bytes.collect(), is_gone)
}

#[test]
fn bytes_arrive_in_order_however_they_are_cut_and_delayed() {
    let (mut network, link) = network(FAULT_FREE);
    let sent: Vec<u8> = (0..20_000u32).map(|n| (n * 31 / 8) as u8).collect();
    for (at, chunk) in sent.chunks(333).enumerate() {
        network.send(Time(at as u64 * 10), link, LinkEnd::Node, chunk);
    }
    assert_eq!(arrived(&mut network, LinkEnd::Node).0, sent);
}

#[test]
fn broken_connection_delivers_prefix_of_sent_bytes() {
    let sent: Vec<u8> = (0..100).collect();
    let mut kinds = [0; 2];
    for seed in 0..200 {
        let faults = NetworkFaults { breaks: 300, ..FAULT_FREE };
        let (mut network, link) = network(faults);
        network.random = Random::new(seed);
        sent.chunks(10).for_each(|chunk| network.send(Time(0), link, LinkEnd::Node, chunk));
        let (came, is_gone) = arrived(&mut network, LinkEnd::Node);
        assert!(sent.starts_with(&came), "{came:?}");
        kinds[usize::from(is_gone)] += 1;
    }
    assert!(kinds[0] > 0 && kinds[1] > 100, "{kinds:?}");
}

#[test]
fn close_follows_sent_bytes_and_crash_loses_bytes_in_transit() {
    let (mut network, link) = network(FAULT_FREE);
    network.send(Time(0), link, LinkEnd::Node, b"abc");
    network.close(Time(0), link, LinkEnd::Opener);
    assert_eq!(arrived(&mut network, LinkEnd::Node), (b"abc".to_vec(), true));

    let link = network.open(Time(0), Opener::CopiedFrames, Some(0));
    network.take_in_transit();
    network.send(Time(0), link, LinkEnd::Node, b"abc");
    network.lose_node(Time(0), true, |_| true);
    network.send(Time(0), link, LinkEnd::Node, b"def");
    assert_eq!(arrived(&mut network, LinkEnd::Node), (Vec::new(), false));
    network.node_is_back(Time(5), |_| true);
    assert_eq!(arrived(&mut network, LinkEnd::Opener), (Vec::new(), true));
}
