//! A disk that takes nothing more: questions get a no, events still flow, and it is told.

use std::process::{Command, Stdio};
use std::time::Duration;

use aaep::message::{Capabilities, Decision, Payload, ToolInvoked};
use aaep::transport::Outbound;
use aaep::{Confirmation, Error, Producer, Resolution, ToolError};
use aaep_store::{Retention, Store};
use serde_json::json;

const DIR: &str = "AAEP_TEST_FULL_DIR";

#[test]
fn a_full_disk_makes_questions_fail_closed_and_events_flow() {
    let dir = tempfile::tempdir().unwrap();
    // No file may grow beyond 768 KiB (in blocks of 512 bytes); the signal of it is ignored, so that writes fail.
    let exe = std::env::current_exe().unwrap();
    let script = format!(
        "trap '' XFSZ; ulimit -f 1536; exec '{}' --exact full::a_producer_on_a_full_disk --ignored --nocapture",
        exe.display()
    );
    let child = Command::new("sh").args(["-c", &script]).env(DIR, dir.path()).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
    // What was there before is still sound.
    crate::child::open(dir.path(), Retention::default()).unwrap();
}

#[test]
#[ignore = "it is the child of another test"]
fn a_producer_on_a_full_disk() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(fill(dir.as_ref()));
}

async fn fill(dir: &std::path::Path) {
    let (store, restored) = Store::open(dir, Retention::default()).unwrap();
    let producer = Producer::builder("filler").journal(store, restored).build();
    let user = serde_json::from_str::<Capabilities>(r#"{"supports_confirmation_reply": true}"#).unwrap();
    let mut link = producer.subscribe_local("user", user).await.unwrap();
    let session = producer.session("Filling the disk.").await.unwrap();
    let listener = tokio::spawn(async move {
        let mut heard = 0;
        loop {
            match link.recv().await {
                Some(Outbound::Event(frame)) => match &frame.event().payload {
                    Payload::ToolInvoked(tool) => panic!("{} could not be put on record", tool.tool),
                    Payload::AwaitingConfirmation(asked) => {
                        link.decide(&asked.reply_token, Decision::Accept).await.unwrap();
                    }
                    Payload::ProgressUpdated(_) => heard += 1,
                    Payload::SessionCompleted(_) => return heard,
                    _ => {}
                },
                Some(_) => {}
                None => return heard,
            }
        }
    });
    let ask = || Confirmation::new("Go on.", "It goes on.");
    assert_eq!(session.confirm(ask()).await.unwrap().resolution, Resolution::Accepted, "there is room yet");
    // The user agrees while there is room; the calls come when there is none.
    let call = |tool: &str| {
        Confirmation::new(format!("Use {tool}."), "It cannot be undone.").for_call(tool, &json!({})).irreversible()
    };
    let watched = session.confirm(call("watched")).await.unwrap().permit.expect("there is room yet");
    let run = session.confirm(call("run")).await.unwrap().permit.expect("there is room yet");
    let mut said = 0;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(120);
    while !producer.stats().await.unwrap().storage_failing {
        assert!(tokio::time::Instant::now() < deadline, "the disk is never full");
        for _ in 0..50 {
            session.report_progress(1, &"words ".repeat(40)).await.unwrap();
            said += 1;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let outcome = session.confirm(ask()).await.unwrap();
    assert_eq!((outcome.resolution, outcome.decision), (Resolution::NotRecorded, Decision::Reject));
    assert!(outcome.permit.is_none());
    let tool = ToolInvoked { tool: "watched".into(), summary_normal: "Using it.".into(), ..ToolInvoked::default() };
    assert_eq!(session.invoke_irreversible(tool, json!({}), watched).await, Err(Error::NotRecorded));
    let ran = session.irreversible("run", json!({})).permit(run).run(async |_| Ok::<(), String>(())).await;
    assert_eq!(ran, Err(ToolError::Refused(Error::NotRecorded)));
    // Nothing is left open by a call that was refused.
    session.complete("Done.").await.unwrap();
    assert_eq!(listener.await.unwrap(), said, "events still flow");
}

#[test]
fn a_directory_that_cannot_be_written_is_refused_with_a_hint() {
    // Root may write everywhere, but not below what is no directory.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let error = Store::open(&file.join("data"), Retention::default()).unwrap_err().to_string();
    assert!(error.contains("cannot be used"), "{error}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let closed = dir.path().join("closed");
        std::fs::create_dir(&closed).unwrap();
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o555)).unwrap();
        if std::fs::write(closed.join("probe"), "").is_err() {
            let error = Store::open(&closed, Retention::default()).unwrap_err().to_string();
            assert!(error.contains("make it writable"), "{error}");
        }
    }
}
