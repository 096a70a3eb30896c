//! Recordings, told again by a producer.

use std::sync::Arc;
use std::time::Duration;

use aaep_proto::message::Event;

use crate::error::Error;
use crate::producer::Producer;

/// How soon to look again whether everyone keeps up.
const LOOK: Duration = Duration::from_millis(5);

impl Producer {
    /// Tells a recorded event, word for word: its id, its time and its texts are those of the recording. Filters hold.
    /// No session begins by it, no question is asked, and no permit can ever come of it; replies to it are ignored.
    ///
    /// Waits while someone who listens does not keep up, so that nothing is folded for those who can take everything.
    /// Who is away for longer is not waited for.
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
    /// let mut link = producer.subscribe_local("console", Capabilities::default()).await.expect("a place");
    /// link.recv().await;
    /// producer.replay_event(event.clone()).await?;
    /// let Some(Outbound::Event(told)) = link.recv().await else { unreachable!() };
    /// assert_eq!(*told.event(), event);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn replay_event(&self, event: Event) -> Result<(), Error> {
        let event = Arc::new(event);
        loop {
            self.wait_for_capacity().await;
            let event = event.clone();
            // Looked at in the task: between a look from outside and the telling, a link may fill up.
            let told = self.handle.call(move |desk| {
                desk.engine().all_keep_up().then(|| desk.act(|engine, cx| engine.replay_event(cx, &event)))
            });
            match told.await? {
                Some(result) => return Ok(result?),
                None => tokio::time::sleep(LOOK).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
    async fn nothing_is_folded_for_a_reader_that_is_slow_or_away_for_a_moment() {
        let producer = Producer::builder("narrator").build();
        let slow = producer.subscribe_local("slow", Capabilities::default()).await.unwrap();
        let request = aaep_proto::subscriber::SubscriberConfig::new("away", Capabilities::default()).request;
        let away = producer.subscribe(&request, "away", ResumePolicy::Resumable).await.unwrap();
        let id = away.id().clone();
        drop(away);
        let telling = tokio::spawn({
            let producer = producer.clone();
            async move {
                for number in 0..2000 {
                    producer.replay_event(text(number)).await.unwrap();
                }
            }
        });
        let back = producer.resume(&id, "away", None).await.unwrap();
        let (slow, back) = tokio::join!(drain(slow, 2000), drain(back, 2000));
        telling.await.unwrap();
        let expected: Vec<Event> = (0..2000).map(text).collect();
        assert!(slow == expected && back == expected);
    }

    #[tokio::test]
    async fn a_recorded_question_takes_no_answer_and_no_session_lives() {
        let producer = Producer::builder("narrator").build();
        let capabilities = serde_json::from_str(r#"{"supports_confirmation_reply": true}"#).unwrap();
        let mut link = producer.subscribe_local("reader", capabilities).await.unwrap();
        link.recv().await;
        producer.replay_event(question()).await.unwrap();
        let Some(Outbound::Event(asked)) = link.recv().await else { panic!("no question") };
        let Payload::AwaitingConfirmation(asked) = &asked.event().payload else { panic!("no question") };
        link.decide(&asked.reply_token, Decision::Accept).await.unwrap();
        let noticed = async {
            while producer.reply_stats().ignored.is_empty() {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), noticed).await.expect("the reply is noticed");
        assert_eq!(producer.reply_stats().ignored.into_iter().collect::<Vec<_>>(), [(ReplyRejection::UnknownToken, 1)]);
        assert!(producer.reply_stats().decided.is_empty());
        let measures = producer.stats().await.unwrap();
        assert_eq!((measures.sessions, measures.questions), (0, 0));
    }

    #[tokio::test]
    async fn a_recording_cannot_pass_for_the_living() {
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
