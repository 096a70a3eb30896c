//! Replaying recorded events.

use std::sync::Arc;

use aaep_proto::message::Event;

use crate::error::Error;
use crate::producer::Producer;

impl Producer {
    /// Emits a recorded event unchanged: its id, its time and its texts are those of the recording. The filters of
    /// subscriptions apply. It starts no session, asks no question and can never lead to a permit; replies to it are ignored.
    ///
    /// Waits until every connected subscription keeps up, so that nothing is coalesced for a subscriber that reads
    /// everything. It does not wait for a subscriber whose connection is lost for longer than the resume window.
    ///
    /// ```
    /// use aaep::transport::Outbound;
    /// use aaep::{Producer, message::{Capabilities, Event}};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let event: Event = serde_json::from_str(r#"{"@context":"https://aaep-protocol.org/context/v1",
    ///   "type":"aaep:agent.session.started","event_id":"evt_1","session_id":"sess_1","timestamp":"2026-05-24T14:22:11Z",
    ///   "producer":{"agent_id":"planner"},"localization_hints":{"primary_language":"en"},
    ///   "summary_terse":"Go.","summary_normal":"Planning."}"#)?;
    /// let producer = Producer::builder("narrator").build();
    /// let mut link = producer.subscribe_local("console", Capabilities::default()).await?;
    /// link.recv().await;
    /// producer.replay_event(event.clone()).await?;
    /// let Some(Outbound::Event(frame)) = link.recv().await else { unreachable!() };
    /// assert_eq!(*frame.event(), event);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn replay_event(&self, event: Event) -> Result<(), Error> {
        let event = Arc::new(event);
        loop {
            self.wait_for_capacity().await;
            // Created before the check, so that no notification after the check is missed.
            let all_keep_up = self.handle.all_keep_up().notified();
            let event = event.clone();
            // Checked in the driver, because a link could fill up between a check from outside and the emission.
            let emitted = self.handle.call(move |driver| {
                if driver.engine().all_keep_up() {
                    return Some(driver.with_engine(|engine, cx| engine.replay_event(cx, &event)));
                }
                driver.replay_waits = true;
                None
            });
            match emitted.await? {
                Some(result) => return Ok(result?),
                None => tokio::select! {
                    () = all_keep_up => {}
                    () = self.handle.ended() => return Err(Error::Gone),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use aaep_proto::message::{Capabilities, Decision, Payload};
    use aaep_proto::time::Timestamp;

    use super::*;
    use crate::transport::{Outbound, ReplyRejection, ResumePolicy};

    fn text(number: u64) -> Event {
        serde_json::from_value(serde_json::json!({
            "@context": "https://aaep-protocol.org/context/v1", "type": "aaep:agent.output.streaming",
            "event_id": format!("evt_{number}"), "session_id": "sess_1", "timestamp": "2026-05-24T14:22:11Z",
            "producer": {"agent_id": "planner"}, "localization_hints": {"primary_language": "en"},
            "chunk": "a", "position": number, "complete": false, "output_id": "out_1"
        }))
        .unwrap()
    }

    fn question() -> Event {
        serde_json::from_value(serde_json::json!({
            "@context": "https://aaep-protocol.org/context/v1", "type": "aaep:agent.awaiting.confirmation",
            "event_id": "evt_q", "session_id": "sess_1", "timestamp": Timestamp::from_millis(0).to_string(),
            "producer": {"agent_id": "planner"}, "localization_hints": {"primary_language": "en"},
            "urgency": "critical", "action": "Pay.", "consequence": "The money is gone.", "reply_token": "rpl_1",
            "timeout_seconds": 60, "default_decision": "reject"
        }))
        .unwrap()
    }

    async fn drain(mut link: crate::transport::Link, count: usize) -> Vec<Event> {
        let mut events = Vec::new();
        while events.len() < count {
            match link.recv().await.unwrap() {
                Outbound::Event(frame) => events.push(frame.event().clone()),
                Outbound::Message(_) => {}
                Outbound::Closed(closing) => panic!("{closing:?}"),
            }
        }
        events
    }

    #[tokio::test]
    async fn nothing_is_coalesced_for_a_reader_that_is_slow_or_resumes() {
        let producer = Producer::builder("narrator").build();
        let slow = producer.subscribe_local("slow", Capabilities::default()).await.unwrap();
        let request = aaep_proto::subscriber::SubscriberConfig::new("away", Capabilities::default()).request;
        let away = producer.subscribe(&request, "away", ResumePolicy::Resumable).await.unwrap();
        let id = away.id().clone();
        drop(away);
        let replaying = tokio::spawn({
            let producer = producer.clone();
            async move {
                for number in 0..2000 {
                    producer.replay_event(text(number)).await.unwrap();
                }
            }
        });
        let back = producer.resume(&id, "away", None).await.unwrap();
        let (slow, back) = tokio::join!(drain(slow, 2000), drain(back, 2000));
        replaying.await.unwrap();
        let expected: Vec<Event> = (0..2000).map(text).collect();
        assert!(slow == expected && back == expected);
    }

    #[tokio::test]
    async fn a_recorded_question_takes_no_reply_and_starts_no_session() {
        let producer = Producer::builder("narrator").build();
        let capabilities = serde_json::from_str(r#"{"supports_confirmation_reply": true}"#).unwrap();
        let mut link = producer.subscribe_local("reader", capabilities).await.unwrap();
        link.recv().await;
        producer.replay_event(question()).await.unwrap();
        let Some(Outbound::Event(asked)) = link.recv().await else { panic!("no question") };
        let Payload::AwaitingConfirmation(asked) = &asked.event().payload else { panic!("no question") };
        link.decide(&asked.reply_token, Decision::Accept).await.unwrap();
        let counted = async {
            while producer.reply_stats().ignored.is_empty() {
                // A round trip through the driver, which handles queued replies first.
                producer.stats().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(60), counted).await.expect("the reply is counted");
        assert_eq!(producer.reply_stats().ignored.into_iter().collect::<Vec<_>>(), [(ReplyRejection::UnknownToken, 1)]);
        assert!(producer.reply_stats().resolved.is_empty());
        let stats = producer.stats().await.unwrap();
        assert_eq!((stats.sessions, stats.questions), (0, 0));
    }

    #[tokio::test]
    async fn a_recorded_event_cannot_join_a_live_session_or_break_a_rule() {
        let producer = Producer::builder("narrator").build();
        let mut link = producer.subscribe_local("reader", Capabilities::default()).await.unwrap();
        let session = producer.session("Working.").await.unwrap();
        while !matches!(link.recv().await, Some(Outbound::Event(_))) {}
        let mut event = text(0);
        event.envelope.session_id = session.id().clone();
        assert!(matches!(producer.replay_event(event).await, Err(Error::Misuse(_))));
        let mut event = text(0);
        if let Payload::OutputStreaming(output) = &mut event.payload {
            output.chunk = "x".repeat(20_000);
        }
        assert!(matches!(producer.replay_event(event).await, Err(Error::Misuse(_))));
    }
}
