//! A node ends as a unit.

use super::*;

fn in_memory(instances: usize) -> Server {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    Server::start(ServerOptions { instances: Some(instances), ..ServerOptions::new(listen) }).unwrap()
}

fn mailboxes(server: &Server) -> &[ReactorMailbox<InstanceNotice>] {
    &server.running.as_ref().unwrap().instances.mailboxes
}

#[test]
fn failed_instance_ends_the_node_with_its_reason() {
    let server = in_memory(3);
    mailboxes(&server)[1].leave(InstanceNotice::Panic).unwrap();
    match server.wait() {
        Err(ServeError::Instance { instance, reason }) => {
            // Mailboxes are in the order in which the instances opened their data.
            assert!((1..=3).contains(&instance.0));
            assert!(reason.contains("a fault planted by a test"), "{reason}");
        }
        other => panic!("it went on: {other:?}"),
    }
}

#[test]
fn server_stops_from_any_thread_and_repeated_stop_is_harmless() {
    let server = in_memory(2);
    let handle = server.stop_handle();
    let other = handle.clone();
    let stopper = std::thread::Builder::new().spawn(move || other.stop()).unwrap();
    server.wait().unwrap();
    stopper.join().unwrap();
    handle.stop();
}

#[test]
fn server_drop_ends_its_threads() {
    let server = in_memory(2);
    let mailbox = mailboxes(&server)[0].clone();
    drop(server);
    assert!(matches!(mailbox.leave(InstanceNotice::Stop), Err(zerohop_reactor::NoticeError::Ended(_))));
}

#[test]
fn signal_handling_can_be_enabled_inside_a_runtime() {
    let server = in_memory(1);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { server.stop_on_signals().unwrap() });
    server.stop().unwrap();
}

#[test]
fn clean_stop_needs_all_disks_to_agree() {
    let (one, other) = (Some(Incarnation(7)), Some(Incarnation(8)));
    assert_eq!(common_mark([one].into_iter()), one);
    assert_eq!(common_mark([one, one, one].into_iter()), one);
    for marks in [[one, None], [None, one], [one, other], [None, None]] {
        assert_eq!(common_mark(marks.into_iter()), None, "{marks:?}");
    }
    assert_eq!(common_mark([].into_iter()), None);
}
