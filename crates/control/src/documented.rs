//! `docs/protocols/control.proto` specifies the messages of the control group, field by field.

#[path = "../../wire/tests/suite/support/protobuf.rs"]
mod protobuf;

#[test]
fn messages_of_the_control_group_are_as_specified() {
    let sources = [
        include_str!("agent/message/proto.rs"),
        include_str!("command/proto.rs"),
        include_str!("consensus/message.rs"),
        include_str!("state/snapshot.rs"),
    ];
    protobuf::assert_specified(include_str!("../../../docs/protocols/control.proto"), &sources);
}
