//! A node in memory that runs as long as a foreign client needs it, with a gateway of S3 if the client needs one.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::workspace::{Failure, Workspace, cannot_start};

/// The credentials of a cluster without a secret, in the variables that clients of S3 read. The files of the user are not read.
pub const S3_VARIABLES: [(&str, &str); 6] = [
    ("AWS_ACCESS_KEY_ID", "clients"),
    ("AWS_SECRET_ACCESS_KEY", "zerohop"),
    ("AWS_DEFAULT_REGION", "us-east-1"),
    ("AWS_EC2_METADATA_DISABLED", "true"),
    ("AWS_CONFIG_FILE", "/dev/null"),
    ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
];

/// A running node of three instances.
pub struct ClientNode {
    child: Child,
    /// The ports of its instances.
    pub ports: Vec<String>,
    /// The URL of its gateway of S3.
    pub s3: Option<String>,
}

impl ClientNode {
    /// Starts a node, `with_s3` with a gateway of S3.
    ///
    /// # Errors
    ///
    /// It does not serve; the failure says what the node printed.
    pub fn start(workspace: &Workspace, with_s3: bool) -> Result<Self, Failure> {
        let program: PathBuf = workspace.target.join("debug").join("zerohop");
        let mut command = Command::new(program);
        command
            .args(["up", "--memory", "--nodes", "1", "--instances", "3", "--port", "0", "--json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if with_s3 {
            command.args(["--s3", "0"]);
        }
        let child = command.spawn().map_err(|error| cannot_start(&command, &error))?;
        let mut node = Self { child, ports: Vec::new(), s3: None };
        let mut line = String::new();
        if let Some(out) = node.child.stdout.take() {
            let _ = std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line);
        }
        (node.ports, node.s3) = addresses(&line, with_s3)?;
        Ok(node)
    }
}

/// The ports of the instances, and the URL of the gateway, in the line that `up` prints.
fn addresses(line: &str, with_s3: bool) -> Result<(Vec<String>, Option<String>), Failure> {
    let unready = || Failure::new(format!("the node does not serve: {line}"));
    let ready: Value = serde_json::from_str(line).map_err(|_| unready())?;
    let instances = ready["nodes"][0]["instances"].as_array().into_iter().flatten();
    let ports = instances.filter_map(|one| Some(one["addr"].as_str()?.rsplit_once(':')?.1.to_owned()));
    let s3 = ready["s3"].as_str().map(|address| format!("http://{address}"));
    if with_s3 && s3.is_none() {
        return Err(unready());
    }
    Ok((ports.collect(), s3))
}

impl Drop for ClientNode {
    fn drop(&mut self) {
        // Stops it in order: the command's node is a child process, which ends with it.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_gateway_are_read_from_the_ready_line() {
        let line =
            r#"{"nodes":[{"instances":[{"addr":"127.0.0.1:7"},{"addr":"127.0.0.1:8"}]}],"s3":"127.0.0.1:9"}"#;
        let (ports, s3) = addresses(line, true).unwrap();
        assert_eq!(
            (ports, s3.as_deref()),
            (vec!["7".to_owned(), "8".to_owned()], Some("http://127.0.0.1:9"))
        );
        let line = r#"{"nodes":[{"instances":[{"addr":"127.0.0.1:7"}]}]}"#;
        assert_eq!(addresses(line, false).unwrap(), (vec!["7".to_owned()], None));
        for line in [line, "no", ""] {
            assert!(addresses(line, true).unwrap_err().to_string().contains("does not serve"), "{line}");
        }
    }
}
