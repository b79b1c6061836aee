//! `cargo xtask s3`: boto3 against a gateway of S3 (`suites/s3`). `cargo xtask clients` has the other clients of S3.

use crate::built_artifacts;
use crate::clients;
use crate::environment::{self, Set};
use crate::workspace::{Failure, Workspace};

/// Starts a node with a gateway, and runs the cases of boto3.
pub fn run(workspace: &Workspace) -> Result<String, Failure> {
    let kept = environment::install(workspace, Set::Test)?;
    built_artifacts::program(workspace)?;
    match clients::run_s3_script(workspace, &kept, "s3/clients.py")? {
        None => Ok("boto3".to_owned()),
        Some(failure) => Err(Failure::new(format!(
            "boto3 was not served as it expects: {failure}\ndocs/guide/s3.md tells what works"
        ))),
    }
}
