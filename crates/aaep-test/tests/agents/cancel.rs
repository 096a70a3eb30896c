//! A user asks an agent to stop.

use super::harness::{AaepProcess, Subscriber};

#[tokio::test(flavor = "multi_thread")]
async fn agent_process_is_asked_to_stop_and_decides() {
    let mut process = AaepProcess::python(
        r#"
go()
emit(type="session.started", summary_normal="Digging.", session_id="garden", takes_cancel=True)
request = json.loads(sys.stdin.readline())
assert request == dict(type="cancel_requested", session_id="garden", reason="It takes too long."), request
emit(type="session.cancelled", cancelled_by="user", summary_normal="Stopped digging.", session_id="garden")
"#,
    );
    let mut subscriber = Subscriber::new(&process.url, None).await;
    process.go();
    let (started, _) = subscriber.wait_for_event("session.started").await;
    subscriber.request_cancel(&started).await;
    let (cancelled, _) = subscriber.wait_for_event("session.cancelled").await;
    assert_eq!(cancelled["cancelled_by"], "user");
    subscriber.rest().await;
    assert_eq!(process.end().await.code(), Some(0), "{}", process.err.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_that_does_not_handle_requests_gets_none_and_the_user_is_told() {
    let mut process = AaepProcess::python(
        r#"
go()
emit(type="session.started", summary_normal="Digging.")
emit(type="awaiting.confirmation", action="Dig.", consequence="A hole.", event_id="q")
answer = json.loads(sys.stdin.readline())
assert answer["type"] == "outcome", answer
emit(type="session.completed", summary_normal="Done.")
"#,
    );
    let mut subscriber = Subscriber::new(&process.url, None).await;
    process.go();
    let (question, _) = subscriber.wait_for_event("awaiting.confirmation").await;
    subscriber.request_cancel(&question).await;
    loop {
        let message = subscriber.next().await.expect("the connection stays open");
        if message["type"] == "cancellation:refused" {
            assert_eq!(message["reason_message"], "This agent cannot be asked to stop.");
            break;
        }
    }
    subscriber.reply(&question, "decision", "accept".into()).await;
    subscriber.wait_for_event("session.completed").await;
    subscriber.rest().await;
    assert_eq!(process.end().await.code(), Some(0), "{}", process.err.text());
}
