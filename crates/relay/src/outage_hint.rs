//! Why a command got no answer in time, for the client that reads its error.

use std::borrow::Cow;

use zerohop_placement::Reachability;

/// The errors of units that no primary has answered: a later attempt may succeed, or the outcome is unknown.
const UNANSWERED: [&[u8]; 2] = [b"-TRYAGAIN ", b"-ERR outcome unknown"];

const LINE_END: &[u8] = b"\r\n";

/// The reply, which names a lost quorum of the control group if it is an error that this can explain: no other node takes over then, and the
/// client repeats in vain.
pub(super) fn explained<'r>(reply: &'r [u8], reachability: &Reachability) -> Cow<'r, [u8]> {
    let error = reply.strip_suffix(LINE_END).filter(|_| UNANSWERED.iter().any(|one| reply.starts_with(one)));
    let Some(error) = error.filter(|_| !reachability.has_quorum) else { return Cow::Borrowed(reply) };
    let silent: Vec<String> = reachability.silent.iter().map(|node| node.0.to_string()).collect();
    let silent = match silent.as_slice() {
        [] => String::new(),
        [node] => format!(": node {node} does not answer"),
        nodes => format!(": nodes {} do not answer", nodes.join(", ")),
    };
    let hint = format!("; the control group has no quorum{silent}, see `zerohop status`");
    Cow::Owned([error, hint.as_bytes(), LINE_END].concat())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use zerohop_wire::ids::NodeId;

    use super::*;

    fn explain(reply: &str, silent: &[u32], has_quorum: bool) -> String {
        let silent: BTreeSet<NodeId> = silent.iter().map(|&node| NodeId(node)).collect();
        let reachability = Reachability { has_quorum, silent };
        String::from_utf8(explained(reply.as_bytes(), &reachability).into_owned()).unwrap()
    }

    #[test]
    fn lost_quorum_is_named_by_errors_without_an_answer() {
        let unanswered = "-TRYAGAIN it is unavailable\r\n";
        let hint = "; the control group has no quorum: nodes 2, 3 do not answer, see `zerohop status`\r\n";
        assert_eq!(explain(unanswered, &[2, 3], false), format!("-TRYAGAIN it is unavailable{hint}"));
        assert_eq!(explain(unanswered, &[2], true), unanswered);
        let unknown = "-ERR outcome unknown: check\r\n";
        assert!(
            explain(unknown, &[3], false)
                .ends_with("no quorum: node 3 does not answer, see `zerohop status`\r\n")
        );
        for other in ["+OK\r\n", "-ERR syntax error\r\n", "$10\r\n-TRYAGAIN \r\n", "*1\r\n-TRYAGAIN x\r\n"] {
            assert_eq!(explain(other, &[2, 3], false), other);
        }
    }
}
