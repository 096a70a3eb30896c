//! A stalled producer accepts a reply that arrived in time.

use aaep::id::ReplyToken;

use super::*;

/// Receives until a question.
async fn question(link: &mut Link) -> ReplyToken {
    loop {
        let Some(Outbound::Event(frame)) = link.recv().await else { continue };
        if let Payload::AwaitingConfirmation(asked) = &frame.event().payload {
            return asked.reply_token.clone();
        }
    }
}

fn harmless() -> Confirmation {
    Confirmation::new("Dig.", "A hole.").timeout_seconds(1).accept_on_timeout().unwrap()
}

/// The clock jumps before the task of the producer runs: the reply and the deadline are both pending.
#[tokio::test(start_paused = true)]
async fn timely_rejection_is_handled_before_an_expired_deadline() {
    for _ in 0..16 {
        let producer = producer();
        let mut link = join(&producer).await;
        let session = producer.session("Digging.").await.unwrap();
        let asked = tokio::spawn(async move { session.confirm(harmless()).await.unwrap().resolution });
        let token = question(&mut link).await;
        link.decide(&token, Decision::Reject).await.unwrap();
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(asked.await.unwrap(), Resolution::Rejected);
    }
}

#[tokio::test(start_paused = true)]
async fn timely_rejection_outside_the_link_is_handled_before_an_expired_deadline() {
    for _ in 0..16 {
        let producer = producer();
        let mut link = join(&producer).await;
        let session = producer.session("Digging.").await.unwrap();
        let asked = tokio::spawn(async move { session.confirm(harmless()).await.unwrap().resolution });
        let token = question(&mut link).await;
        let reply = json!({"type": "confirmation.reply", "reply_token": token, "decision": "reject",
            "subscription_id": link.id(), "timestamp": wall_clock()});
        let reply = Message::parse(reply.to_string().as_bytes()).unwrap();
        let mut hearing = std::pin::pin!(producer.handle_message("reader", reply));
        // Sent, but not handled yet.
        assert!(poll_once(hearing.as_mut()).await.is_pending());
        tokio::time::advance(Duration::from_secs(2)).await;
        hearing.await.unwrap();
        assert_eq!(asked.await.unwrap(), Resolution::Rejected);
    }
}

#[tokio::test(start_paused = true)]
async fn rejection_is_handled_before_the_following_disconnect() {
    let producer = producer();
    let mut link = join(&producer).await;
    let session = producer.session("Digging.").await.unwrap();
    let asked = tokio::spawn(async move { session.confirm(harmless()).await.unwrap().resolution });
    let token = question(&mut link).await;
    link.decide(&token, Decision::Reject).await.unwrap();
    drop(link);
    assert_eq!(asked.await.unwrap(), Resolution::Rejected);
}

/// Agents that fill the command queue do not delay a reply: it is handled before most queued commands.
#[tokio::test(start_paused = true)]
async fn reply_does_not_wait_behind_agent_commands() {
    let producer = producer();
    let mut link = join(&producer).await;
    let session = std::sync::Arc::new(producer.session("Digging.").await.unwrap());
    let asking = session.clone();
    let asked = tokio::spawn(async move { asking.confirm(harmless()).await.unwrap().resolution });
    let token = question(&mut link).await;
    let done = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut flood = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        let (session, done) = (session.clone(), done.clone());
        flood.spawn(async move {
            session.report_progress(1, "Digging on.").await.unwrap();
            done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        });
    }
    tokio::task::yield_now().await;
    let reply = json!({"type": "confirmation.reply", "reply_token": token, "decision": "reject",
        "subscription_id": link.id(), "timestamp": wall_clock()});
    producer.handle_message("reader", Message::parse(reply.to_string().as_bytes()).unwrap()).await.unwrap();
    let before = done.load(std::sync::atomic::Ordering::SeqCst);
    assert!(before < 500, "{before} of 1000 commands went first");
    assert_eq!(asked.await.unwrap(), Resolution::Rejected);
    flood.join_all().await;
}

async fn poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> std::task::Poll<()> {
    std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).map(drop))).await
}

/// Returns the time of the wall clock as in messages.
fn wall_clock() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    aaep_proto::time::Timestamp::from_millis(since.as_millis() as i64).to_string()
}
