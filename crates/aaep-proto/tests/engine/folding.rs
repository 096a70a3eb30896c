//! Waiting events of a slow subscription are coalesced, whatever is queued between them (5.6.1, decision 75).

use std::collections::BTreeMap;

use aaep_proto::SequenceChecker;
use aaep_proto::engine::SubscriptionKey;
use aaep_proto::id::{OutputId, SessionId};
use aaep_proto::limits;
use aaep_proto::message::{CoreType, Event, Message, Payload, Progress, ProgressUpdated, ToolInvoked};
use aaep_proto::record::Decimal;
use proptest::prelude::*;
use serde_json::json;

use crate::harness::{EngineHarness, Received};

impl EngineHarness {
    fn percent(&mut self, session: &SessionId, percent: f64) {
        let progress = Progress { percent: Some(Decimal(percent)), ..Progress::default() };
        let updated = ProgressUpdated { progress, ..ProgressUpdated::default() };
        self.act(|engine, cx| engine.emit(cx, session, updated.into())).unwrap();
    }

    fn state(&mut self, session: &SessionId, to: &str) {
        self.act(|engine, cx| engine.set_state(cx, session, to, None)).unwrap();
    }

    fn text(&mut self, session: &SessionId, output: &OutputId, text: &str) {
        self.act(|engine, cx| engine.write(cx, session, output, text)).unwrap();
    }

    fn output(&mut self, session: &SessionId) -> OutputId {
        self.act(|engine, cx| engine.open_output(cx, session, "text/plain", None)).unwrap()
    }

    fn arrivals(&self, key: SubscriptionKey) -> Vec<(u64, Event)> {
        let all = self.received.get(&key).into_iter().flatten();
        let event = |(at, r): &(u64, Received)| match r {
            Received::Event(event) => Some((*at, (**event).clone())),
            Received::Message(_) => None,
        };
        all.filter_map(event).collect()
    }

    /// Checks the whole stream by the rules of the sequence.
    fn assert_in_order(&self, key: SubscriptionKey) {
        let mut sequence = SequenceChecker::new();
        for (_, event) in self.arrivals(key) {
            let problems = sequence.observe(&Message::Event(Box::new(event.clone())));
            assert!(problems.is_empty(), "{problems:?} in {event:?}");
        }
    }
}

