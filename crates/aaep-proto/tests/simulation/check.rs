//! Invariants of the events that a subscriber received.

use aaep_proto::Rule;
use aaep_proto::filter::EventFilter;
use aaep_proto::message::{Boundary, CoreType, Event, Message, Payload, Urgency};

use crate::harness::Received;
use crate::subscriber::SimulatedSubscriber;

/// Checks the events that a subscriber received in one step.
pub fn received(subscriber: &mut SimulatedSubscriber, events: &[(u64, Event)], closed: bool) {
    for (i, (at, event)) in events.iter().enumerate() {
        subscriber.received += 1;
        assert!(subscriber.wants(event), "an event came through the filter: {event:?}");
        let critical = *event.urgency() == Urgency::Critical;
        let background = *event.urgency() == Urgency::Background;
        assert!(!background || !subscriber.has_low_load(), "background under low load: {event:?}");
        if !critical && !goes_along(event, &events[i + 1..]) {
            subscriber.paced.push(*at);
        }
        keep_text(subscriber, event);
        if let Payload::AwaitingConfirmation(_) | Payload::AwaitingClarification(_) = &event.payload {
            subscriber.prompts.push(token_of(event));
        }
        let problems = subscriber.sequence.observe(&Message::Event(Box::new(event.clone())));
        for problem in problems {
            // These cannot be checked from the stream of one subscriber: questions that no subscriber could answer were not
            // delivered (decision 1), and state changes may be filtered or coalesced. They are checked at the agent.
            let excused = matches!(
                problem.rule,
                Rule::IrreversibleUnconfirmed | Rule::IrreversibleNotAsked | Rule::ToolAfterReject | Rule::PendingAtEnd
            );
            assert!(excused, "{problem:?}\nin {event:?}");
        }
    }
    if !closed {
        check_rate(subscriber);
    }
}

/// Returns whether an event was sent ahead of its rate, before a critical event of its session at the same time.
fn goes_along(event: &Event, later: &[(u64, Event)]) -> bool {
    later.iter().any(|(_, e)| *e.urgency() == Urgency::Critical && e.envelope.session_id == event.envelope.session_id)
}

pub fn token_of(event: &Event) -> aaep_proto::id::ReplyToken {
    match &event.payload {
        Payload::AwaitingConfirmation(c) => c.reply_token.clone(),
        Payload::AwaitingClarification(c) => c.reply_token.clone(),
        other => panic!("{other:?}"),
    }
}

fn keep_text(subscriber: &mut SimulatedSubscriber, event: &Event) {
    let Payload::OutputStreaming(chunk) = &event.payload else { return };
    assert!(chunk.chunk.chars().count() <= 16_384);
    let hint = chunk.coalesce_hint.as_ref().unwrap();
    assert!(subscriber.boundaries().contains(hint), "{hint:?} was not negotiated: {event:?}");
    let id = chunk.output_id.as_ref().unwrap().to_string();
    let entry = subscriber.texts.entry(id).or_insert_with(|| (chunk.position, String::new(), false));
    assert_eq!(chunk.position, entry.0 + entry.1.chars().count() as u64, "positions are exact");
    entry.1.push_str(&chunk.chunk);
    entry.2 |= chunk.complete;
}

/// Checks the bound of decision 4 for every window that ends now.
fn check_rate(subscriber: &mut SimulatedSubscriber) {
    let Some(rate) = subscriber.rate() else {
        subscriber.paced.clear();
        return;
    };
    let Some(last) = subscriber.paced.last().copied() else { return };
    for (count, start) in subscriber.paced.iter().rev().enumerate() {
        let seconds = (last - start) as f64 / 1000.0;
        let most = f64::from(rate) * seconds + f64::from(rate);
        assert!(
            (count + 1) as f64 <= most + 0.011 * f64::from(rate),
            "{} events in {seconds} seconds at rate {rate}",
            count + 1
        );
    }
    let keep = subscriber.paced.len().saturating_sub(400);
    subscriber.paced.drain(..keep);
}

/// Unambiguous ends of sentences.
const ENDINGS: [&str; 5] = [" there. ", " there! ", " done. ", " done! ", "日本。"];

/// Checks that no complete sentence of an output is missing after another event of its session was delivered.
pub fn nothing_finished_is_missing(subscriber: &SimulatedSubscriber, output: &str, written: &str) {
    let Some((start, got, _)) = subscriber.texts.get(output) else { return };
    let end = *start as usize + got.chars().count();
    let missing: String = written.chars().skip(end).collect();
    assert!(!ENDINGS.iter().any(|ending| missing.ends_with(ending)), "{missing:?} of {output} was held back");
}

/// Returns whether the event is a terminal core event.
pub fn is_terminal(event: &Event) -> bool {
    event.core_type().is_some_and(CoreType::is_terminal)
}

/// Checks that the terms are not wider than the subscriber's request (5.4.4).
pub fn check_honored(items: &[(u64, Received)], subscriber: &SimulatedSubscriber) {
    let last = items.iter().rev().find_map(|(_, item)| match item {
        Received::Message(message) => match &**message {
            Message::SubscriptionAccepted(accepted) => Some(&accepted.honored_capabilities.fields),
            _ => None,
        },
        Received::Event(_) => None,
    });
    let (Some(honored), asked) = (last, &subscriber.capabilities.fields) else { return };
    if let Some(rate) = asked.max_events_per_second {
        assert!(honored.max_events_per_second.unwrap() <= rate);
    }
    let boundaries =
        asked.coalesce_boundaries.clone().unwrap_or_else(|| vec![Boundary::Sentence, Boundary::Completion]);
    assert!(honored.coalesce_boundaries.as_ref().unwrap().iter().all(|b| boundaries.contains(b)));
    assert_eq!(honored.supports_confirmation_reply, Some(subscriber.can_confirm()));
    assert_eq!(honored.supports_clarification_reply, Some(subscriber.can_clarify()));
    assert_eq!(EventFilter::new(honored.event_filters.as_ref()), subscriber.filter);
}
