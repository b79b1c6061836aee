//! The folder of a test.

use std::path::Path;

use tempfile::TempDir;

/// With this variable, the folder of a failed test is kept.
const KEEP_VARIABLE: &str = "ZEROHOP_TEST_KEEP";

/// A folder that is removed with the test, unless the test fails and the variable asks to keep it.
#[derive(Debug)]
pub(crate) struct TestFolder(TempDir);

pub(crate) fn folder() -> TestFolder {
    TestFolder(tempfile::tempdir().unwrap())
}

impl TestFolder {
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        if std::env::var_os(KEEP_VARIABLE).is_some() {
            self.0.disable_cleanup(true);
            eprintln!("the folder of the test is kept: {}", self.0.path().display());
        } else {
            eprintln!("{KEEP_VARIABLE}=1 keeps the folder of a test that fails");
        }
    }
}