#[test]
fn interleaved_stream_is_coalesced_and_its_end_arrives_soon() {
    let mut harness = EngineHarness::new();
    let reader = harness.join(json!({"max_events_per_second": 3, "coalesce_boundaries": ["sentence", "completion"]}));
    let session = harness.start();
    let output = harness.output(&session);
    let mut written = String::new();
    for n in 0..60 {
        harness.state(&session, if n % 2 == 0 { "deciding" } else { "thinking" });
        harness.percent(&session, f64::from(n));
        let sentence = format!("This is sentence {n}. ");
        harness.text(&session, &output, &sentence);
        written.push_str(&sentence);
        harness.pass(50);
    }
    harness.act(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
    harness.act(|engine, cx| engine.complete_session(cx, &session, "Done.")).unwrap();
    let ended = harness.millis;
    harness.pass(60_000);
    let (arrived, last) = harness.arrivals(reader).pop().unwrap();
    assert_eq!(last.core_type(), Some(CoreType::SessionCompleted));
    assert!(arrived <= ended + 5_000, "the end arrived after {} ms", arrived - ended);
    assert_eq!(harness.texts(reader).concat(), written);
    assert!(harness.chunks(reader).iter().all(|c| c.2 == "sentence" || c.2 == "completion"));
    let percent = harness.arrivals(reader).into_iter().rev().find_map(|(_, e)| match e.payload {
        Payload::ProgressUpdated(p) => p.progress.percent,
        _ => None,
    });
    assert_eq!(percent, Some(Decimal(59.0)));
    harness.assert_in_order(reader);
}

/// An agent that never pauses must not delay any type of event forever.
#[test]
fn no_event_type_starves_under_constant_load() {
    let mut harness = EngineHarness::new();
    let reader = harness.join(json!({"max_events_per_second": 3}));
    let session = harness.start();
    let output = harness.output(&session);
    for n in 0..400 {
        harness.state(&session, ["deciding", "thinking", "reading"][n % 3]);
        harness.percent(&session, (n % 100) as f64);
        harness.text(&session, &output, &format!("This is sentence {n}. "));
        harness.pass(50);
    }
    for core in [CoreType::OutputStreaming, CoreType::ProgressUpdated, CoreType::StateChanged] {
        let mut last = 0;
        for (at, _) in harness.arrivals(reader).iter().filter(|(_, e)| e.core_type() == Some(core)) {
            assert!(at - last <= 2_500, "{core:?} waited from {last} to {at}");
            last = *at;
        }
        assert!(harness.millis - last <= 2_500, "{core:?} stopped at {last}");
    }
    harness.assert_in_order(reader);
}

/// Coalesced text may move behind a tool call, but tool calls keep their order, and so does text.
#[test]
fn tool_events_keep_their_order_and_coalesced_text_takes_the_place_of_its_newest_chunk() {
    let mut harness = EngineHarness::new();
    let reader =
        harness.join(json!({"max_events_per_second": 1, "event_filters": {"exclude": ["aaep:agent.state.changed"]}}));
    let session = harness.start();
    let output = harness.output(&session);
    let call = |harness: &mut EngineHarness, name: &str| {
        let tool = ToolInvoked { tool: name.into(), summary_normal: "Looking.".into(), ..ToolInvoked::default() };
        harness.act(|engine, cx| engine.invoke_tool(cx, &session, tool)).unwrap();
    };
    harness.text(&session, &output, "I look. ");
    call(&mut harness, "first");
    harness.text(&session, &output, "I found it. ");
    call(&mut harness, "second");
    harness.pass(10_000);
    let told: Vec<String> = harness
        .arrivals(reader)
        .into_iter()
        .filter_map(|(_, e)| match e.payload {
            Payload::ToolInvoked(tool) => Some(tool.tool),
            Payload::OutputStreaming(text) => Some(text.chunk),
            _ => None,
        })
        .collect();
    assert_eq!(told, ["first", "I look. I found it. ", "second"]);
}

#[test]
fn state_changes_that_cancel_out_without_a_summary_are_dropped() {
    let mut harness = EngineHarness::new();
    let reader = harness.join(json!({"max_events_per_second": 1}));
    let session = harness.start();
    harness.pass(5_000);
    harness.percent(&session, 1.0);
    harness.clear();
    harness.state(&session, "deciding");
    harness.state(&session, "thinking");
    harness.pass(5_000);
    assert_eq!(harness.states(reader), Vec::<String>::new());
    harness.state(&session, "deciding");
    harness.percent(&session, 2.0);
    harness.pass(5_000);
    assert_eq!(harness.states(reader), ["thinking>deciding"]);
}

#[test]
fn a_chunk_cut_for_size_carries_a_negotiated_hint() {
    for (set, load, expected) in [
        (json!(["completion"]), "medium", "completion"),
        (json!(["sentence", "completion"]), "medium", "sentence"),
        (json!(["paragraph"]), "medium", "paragraph"),
        (json!(["sentence", "completion"]), "low", "completion"),
        (json!(["word"]), "low", "word"),
    ] {
        let mut harness = EngineHarness::new();
        let reader = harness.join(json!({"coalesce_boundaries": set, "cognitive_load": load}));
        let session = harness.start();
        let output = harness.output(&session);
        harness.text(&session, &output, &"abcdefghij".repeat(5_000));
        let hints: Vec<String> = harness.chunks(reader).into_iter().map(|c| c.2).collect();
        assert!(hints.len() > 2 && hints.iter().all(|hint| hint == expected), "{set} {load}: {hints:?}");
    }
}

/// Subscriptions with equal terms share coalesced chunks, unless only one of the chunks ends the output.
#[test]
fn coalesced_chunks_are_shared_only_if_both_end_the_output() {
    let mut harness = EngineHarness::new();
    let fast = harness.join(json!({}));
    let slow = harness.join(json!({}));
    let session = harness.start();
    let output = harness.output(&session);
    for key in [fast, slow] {
        harness.act(|engine, cx| engine.set_blocked(cx, key, true));
    }
    harness.text(&session, &output, "One is here. ");
    harness.text(&session, &output, "Two is there. ");
    harness.act(|engine, cx| engine.set_blocked(cx, fast, false));
    harness.act(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
    harness.act(|engine, cx| engine.set_blocked(cx, slow, false));
    assert_eq!(harness.chunks(fast).iter().map(|c| c.3).collect::<Vec<_>>(), [false, true]);
    assert_eq!(harness.chunks(slow).iter().map(|c| c.3).collect::<Vec<_>>(), [true]);
    assert_eq!(harness.texts(slow).concat(), harness.texts(fast).concat());
}

/// One step of a random mixture.
#[derive(Clone, Debug)]
enum Step {
    Start,
    State(u8),
    Progress(u8),
    Open(u8),
    Write(u8, u16),
    Tool(u8),
    Pass(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Start),
        4 => any::<u8>().prop_map(Step::State),
        4 => any::<u8>().prop_map(Step::Progress),
        2 => any::<u8>().prop_map(Step::Open),
        8 => (any::<u8>(), 0u16..400).prop_map(|(s, n)| Step::Write(s, n)),
        1 => any::<u8>().prop_map(Step::Tool),
        3 => (0u16..300).prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// The backlog is bounded by the events that cannot be coalesced: session ends, tool calls, one state change and
    /// one progress per session, and the text of each output in chunks of the maximum size.
    #[test]
    fn backlog_is_bounded_for_any_mixture_of_events(
        rate in 1u32..8,
        boundaries in proptest::sample::select(vec![json!(["none"]), json!(["word"]), json!(["sentence", "completion"]), json!(["completion"])]),
        steps in proptest::collection::vec(step(), 1..250),
    ) {
        let mut harness = EngineHarness::new();
        let reader = harness.join(json!({"max_events_per_second": rate, "coalesce_boundaries": boundaries}));
        let mut sessions: Vec<(SessionId, Vec<OutputId>)> = vec![(harness.start(), Vec::new())];
        let mut texts: BTreeMap<OutputId, String> = BTreeMap::new();
        let (mut unfoldable, mut calls) = (1usize, Vec::new());
        for (n, step) in steps.iter().enumerate() {
            let pick = |k: &u8| usize::from(*k) % sessions.len();
            match step {
                Step::Start if sessions.len() < 4 => {
                    sessions.push((harness.start(), Vec::new()));
                    unfoldable += 1;
                }
                Step::Start => {}
                Step::State(k) => {
                    let session = sessions[pick(k)].0.clone();
                    harness.state(&session, ["deciding", "thinking", "reading"][n % 3]);
                }
                Step::Progress(k) => {
                    let session = sessions[pick(k)].0.clone();
                    harness.percent(&session, (n % 100) as f64);
                }
                Step::Open(k) => {
                    let at = pick(k);
                    if sessions[at].1.len() < 3 {
                        let output = harness.output(&sessions[at].0.clone());
                        sessions[at].1.push(output.clone());
                        texts.insert(output, String::new());
                    }
                }
                Step::Write(k, words) => {
                    let (session, outputs) = &sessions[pick(k)];
                    if let Some(output) = outputs.get(n % outputs.len().max(1)) {
                        let text = "word. ".repeat(usize::from(*words) % 40 + 1);
                        texts.get_mut(output).unwrap().push_str(&text);
                        let (session, output) = (session.clone(), output.clone());
                        harness.text(&session, &output, &text);
                    }
                }
                Step::Tool(k) => {
                    let session = sessions[pick(k)].0.clone();
                    let tool = ToolInvoked { tool: "t".into(), summary_normal: "x".into(), ..ToolInvoked::default() };
                    calls.push(harness.act(|engine, cx| engine.invoke_tool(cx, &session, tool)).unwrap());
                    unfoldable += 1;
                }
                Step::Pass(millis) => harness.pass(u64::from(*millis)),
            }
            let most = unfoldable + 2 * sessions.len() + texts.len();
            prop_assert!(harness.engine.waiting(reader) <= most, "{} wait", harness.engine.waiting(reader));
        }
        for (session, outputs) in &sessions {
            for output in outputs {
                harness.act(|engine, cx| engine.finish_output(cx, session, output)).unwrap();
            }
            // Cancelled, since tools are open; it is not critical and queues like everything else.
            harness.act(|engine, cx| engine.cancel_session(cx, session, "user".into(), "Stopped.")).unwrap();
        }
        let chunks: usize = texts.values().map(|text| text.chars().count() / (limits::CHUNK_CHARS / 2) + 1).sum();
        // Abandoned tool calls are completed by the engine.
        let events = unfoldable + calls.len() + 3 * sessions.len() + chunks;
        let most_millis = 1_000 * events as u64 / u64::from(rate) + 1_000;
        harness.pass(most_millis);
        prop_assert_eq!(harness.engine.waiting(reader), 0, "after {} ms", most_millis);
        for (output, text) in &texts {
            let got: String = harness.arrivals(reader).into_iter().filter_map(|(_, e)| match e.payload {
                Payload::OutputStreaming(chunk) if chunk.output_id.as_ref() == Some(output) => Some(chunk.chunk),
                _ => None,
            }).collect();
            prop_assert_eq!(&got, text);
        }
        harness.assert_in_order(reader);
    }
}
