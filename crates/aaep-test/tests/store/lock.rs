//! Two processes for one directory.

use aaep_store::{Audit, AuditQuery, Retention, Store, StoreError};

use crate::producer::{self, Plan};

#[test]
fn two_processes_do_not_share_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (mut process, mut lines) = producer::start(dir.path(), &Plan { run: 1, ..Plan::default() });
    assert!(lines.any(|line| line == "ready"));
    let error = Store::open(dir.path(), Retention::default()).unwrap_err();
    assert!(matches!(error, StoreError::InUse(_)), "{error}");
    assert!(error.to_string().contains("another process"), "{error}");
    // The audit log can still be read.
    Audit::open(dir.path()).unwrap().read(&AuditQuery::default(), |_| ()).unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    producer::open(dir.path()).unwrap();
}
