//! `zerohop doctor`: what is wrong with this machine or the cluster, and what to do.

mod clock;
mod cluster;
mod finding;
mod machine;
mod objects;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use zerohop_client::{Failure, Reason, SecretFileError};
use zerohop_wire::AuthFault;
use zerohop_wire::plurals::counted;

use self::finding::{Finding, Severity};
use self::machine::MachineChecks;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::target::ClusterTarget;
use crate::common::{admin, damaged, view};
use crate::output::{self, StatusLine};

/// How to replace a token.
const NEW_TOKEN: &str = "`zerohop token new NAME --keyspace KEYSPACE=read,write` makes a new token, with the cluster's secret; name its file \
                         with --token-file or ZEROHOP_TOKEN_FILE";

#[derive(Args, Debug)]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    target: ClusterTarget,
    /// The folder of this machine whose disk is checked, beside the disks that the nodes report. Without zerohop-data
    /// its free bytes are checked only with --machine [default: zerohop-data in the current folder, else the current
    /// folder].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Checks only this machine, not the cluster.
    #[arg(long)]
    machine: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// The JSON.
#[derive(Serialize)]
struct DoctorReport<'a> {
    healthy: bool,
    findings: &'a [Finding],
}

/// Runs all checks. The answer is negative if there is a problem; warnings do not count.
pub(crate) async fn run(arguments: DoctorArguments) -> Result<CommandEnding, CommandError> {
    let DoctorArguments { target, data, machine: machine_only, json } = arguments;
    let usual = Some(PathBuf::from("zerohop-data")).filter(|usual| usual.is_dir());
    let named = data.or(usual);
    // The current folder says nothing about the disks of nodes, which report these themselves.
    let with_space = named.is_some() || machine_only;
    let folder = named.unwrap_or_else(|| PathBuf::from("."));
    let ClusterFindings { has_answered, problems, findings: of_cluster } = match machine_only {
        true => ClusterFindings::default(),
        false => of_cluster(&target).await,
    };
    // The limit of this process says nothing about nodes, which report their own.
    let checks = MachineChecks { files: !has_answered, space: with_space };
    let mut findings = machine::check_machine(&target, &folder, checks);
    findings.extend(of_cluster);
    let worst = findings.iter().map(|one| one.verdict).max().unwrap_or(Severity::Ok);
    let healthy = worst != Severity::Problem;
    if json {
        output::json(&DoctorReport { healthy, findings: &findings })?;
    } else {
        let lines: Vec<String> =
            problems.into_iter().chain(findings.iter().map(Finding::to_string)).collect();
        output::report(&lines.join("\n"))?;
    }
    Ok(if healthy { CommandEnding::Done } else { CommandEnding::No })
}

/// What a cluster has answered.
#[derive(Default)]
struct ClusterFindings {
    has_answered: bool,
    /// The lines with which every report begins.
    problems: Vec<String>,
    findings: Vec<Finding>,
}

async fn of_cluster(target: &ClusterTarget) -> ClusterFindings {
    let line = StatusLine::new();
    line.show("asking the cluster …");
    let status = match target.connect().await {
        Ok(client) => admin::status(&client).await,
        Err(error) => Err(error),
    };
    match status {
        Ok(mut status) => {
            let nodes = counted(status.nodes.len(), "node");
            line.show(&format!("asking {nodes} for problems …"));
            let damaged = damaged::find(target, &mut status).await;
            line.show(&format!("asking {nodes} for health and clock …"));
            let found = match &status.view {
                Some(view) if view.node != 0 => {
                    format!("node {} answers, of a cluster of {nodes}", view.node)
                }
                _ => format!("a node of a cluster of {nodes} answers"),
            };
            let answers = Finding::ok("cluster", target.endpoints().join(","), found);
            // The client has connected with these settings.
            let tls = target.tls().ok().flatten();
            let problems = view::problems(&status);
            let findings = cluster::check_cluster(status, answers, &damaged, tls.as_ref()).await;
            ClusterFindings { has_answered: true, problems, findings }
        }
        Err(error) => {
            let (error, restarting) = match error {
                CommandError::Restarting { node, error } => (*error, Some(node)),
                error => (error, None),
            };
            let advice = match (restarting, proof_advice(&error), target.listening_endpoint().await) {
                (Some(node), ..) => {
                    format!("node {node} has ended, and `zerohop up` is about to start it again: look again in a moment")
                }
                (None, Some(advice), _) => advice,
                (None, None, Some(endpoint)) => format!(
                    "a program listens at {endpoint}: another program, which `ss -ltnp` names, or a node that has not \
                     started completely"
                ),
                (None, None, None) => "no program listens there: start a cluster with `zerohop up`, name one with --endpoint, or look \
                                 at this machine alone with --machine"
                    .to_owned(),
            };
            let found = without_advice(&error.to_string(), &advice);
            let finding = Finding::problem("cluster", target.endpoints().join(","), found, advice);
            ClusterFindings { findings: vec![finding], ..ClusterFindings::default() }
        }
    }
}

