//! The API as agents and subscribers use it. The clock is paused, so no test waits.
#![expect(clippy::disallowed_methods, reason = "a test measures the time that it holds")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "the helpers are tests too")]

use std::cell::RefCell;
use std::time::Duration;

use aaep::message::{
    CancelledBy, Capabilities, CloseReason, CoreType, Decision, ErrorCategory, Event, Message, Payload, Response,
    RiskLevel, ToolCompleted, ToolStatus,
};
use aaep::stats::SubscriberCounts;
use aaep::transport::{Link, Outbound, ResumePolicy};
use aaep::{
    Clarification, Confirmation, EngineError, Error, NoSubscriberPolicy, Producer, Resolution, Session, ToolError,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

mod links;
mod stall;

fn producer() -> Producer {
    Producer::builder("banker").name("Banker").version("1.0").build()
}

fn capabilities(mut fields: Value) -> Capabilities {
    fields["supports_confirmation_reply"] = json!(true);
    fields["supports_clarification_reply"] = json!(true);
    serde_json::from_value(fields).unwrap()
}

/// Opens a subscription that can reply to all questions, and receives `subscription.accepted`.
async fn join(producer: &Producer) -> Link {
    join_with(producer, json!({})).await
}

async fn join_with(producer: &Producer, fields: Value) -> Link {
    let mut link = producer.subscribe_local("reader", capabilities(fields)).await.unwrap();
    let Some(Outbound::Message(first)) = link.recv().await else { panic!("no welcome") };
    assert!(matches!(*first, Message::SubscriptionAccepted(_)), "{first:?}");
    link
}

/// Receives to the end, which must be `Outbound::Closed`.
async fn rest(mut link: Link) -> Vec<Event> {
    let (mut events, mut closed) = (Vec::new(), None);
    while let Some(outgoing) = link.recv().await {
        match outgoing {
            Outbound::Event(frame) => events.push(frame.event().clone()),
            Outbound::Closed(closing) => closed = Some(closing.reason),
            Outbound::Message(_) => {}
        }
    }
    assert_eq!(closed, Some(CloseReason::ProducerEnded));
    events
}

/// Receives and replies to every confirmation, until the end.
fn answering(mut link: Link, decision: Decision) -> JoinHandle<Vec<Event>> {
    tokio::spawn(async move {
        let mut events = Vec::new();
        while let Some(outgoing) = link.recv().await {
            let Outbound::Event(frame) = outgoing else { continue };
            if let Payload::AwaitingConfirmation(ask) = &frame.event().payload {
                link.decide(&ask.reply_token, decision.clone()).await.unwrap();
            }
            events.push(frame.event().clone());
        }
        events
    })
}

async fn next(link: &mut Link, wanted: CoreType) -> Event {
    loop {
        match link.recv().await {
            Some(Outbound::Event(frame)) if frame.event().core_type() == Some(wanted) => return frame.event().clone(),
            Some(_) => {}
            None => panic!("ended before {wanted:?}"),
        }
    }
}

/// Returns the short types of events, without state changes that have no text.
fn names(events: &[Event]) -> Vec<String> {
    let loud = |e: &&Event| !matches!(&e.payload, Payload::StateChanged(c) if c.summary_normal.is_none());
    events.iter().filter(loud).map(|e| e.type_name().replace("aaep:agent.", "")).collect()
}

fn completed(events: &[Event]) -> &ToolCompleted {
    let found = events.iter().find_map(|e| if let Payload::ToolCompleted(c) = &e.payload { Some(c) } else { None });
    found.unwrap()
}

fn text(events: &[Event]) -> String {
    let chunk = |e: &Event| if let Payload::OutputStreaming(o) = &e.payload { Some(o.chunk.clone()) } else { None };
    events.iter().filter_map(chunk).collect()
}

fn transfer(arguments: &Value) -> Confirmation {
    Confirmation::new("Transfer 500 dollars.", "The money moves at once.")
        .for_call("transfer", arguments)
        .irreversible()
        .risk(RiskLevel::High)
}

/// A session that awaits a question in a task.
fn confirming(session: Session) -> JoinHandle<(Session, Resolution)> {
    tokio::spawn(async move {
        let resolution = session.confirm(transfer(&json!({}))).await.unwrap().resolution;
        (session, resolution)
    })
}

#[tokio::test(start_paused = true)]
async fn banking_session_runs_to_completion() {
    let producer = producer();
    let mut audit = producer.audit().unwrap();
    assert!(producer.audit().is_none(), "it can be taken once");
    let listener = answering(join(&producer).await, Decision::Accept);
    let session = producer.session("Moving your money.").await.unwrap();
    let lookup = session.tool("fetch_balance").summary("Looking up your balance.").args_summary("account: checking");
    assert_eq!(lookup.success_summary("Found it.").run(async { Ok::<_, String>(1200) }).await, Ok(1200));
    let arguments = json!({"amount": 500, "to": "savings"});
    let outcome = session.confirm(transfer(&arguments)).await.unwrap();
    assert_eq!((&outcome.decision, outcome.resolution), (&Decision::Accept, Resolution::Accepted));
    let call = session.irreversible("transfer", arguments.clone()).summary("Moving it.");
    let got = call.permit(outcome.permit.unwrap()).run(async |arguments| Ok::<_, String>(arguments)).await;
    assert_eq!(got, Ok(arguments), "the tool gets what the user agreed to");
    let output = session.output_in("text/markdown", None).await.unwrap();
    for token in ["500 dollars ", "are in **savings** ", "now."] {
        output.write(token).await.unwrap();
    }
    output.finish().await.unwrap();
    session.complete("The money is in savings.").await.unwrap();
    assert_eq!(audit.recv().await.unwrap().principal.as_deref(), Some("reader"));
    drop(producer);
    let events = listener.await.unwrap();
    let wanted = [
        "session.started",
        "tool.invoked",
        "tool.completed",
        "awaiting.confirmation",
        "state.changed",
        "tool.invoked",
        "tool.completed",
        "output.streaming",
        "session.completed",
    ];
    assert_eq!(names(&events), wanted);
    assert_eq!(text(&events), "500 dollars are in **savings** now.");
    assert_eq!(completed(&events).summary_normal.as_deref(), Some("Found it."));
    let mut sequence = aaep_proto::SequenceChecker::new();
    for event in events {
        let line = serde_json::to_vec(&event).unwrap();
        assert_eq!(aaep_proto::validate(&line).problems, []);
        assert_eq!(sequence.observe(&event.into()), []);
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_confirmation_gives_no_permit() {
    let producer = producer();
    let listener = answering(join(&producer).await, Decision::Reject);
    let session = producer.session("Moving your money.").await.unwrap();
    let outcome = session.confirm(transfer(&json!({}))).await.unwrap();
    assert_eq!((outcome.resolution, outcome.permit), (Resolution::Rejected, None));
    session.cancel(CancelledBy::User, "You said no.").await.unwrap();
    drop(producer);
    assert_eq!(names(&listener.await.unwrap()).pop().as_deref(), Some("session.cancelled"));
}

#[tokio::test(start_paused = true)]
async fn dropped_session_is_cancelled() {
    let producer = producer();
    let mut link = join(&producer).await;
    drop(producer.session("Forgetting.").await.unwrap());
    let event = next(&mut link, CoreType::SessionCancelled).await;
    let Payload::SessionCancelled(cancelled) = event.payload else { unreachable!() };
    assert_eq!(cancelled.cancelled_by, CancelledBy::Producer);
}

#[tokio::test(start_paused = true)]
async fn session_dropped_by_a_panic_is_errored() {
    let producer = producer();
    let mut link = join(&producer).await;
    let session = producer.session("Failing.").await.unwrap();
    let task = tokio::spawn(async move {
        let _session = session;
        panic!("expected by the test");
    });
    assert!(task.await.unwrap_err().is_panic());
    next(&mut link, CoreType::SessionErrored).await;
}

#[tokio::test(start_paused = true)]
async fn panicking_tool_ends_its_session() {
    let producer = producer();
    let link = join(&producer).await;
    let session = std::sync::Arc::new(producer.session("Failing.").await.unwrap());
    let inside = session.clone();
    let work = async { panic!("expected by the test") };
    let task = tokio::spawn(async move { inside.tool("explode").run::<(), String>(work).await });
    assert!(task.await.unwrap_err().is_panic(), "the panic goes on");
    let after = session.set_state("deciding", None).await;
    assert_eq!(after, Err(Error::Misuse(EngineError::UnknownSession)));
    drop((producer, session));
    let events = rest(link).await;
    assert_eq!(names(&events), ["session.started", "tool.invoked", "tool.completed", "session.errored"]);
    assert_eq!(completed(&events).status, ToolStatus::Error);
}

#[tokio::test(start_paused = true)]
async fn every_end_of_a_tool_call_is_reported() {
    let producer = producer();
    let link = join(&producer).await;
    let session = producer.session("Working.").await.unwrap();
    let long = "x".repeat(10_000);
    for message in ["The bank is closed.", "", &long] {
        let result = session.tool("fail").run(async { Err::<(), _>(message) }).await;
        assert_eq!(result, Err(ToolError::Failed(message)));
    }
    let second = Duration::from_secs(1);
    let result = session.tool("dawdle").timeout(second).run(std::future::pending::<Result<(), String>>()).await;
    assert_eq!(result, Err(ToolError::TimedOut));
    let run = session.tool("abandon").run(std::future::pending::<Result<(), String>>());
    assert!(tokio::time::timeout(second, run).await.is_err());
    session.complete("All tools have ended.").await.unwrap();
    drop(producer);
    let events = rest(link).await;
    let ends: Vec<_> = events
        .iter()
        .filter_map(|e| match &e.payload {
            Payload::ToolCompleted(c) => {
                Some((c.tool.as_str(), c.status.as_str(), c.error_message.as_deref().unwrap(), c.duration_ms.unwrap()))
            }
            _ => None,
        })
        .collect();
    let wanted = [
        ("fail", "error", "The bank is closed.", 0),
        ("fail", "error", "The tool failed.", 0),
        ("fail", "error", "The tool failed.", 0),
        ("dawdle", "timeout", "It took too long.", 1000),
        ("abandon", "timeout", "The tool was given up.", 1000),
    ];
    assert_eq!(ends, wanted);
}

/// A tool call that was emitted is completed, wherever its future is dropped.
#[tokio::test(start_paused = true)]
async fn dropped_tool_call_is_completed_at_any_point() {
    for polls in 0..4 {
        let producer = producer();
        let link = join(&producer).await;
        let session = producer.session("Working.").await.unwrap();
        {
            let mut run = Box::pin(session.tool("abandon").run(std::future::pending::<Result<(), String>>()));
            for _ in 0..polls {
                let once = std::future::poll_fn(|cx| std::task::Poll::Ready(run.as_mut().poll(cx).is_ready()));
                assert!(!once.await);
                tokio::task::yield_now().await;
            }
        }
        session.complete("Nothing is open.").await.unwrap();
        drop(producer);
        let names = names(&rest(link).await);
        let count = |name: &str| names.iter().filter(|n| *n == name).count();
        assert_eq!(count("tool.invoked"), count("tool.completed"), "{polls}: {names:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_confirmation_is_cancelled() {
    let producer = producer();
    let mut audit = producer.audit().unwrap();
    let mut link = join(&producer).await;
    let session = producer.session("Asking.").await.unwrap();
    let arguments = json!({});
    let ask = tokio::time::timeout(Duration::from_secs(1), session.confirm(transfer(&arguments)));
    assert!(ask.await.is_err());
    assert_eq!(audit.recv().await.unwrap().resolution, Resolution::Cancelled);
    let event = next(&mut link, CoreType::AwaitingConfirmation).await;
    let Payload::AwaitingConfirmation(asked) = event.payload else { unreachable!() };
    link.decide(&asked.reply_token, Decision::Accept).await.unwrap();
    session.complete("No question is open.").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unanswered_questions_time_out() {
    let producer = producer();
    let _link = join(&producer).await;
    let before = tokio::time::Instant::now();
    let session = producer.session("Asking.").await.unwrap();
    let (session, resolution) = confirming(session).await.unwrap();
    assert_eq!((resolution, before.elapsed().as_secs()), (Resolution::TimedOut, 300));
    assert_eq!(session.ask_text("Anyone?").await, Ok(None));
    assert_eq!(before.elapsed().as_secs(), 420);
}

#[tokio::test(start_paused = true)]
async fn disconnect_of_the_last_subscriber_resolves_the_question() {
    let producer = producer();
    let mut link = join(&producer).await;
    let asking = confirming(producer.session("Asking.").await.unwrap());
    next(&mut link, CoreType::AwaitingConfirmation).await;
    drop(link);
    assert_eq!(asking.await.unwrap().1, Resolution::SubscriberLeft);
    assert_eq!(producer.subscriber_counts().await, SubscriberCounts::default());
}

#[tokio::test(start_paused = true)]
async fn clarifications_of_every_kind_are_answered() {
    let producer = producer();
    let mut link = join(&producer).await;
    tokio::spawn(async move {
        let answers = [Response::Text("Bob".into()), Response::Boolean(true), Response::Number(7.5)];
        for answer in answers.into_iter().chain([Response::Text("old".into())]) {
            let Payload::AwaitingClarification(ask) = next(&mut link, CoreType::AwaitingClarification).await.payload
            else {
                unreachable!()
            };
            link.answer(&ask.reply_token, answer).await.unwrap();
        }
        rest(link).await
    });
    let session = producer.session("Asking.").await.unwrap();
    assert_eq!(session.ask_text("Who?").await, Ok(Some("Bob".to_owned())));
    assert_eq!(session.ask_yes_no("Really?").await, Ok(Some(true)));
    assert_eq!(session.ask_number("How much?").await, Ok(Some(7.5)));
    assert_eq!(session.ask_choice("Which?", [("in", "Inbox"), ("old", "Old mail")]).await, Ok(Some("old".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn default_is_applied_at_once_without_subscribers() {
    let producer = Producer::builder("lonely").no_subscriber_policy(NoSubscriberPolicy::ApplyDefault).build();
    let session = producer.session("Asking.").await.unwrap();
    let answer = session.clarify(Clarification::freetext("Who?").default_response("me")).await.unwrap();
    assert_eq!(
        (answer.response, answer.resolution),
        (Some(Response::Text("me".into())), Resolution::NobodyCouldAnswer)
    );
}

#[tokio::test(start_paused = true)]
async fn permit_for_another_call_is_refused() {
    for (name, arguments) in [("transfer", json!({"amount": 5000})), ("withdraw", json!({"amount": 500}))] {
        let producer = producer();
        let listener = answering(join(&producer).await, Decision::Accept);
        let session = producer.session("Moving your money.").await.unwrap();
        let permit = session.confirm(transfer(&json!({"amount": 500}))).await.unwrap().permit.unwrap();
        let started = RefCell::new(false);
        let call = session.irreversible(name, arguments).permit(permit).run(async |_| {
            *started.borrow_mut() = true;
            Ok::<(), String>(())
        });
        assert!(matches!(call.await, Err(ToolError::Refused(Error::Misuse(EngineError::WrongPermit(_))))));
        assert!(!*started.borrow(), "the tool did not run");
        session.fail(ErrorCategory::Permanent, "That was something else.").await.unwrap();
        drop(producer);
        assert!(!names(&listener.await.unwrap()).contains(&"tool.invoked".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn subscriber_counts_include_reply_capabilities() {
    let producer = producer();
    let full = join(&producer).await;
    let mute = producer.subscribe_local("captions", Capabilities::default()).await.unwrap();
    assert_eq!(
        producer.subscriber_counts().await,
        SubscriberCounts { subscriptions: 2, can_confirm: 1, can_clarify: 1 }
    );
    drop(full);
    tokio::task::yield_now().await;
    assert_eq!(
        producer.subscriber_counts().await,
        SubscriberCounts { subscriptions: 1, can_confirm: 0, can_clarify: 0 }
    );
    drop(mute);
}

#[tokio::test(start_paused = true)]
async fn permits_of_concurrent_sessions_are_not_interchangeable() {
    let producer = producer();
    let listener = answering(join(&producer).await, Decision::Accept);
    let (one, two) = tokio::join!(producer.session("One."), producer.session("Two."));
    let (one, two) = (one.unwrap(), two.unwrap());
    let ids = [one.id().clone(), two.id().clone()];
    let (a, b) = tokio::join!(one.confirm(transfer(&json!(1))), two.confirm(transfer(&json!(2))));
    let (permit_of_one, permit_of_two) = (a.unwrap().permit.unwrap(), b.unwrap().permit.unwrap());
    let crossed = two.irreversible("transfer", json!(1)).permit(permit_of_one).run(async |_| Ok::<_, String>(()));
    assert!(matches!(crossed.await, Err(ToolError::Refused(_))), "a permit is for its session");
    let right = two.irreversible("transfer", json!(2)).permit(permit_of_two).run(async |_| Ok::<_, String>(()));
    right.await.unwrap();
    let (one, two) = tokio::join!(one.complete("One is done."), two.complete("Two is done."));
    one.and(two).unwrap();
    drop(producer);
    let events = listener.await.unwrap();
    for id in ids {
        let own: Vec<Event> = events.iter().filter(|e| e.envelope.session_id == id).cloned().collect();
        assert_eq!(names(&own).last().map(String::as_str), Some("session.completed"));
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_output_is_completed() {
    let producer = producer();
    let mut link = join(&producer).await;
    let session = producer.session("Writing.").await.unwrap();
    session.output().await.unwrap().write("That is all").await.unwrap();
    let event = next(&mut link, CoreType::OutputStreaming).await;
    let Payload::OutputStreaming(output) = event.payload else { unreachable!() };
    assert_eq!((output.chunk.as_str(), output.complete), ("That is all", true));
}

#[tokio::test(start_paused = true)]
async fn producer_task_ends_with_the_last_handle() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let producer = producer();
    let mut audit = producer.audit().unwrap();
    let mut unread = join_with(&producer, json!({"max_events_per_second": 1})).await;
    assert_eq!(tasks(), 1);
    let session = producer.session("Working.").await.unwrap();
    let output = session.output().await.unwrap();
    let sender = unread.sender();
    drop((producer, session));
    assert_eq!(output.write("too late").await, Err(Error::Misuse(EngineError::UnknownSession)));
    assert_eq!(tasks(), 1, "an output is a handle too");
    drop(output);
    assert_eq!(audit.recv().await, None);
    tokio::task::yield_now().await;
    assert_eq!(tasks(), 0);
    while unread.recv().await.is_some() {}
    assert_eq!(sender.decide(&"rpl_1".parse().unwrap(), Decision::Accept).await, Err(Error::Gone));
}

#[tokio::test]
async fn agent_waits_for_a_request_to_stop_and_a_later_look_finds_it_too() {
    let producer = producer();
    let mut link = join_with(&producer, json!({"cancellation": {}})).await;
    let session = producer.session("Digging.").await.unwrap();
    session.accept_cancel_requests().await.unwrap();
    let waiting = tokio::spawn(session.cancel_requested());
    let request = json!({"type": "cancellation:request", "subscription_id": link.id(),
        "session_id": session.id(), "timestamp": "2026-05-24T14:22:13Z", "requested_by": "ada"});
    link.send(Message::parse(request.to_string().as_bytes()).unwrap()).await.unwrap();
    let request = waiting.await.unwrap().unwrap();
    assert_eq!(request.requested_by.as_deref(), Some("ada"));
    assert_eq!(session.cancel_requested().await.unwrap(), request, "it is not lost");
    session.cancel(CancelledBy::User, "Stopped.").await.unwrap();
    drop(producer);
    while link.recv().await.is_some() {}
}
