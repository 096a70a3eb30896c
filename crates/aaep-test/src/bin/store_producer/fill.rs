//! A producer on a disk that becomes full.

use std::path::Path;
use std::time::Duration;

use aaep::message::{Capabilities, Decision, Payload, ToolInvoked};
use aaep::transport::Outbound;
use aaep::{Confirmation, Error, Producer, Resolution, ToolError};
use aaep_store::{Retention, Store};
use serde_json::json;

/// Fills the disk and checks that questions and irreversible calls are refused then, while events are still delivered.
pub(crate) async fn fill(directory: &Path) {
    let (store, restored) = Store::open_single(directory, Retention::default()).unwrap();
    let producer = Producer::builder("filler").journal(store, restored).build();
    let capabilities = serde_json::from_str::<Capabilities>(r#"{"supports_confirmation_reply": true}"#).unwrap();
    let mut link = producer.subscribe_local("user", capabilities).await.unwrap();
    let session = producer.session("Filling the disk.").await.unwrap();
    let user = tokio::spawn(async move {
        let mut received = 0;
        loop {
            match link.recv().await {
                Some(Outbound::Event(frame)) => match &frame.event().payload {
                    Payload::ToolInvoked(tool) => panic!("{} was called without a record", tool.tool),
                    Payload::AwaitingConfirmation(asked) => {
                        link.decide(&asked.reply_token, Decision::Accept).await.unwrap();
                    }
                    Payload::ProgressUpdated(_) => received += 1,
                    Payload::SessionCompleted(_) => return received,
                    _ => {}
                },
                Some(_) => {}
                None => return received,
            }
        }
    });
    let ask = || Confirmation::new("Go on.", "It goes on.");
    assert_eq!(session.confirm(ask()).await.unwrap().resolution, Resolution::Accepted, "the disk has space");
    // The user accepts while the disk has space; the calls follow when it has none.
    let call = |tool: &str| {
        Confirmation::new(format!("Use {tool}."), "It cannot be undone.").for_call(tool, &json!({})).irreversible()
    };
    let watched = session.confirm(call("watched")).await.unwrap().permit.expect("the disk has space");
    let run = session.confirm(call("run")).await.unwrap().permit.expect("the disk has space");
    let mut emitted = 0;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(120);
    while !producer.stats().await.unwrap().storage_failing {
        assert!(tokio::time::Instant::now() < deadline, "the disk did not become full");
        for _ in 0..50 {
            session.report_progress(1, &"words ".repeat(40)).await.unwrap();
            emitted += 1;
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
    // A refused call leaves nothing open, so the session can complete.
    session.complete("Done.").await.unwrap();
    assert_eq!(user.await.unwrap(), emitted, "every event was delivered");
}
