//! A disk that becomes full: questions fail closed, events are still delivered.

use std::process::{Command, Stdio};

use crate::producer::{self, PROGRAM};

#[test]
fn questions_fail_closed_and_events_are_delivered_on_a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    // No file may grow beyond 768 KiB (in blocks of 512 bytes). The signal is ignored, so that writes fail instead.
    let script = "trap '' XFSZ; ulimit -f 1536; exec \"$0\" fill \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, PROGRAM]).arg(dir.path()).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("finished"), "{text}");
    // The store is still intact.
    producer::open(dir.path()).unwrap();
}
