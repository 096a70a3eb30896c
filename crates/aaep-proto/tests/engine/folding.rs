//! What waits for a slow subscription folds, whatever stands between (5.6.1, decision 75).

use std::collections::BTreeMap;

use aaep_proto::SequenceChecker;
use aaep_proto::engine::SubscriptionKey;
use aaep_proto::id::{OutputId, SessionId};
use aaep_proto::limits;
use aaep_proto::message::{CoreType, Event, Message, Payload, Progress, ProgressUpdated, ToolInvoked};
use aaep_proto::record::Decimal;
use proptest::prelude::*;
use serde_json::json;

use crate::harness::{Received, World};

impl World {
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
fn an_interleaved_stream_folds_and_its_end_arrives_soon() {
    let mut world = World::new();
    let reader = world.join(json!({"max_events_per_second": 3, "coalesce_boundaries": ["sentence", "completion"]}));
    let session = world.start();
    let output = world.output(&session);
    let mut written = String::new();
    for n in 0..60 {
        world.state(&session, if n % 2 == 0 { "deciding" } else { "thinking" });
        world.percent(&session, f64::from(n));
        let sentence = format!("This is sentence {n}. ");
        world.text(&session, &output, &sentence);
        written.push_str(&sentence);
        world.pass(50);
    }
    world.act(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
    world.act(|engine, cx| engine.complete_session(cx, &session, "Done.")).unwrap();
    let ended = world.millis;
    world.pass(60_000);
    let (arrived, last) = world.arrivals(reader).pop().unwrap();
    assert_eq!(last.core_type(), Some(CoreType::SessionCompleted));
    assert!(arrived <= ended + 5_000, "the end arrived after {} ms", arrived - ended);
    assert_eq!(world.texts(reader).concat(), written);
    assert!(world.chunks(reader).iter().all(|c| c.2 == "sentence" || c.2 == "completion"));
    let percent = world.arrivals(reader).into_iter().rev().find_map(|(_, e)| match e.payload {
        Payload::ProgressUpdated(p) => p.progress.percent,
        _ => None,
    });
    assert_eq!(percent, Some(Decimal(59.0)));
    world.assert_in_order(reader);
}

/// An agent that never pauses must not keep any kind of event waiting for ever.
#[test]
fn every_kind_arrives_steadily_while_all_of_them_keep_coming() {
    let mut world = World::new();
    let reader = world.join(json!({"max_events_per_second": 3}));
    let session = world.start();
    let output = world.output(&session);
    for n in 0..400 {
        world.state(&session, ["deciding", "thinking", "reading"][n % 3]);
        world.percent(&session, (n % 100) as f64);
        world.text(&session, &output, &format!("This is sentence {n}. "));
        world.pass(50);
    }
    for core in [CoreType::OutputStreaming, CoreType::ProgressUpdated, CoreType::StateChanged] {
        let mut last = 0;
        for (at, _) in world.arrivals(reader).iter().filter(|(_, e)| e.core_type() == Some(core)) {
            assert!(at - last <= 2_500, "{core:?} waited from {last} to {at}");
            last = *at;
        }
        assert!(world.millis - last <= 2_500, "{core:?} stopped at {last}");
    }
    world.assert_in_order(reader);
}

/// Text may move behind a tool call with its newest part, but tool calls keep their order and text keeps its.
#[test]
fn tools_keep_their_order_and_text_stands_where_its_newest_part_stood() {
    let mut world = World::new();
    let reader =
        world.join(json!({"max_events_per_second": 1, "event_filters": {"exclude": ["aaep:agent.state.changed"]}}));
    let session = world.start();
    let output = world.output(&session);
    let call = |world: &mut World, name: &str| {
        let tool = ToolInvoked { tool: name.into(), summary_normal: "Looking.".into(), ..ToolInvoked::default() };
        world.act(|engine, cx| engine.invoke_tool(cx, &session, tool)).unwrap();
    };
    world.text(&session, &output, "I look. ");
    call(&mut world, "first");
    world.text(&session, &output, "I found it. ");
    call(&mut world, "second");
    world.pass(10_000);
    let told: Vec<String> = world
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
fn state_changes_that_lead_back_and_say_nothing_are_not_told() {
    let mut world = World::new();
    let reader = world.join(json!({"max_events_per_second": 1}));
    let session = world.start();
    world.pass(5_000);
    world.percent(&session, 1.0);
    world.clear();
    world.state(&session, "deciding");
    world.state(&session, "thinking");
    world.pass(5_000);
    assert_eq!(world.states(reader), Vec::<String>::new());
    world.state(&session, "deciding");
    world.percent(&session, 2.0);
    world.pass(5_000);
    assert_eq!(world.states(reader), ["thinking>deciding"]);
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
        let mut world = World::new();
        let reader = world.join(json!({"coalesce_boundaries": set, "cognitive_load": load}));
        let session = world.start();
        let output = world.output(&session);
        world.text(&session, &output, &"abcdefghij".repeat(5_000));
        let hints: Vec<String> = world.chunks(reader).into_iter().map(|c| c.2).collect();
        assert!(hints.len() > 2 && hints.iter().all(|hint| hint == expected), "{set} {load}: {hints:?}");
    }
}

/// Two subscriptions with the same terms share folded chunks, but not one that ends the output with one that does not.
#[test]
fn a_folded_chunk_that_ends_the_output_is_not_shared_with_one_that_does_not() {
    let mut world = World::new();
    let fast = world.join(json!({}));
    let slow = world.join(json!({}));
    let session = world.start();
    let output = world.output(&session);
    for key in [fast, slow] {
        world.act(|engine, cx| engine.set_blocked(cx, key, true));
    }
    world.text(&session, &output, "One is here. ");
    world.text(&session, &output, "Two is there. ");
    world.act(|engine, cx| engine.set_blocked(cx, fast, false));
    world.act(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
    world.act(|engine, cx| engine.set_blocked(cx, slow, false));
    assert_eq!(world.chunks(fast).iter().map(|c| c.3).collect::<Vec<_>>(), [false, true]);
    assert_eq!(world.chunks(slow).iter().map(|c| c.3).collect::<Vec<_>>(), [true]);
    assert_eq!(world.texts(slow).concat(), world.texts(fast).concat());
}

/// What happens in a random mixture.
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

    /// The backlog is bounded by what cannot be folded: session ends, tool calls, one state change and one progress for
    /// each session, and each output's text in chunks of the greatest size.
    #[test]
    fn the_backlog_of_any_mixture_is_bounded(
        rate in 1u32..8,
        boundaries in proptest::sample::select(vec![json!(["none"]), json!(["word"]), json!(["sentence", "completion"]), json!(["completion"])]),
        steps in proptest::collection::vec(step(), 1..250),
    ) {
        let mut world = World::new();
        let reader = world.join(json!({"max_events_per_second": rate, "coalesce_boundaries": boundaries}));
        let mut sessions: Vec<(SessionId, Vec<OutputId>)> = vec![(world.start(), Vec::new())];
        let mut texts: BTreeMap<OutputId, String> = BTreeMap::new();
        let (mut unfoldable, mut calls) = (1usize, Vec::new());
        for (n, step) in steps.iter().enumerate() {
            let pick = |k: &u8| usize::from(*k) % sessions.len();
            match step {
                Step::Start if sessions.len() < 4 => {
                    sessions.push((world.start(), Vec::new()));
                    unfoldable += 1;
                }
                Step::Start => {}
                Step::State(k) => {
                    let session = sessions[pick(k)].0.clone();
                    world.state(&session, ["deciding", "thinking", "reading"][n % 3]);
                }
                Step::Progress(k) => {
                    let session = sessions[pick(k)].0.clone();
                    world.percent(&session, (n % 100) as f64);
                }
                Step::Open(k) => {
                    let at = pick(k);
                    if sessions[at].1.len() < 3 {
                        let output = world.output(&sessions[at].0.clone());
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
                        world.text(&session, &output, &text);
                    }
                }
                Step::Tool(k) => {
                    let session = sessions[pick(k)].0.clone();
                    let tool = ToolInvoked { tool: "t".into(), summary_normal: "x".into(), ..ToolInvoked::default() };
                    calls.push(world.act(|engine, cx| engine.invoke_tool(cx, &session, tool)).unwrap());
                    unfoldable += 1;
                }
                Step::Pass(millis) => world.pass(u64::from(*millis)),
            }
            let most = unfoldable + 2 * sessions.len() + texts.len();
            prop_assert!(world.engine.waiting(reader) <= most, "{} wait", world.engine.waiting(reader));
        }
        for (session, outputs) in &sessions {
            for output in outputs {
                world.act(|engine, cx| engine.finish_output(cx, session, output)).unwrap();
            }
            // Cancelled, since tools are open; it is not critical and queues like everything else.
            world.act(|engine, cx| engine.cancel_session(cx, session, "user".into(), "Stopped.")).unwrap();
        }
        let chunks: usize = texts.values().map(|text| text.chars().count() / (limits::CHUNK_CHARS / 2) + 1).sum();
        // Abandoned tool calls are completed by the engine.
        let events = unfoldable + calls.len() + 3 * sessions.len() + chunks;
        let most_millis = 1_000 * events as u64 / u64::from(rate) + 1_000;
        world.pass(most_millis);
        prop_assert_eq!(world.engine.waiting(reader), 0, "after {} ms", most_millis);
        for (output, text) in &texts {
            let got: String = world.arrivals(reader).into_iter().filter_map(|(_, e)| match e.payload {
                Payload::OutputStreaming(chunk) if chunk.output_id.as_ref() == Some(output) => Some(chunk.chunk),
                _ => None,
            }).collect();
            prop_assert_eq!(&got, text);
        }
        world.assert_in_order(reader);
    }
}
