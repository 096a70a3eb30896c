//! The example programs run to their end and check their own results.

use crate::harness::in_time;

#[path = "../../examples/listener.rs"]
#[allow(dead_code, reason = "main is not called here")]
mod listener;

#[tokio::test]
async fn listener_prints_events_and_answers_a_question() {
    in_time("the example", listener::run()).await.unwrap();
}