/// What to do where the cluster answers and refuses the secret, token or certificate; `None`: the error is of another kind.
fn proof_advice(error: &CommandError) -> Option<String> {
    let error = match error {
        CommandError::Client(error) | CommandError::Unreachable(error) => error,
        CommandError::Secret(SecretFileError::Open { .. }) => {
            return Some("the file is not private: see the check `secrets`".to_owned());
        }
        CommandError::Secret(_) => {
            let advice = "name the right file; `zerohop secret new` and `zerohop token new` make such files";
            return Some(advice.to_owned());
        }
        _ => return None,
    };
    let zerohop_client::Error::Operation { reason, .. } = error else { return None };
    let (Reason::Answer { failure } | Reason::Refused { failure, .. }) = &**reason else { return None };
    let fault = match failure {
        Failure::AuthFailed { fault } => *fault,
        Failure::AuthRequired => {
            let advice = "name the file of the cluster's secret with --secret-file, or the file of a token with --token-file";
            return Some(advice.to_owned());
        }
        Failure::Forbidden { .. } => return Some(format!("use another token: {NEW_TOKEN}")),
        _ => return None,
    };
    Some(match fault {
        AuthFault::TokenExpired | AuthFault::Token => NEW_TOKEN.to_owned(),
        other => match other.to_string().split_once(": ") {
            Some((_, advice)) => advice.to_owned(),
            None => "use the same version of zerohop, and the same secret, here and on the nodes".to_owned(),
        },
    })
}

/// The text of an error without this advice: the advice has a line of its own.
fn without_advice(error: &str, advice: &str) -> String {
    error.replacen(&format!(": {advice}"), "", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_follows_the_reason_for_which_the_cluster_refuses() {
        let advice = |failure| {
            let reason = Box::new(Reason::Answer { failure });
            let error = zerohop_client::Error::Operation { key: None, reason };
            proof_advice(&CommandError::Client(error)).unwrap_or_default()
        };
        for (failure, words) in [
            (Failure::AuthFailed { fault: AuthFault::TokenExpired }, "`zerohop token new NAME"),
            (Failure::AuthFailed { fault: AuthFault::Token }, "`zerohop token new NAME"),
            (Failure::AuthFailed { fault: AuthFault::TlsWanted }, "--tls-ca"),
            (
                Failure::AuthFailed { fault: AuthFault::Proof },
                "use the file that its nodes were started with",
            ),
            (Failure::AuthFailed { fault: AuthFault::OtherProof }, "the same secret"),
            (Failure::AuthRequired, "--secret-file"),
        ] {
            let text = advice(failure.clone());
            assert!(text.contains(words) && !text.contains("ss -ltnp"), "{failure:?}: {text}");
        }
        assert_eq!(advice(Failure::NotFound), "");
    }

    #[test]
    fn finding_does_not_repeat_its_advice() {
        for fault in [AuthFault::TlsWanted, AuthFault::Proof, AuthFault::ClientCertificateWanted] {
            let reason = Box::new(Reason::Answer { failure: Failure::AuthFailed { fault } });
            let error = CommandError::Client(zerohop_client::Error::Operation { key: None, reason });
            let advice = proof_advice(&error).unwrap();
            assert!(error.to_string().contains(&advice), "{error}: {advice}");
            let found = without_advice(&error.to_string(), &advice);
            assert!(!found.contains(&advice) && found.len() > 20, "{found}");
            assert!(error.to_string().starts_with(&found[..20]), "{found}");
        }
        assert_eq!(without_advice("refused (111)", "start one"), "refused (111)");
    }
}
