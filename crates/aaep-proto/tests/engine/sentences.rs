//! A sentence is delivered as soon as its end is known, and before the events that follow it (5.6.3, decision 76).

use aaep_proto::confirm::{Clarification, Confirmation};
use aaep_proto::engine::SubscriptionKey;
use aaep_proto::id::{OutputId, SessionId};
use aaep_proto::message::{Progress, ProgressUpdated, ToolInvoked};
use serde_json::json;

use crate::harness::EngineHarness;

struct Scene {
    harness: EngineHarness,
    reader: SubscriptionKey,
    session: SessionId,
    output: OutputId,
}

impl Scene {
    fn new(boundaries: &[&str]) -> Scene {
        Scene::with("text/plain", boundaries)
    }

    fn with(content_type: &str, boundaries: &[&str]) -> Scene {
        let mut harness = EngineHarness::new();
        let reader = harness.join(json!({"coalesce_boundaries": boundaries, "supports_confirmation_reply": true,
            "supports_clarification_reply": true}));
        let session = harness.start();
        let output = harness.act(|engine, cx| engine.open_output(cx, &session, content_type, None)).unwrap();
        harness.clear();
        Scene { harness, reader, session, output }
    }

    fn write(&mut self, text: &str) {
        self.harness.act(|engine, cx| engine.write(cx, &self.session, &self.output, text)).unwrap();
    }

    fn ask(&mut self) {
        let ask = Confirmation::new("Delete the photos?", "They are gone.").irreversible();
        self.harness.act(|engine, cx| engine.ask(cx, &self.session, ask)).unwrap();
    }

    fn progress(&mut self) {
        let progress = Progress { step: Some(1), ..Progress::default() };
        let updated = ProgressUpdated { progress, ..ProgressUpdated::default() };
        self.harness.act(|engine, cx| engine.emit(cx, &self.session, updated.into())).unwrap();
    }

    fn texts(&self) -> Vec<String> {
        self.harness.texts(self.reader)
    }

    fn names(&self) -> Vec<String> {
        self.harness.names(self.reader)
    }
}

const SENTENCES: [&str; 2] = ["sentence", "completion"];

#[test]
fn question_is_sent_after_the_preceding_sentence() {
    for text in [
        "These are the only copies. ",
        "These are the only copies.",
        "These are the only copies.\n",
        "Are these the only copies?",
        "These cost 42.",
        "He said: \"These are the only copies.\"",
        "これしかありません。",
        "It is made by Acme Inc.",
        "The last word is yours...",
    ] {
        let mut scene = Scene::new(&SENTENCES);
        scene.write(text);
        scene.ask();
        let names = scene.names();
        let text_at = names.iter().position(|name| name == "output.streaming");
        let asked_at = names.iter().position(|name| name == "awaiting.confirmation");
        assert!(text_at.is_some() && text_at < asked_at, "{text:?}: {names:?}");
        assert_eq!(scene.texts(), [text]);
        scene.write(" And then it went on.");
        let (session, output) = (scene.session.clone(), scene.output.clone());
        scene.harness.act(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
        assert_eq!(scene.texts().concat(), format!("{text} And then it went on."));
    }
}

#[test]
fn other_events_of_the_session_are_sent_after_the_preceding_sentence() {
    type Act = fn(&mut Scene);
    let acts: [(&str, Act); 6] = [
        ("progress.updated", Scene::progress),
        ("state.changed", |s| {
            s.harness.act(|engine, cx| engine.set_state(cx, &s.session, "deciding", None)).unwrap();
        }),
        ("tool.invoked", |s| {
            let tool = ToolInvoked { tool: "t".into(), summary_normal: "x".into(), ..ToolInvoked::default() };
            s.harness.act(|engine, cx| engine.invoke_tool(cx, &s.session, tool)).unwrap();
        }),
        ("awaiting.clarification", |s| {
            let ask = Clarification::yes_no("Really?");
            s.harness.act(|engine, cx| engine.clarify(cx, &s.session, ask)).unwrap();
        }),
        ("output.streaming", |s| {
            let other = s.harness.act(|engine, cx| engine.open_output(cx, &s.session, "text/plain", None)).unwrap();
            s.harness.act(|engine, cx| engine.write(cx, &s.session, &other, "Another output. ")).unwrap();
        }),
        ("session.errored", |s| {
            let category = aaep_proto::message::ErrorCategory::Permanent;
            s.harness.act(|engine, cx| engine.fail_session(cx, &s.session, category, "Broken.")).unwrap();
        }),
    ];
    for (name, act) in acts {
        let mut scene = Scene::new(&SENTENCES);
        scene.write("It is done.");
        act(&mut scene);
        assert_eq!(scene.names()[0], "output.streaming", "before {name}");
        assert_eq!(scene.texts()[0], "It is done.", "before {name}");
        assert!(scene.names()[1..].iter().any(|n| n == name));
    }
}

#[test]
fn a_question_does_not_wait_for_an_unfinished_sentence() {
    for text in ["Shall I really", "I asked Dr.", "I asked Dr. ", "Open the file config"] {
        let mut scene = Scene::new(&SENTENCES);
        scene.write("First this. ");
        scene.write(text);
        scene.ask();
        assert_eq!(scene.texts(), ["First this. "], "{text:?}");
        assert!(scene.names().contains(&"awaiting.confirmation".to_owned()));
        scene.harness.pass(20_000);
        assert_eq!(scene.texts(), ["First this. "], "{text:?}");
    }
}

#[test]
fn full_stop_and_white_space_end_a_sentence_at_once() {
    for text in ["It is done. ", "Is it done? ", "終わりました。 ", "It is done.\n", "Done! \n"] {
        let mut scene = Scene::new(&SENTENCES);
        scene.write(text);
        assert_eq!(scene.texts(), [text]);
    }
}

#[test]
fn full_stop_and_a_pause_end_a_sentence() {
    for (text, millis) in [
        ("It is done.", 300),
        ("終わりました。", 300),
        ("He said: \"Stop!\" ", 300),
        ("Well... ", 300),
        ("It costs 3.", 1_000),
        ("It is made by Acme Inc. ", 1_000),
    ] {
        let mut scene = Scene::new(&SENTENCES);
        scene.write(text);
        scene.harness.pass(millis - 1);
        assert_eq!(scene.texts(), Vec::<String>::new(), "{text:?}");
        scene.harness.pass(1);
        assert_eq!(scene.texts(), [text]);
        assert_eq!(scene.harness.engine.next_deadline(), None, "no timer is left");
    }
}

#[test]
fn text_before_the_pause_elapses_continues_the_sentence() {
    let mut scene = Scene::new(&SENTENCES);
    for token in ["It costs 3", ".", "5 dollars, or approx", ".", " five"] {
        scene.write(token);
        scene.harness.pass(290);
    }
    assert_eq!(scene.texts(), Vec::<String>::new());
    scene.write(". ");
    assert_eq!(scene.texts(), ["It costs 3.5 dollars, or approx. five. "]);
}

#[test]
fn a_new_sentence_after_a_pause_is_cut_as_usual() {
    let mut scene = Scene::new(&SENTENCES);
    scene.write("It is done.");
    scene.harness.pass(300);
    scene.write(" Nothing else moved. You have 12 left.\n\nNext");
    assert_eq!(scene.texts(), ["It is done.", " Nothing else moved. ", "You have 12 left.\n\n"]);
}

#[test]
fn words_and_paragraphs_are_complete_at_white_space_and_blank_lines() {
    let mut words = Scene::new(&["word"]);
    words.write("Hello there ");
    words.progress();
    assert_eq!(words.texts().concat(), "Hello there ");
    words.write("wor");
    words.progress();
    assert_eq!(words.texts().concat(), "Hello there ");

    let mut paragraphs = Scene::new(&["paragraph", "completion"]);
    paragraphs.write("One is here. Two is there. ");
    paragraphs.progress();
    assert_eq!(paragraphs.texts(), Vec::<String>::new());
    paragraphs.write("\n\n");
    assert_eq!(paragraphs.texts(), ["One is here. Two is there. \n\n"]);
    assert_eq!(paragraphs.harness.chunks(paragraphs.reader)[0].2, "paragraph");
}

#[test]
fn headings_items_and_code_are_complete_at_their_ends() {
    for (text, expected) in [
        ("# The plan\n", "# The plan\n"),
        ("- first\n- second\n", "- first\n- second\n"),
        ("```\nlet x = 1;\n```\n", "```\nlet x = 1;\n```\n"),
        ("A hard wrapped\n", ""),
    ] {
        let mut scene = Scene::with("text/markdown", &SENTENCES);
        scene.write(text);
        scene.progress();
        assert_eq!(scene.texts().concat(), expected);
    }
}

#[test]
fn uncoalesced_text_is_complete_before_a_question() {
    let mut scene = Scene::new(&["none"]);
    for token in ["These are", " the only", " copies", "."] {
        scene.write(token);
    }
    scene.ask();
    assert_eq!(scene.texts().concat(), "These are the only copies.");
}

#[test]
fn a_combining_mark_after_a_pause_leaves_the_text_composed() {
    let mut scene = Scene::new(&["none"]);
    scene.write("caf\u{65}");
    scene.progress();
    scene.harness.pass(2_000);
    scene.write("\u{301} ouvert. \u{301}");
    scene.progress();
    let (session, output) = (scene.session.clone(), scene.output.clone());
    scene.harness.act(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
    assert_eq!(scene.texts().concat(), "café ouvert. \u{301}");
}

#[test]
fn finished_output_leaves_no_timer() {
    let mut scene = Scene::new(&SENTENCES);
    scene.write("It is done.");
    assert!(scene.harness.engine.next_deadline().is_some());
    let (session, output) = (scene.session.clone(), scene.output.clone());
    scene.harness.act(|engine, cx| engine.finish_output(cx, &session, &output)).unwrap();
    assert_eq!(scene.harness.engine.next_deadline(), None);
}

#[test]
fn long_text_in_one_write_is_cut_by_look_ahead_alone() {
    let sentence = "Dr. Who paid approx. five dollars to J. Smith at 3.50. ";
    let mut scene = Scene::new(&SENTENCES);
    scene.write(&sentence.repeat(500));
    assert_eq!(scene.texts().len(), 500);
}

#[test]
fn the_last_text_arrives_with_the_end_of_its_output() {
    for text in ["One sentence.\n", "A part of a sentence", "First. Second. "] {
        let mut scene = Scene::new(&SENTENCES);
        scene.harness.act(|engine, cx| engine.finish_output_with(cx, &scene.session, &scene.output, text)).unwrap();
        let texts = scene.texts();
        assert_eq!(texts.concat(), text);
        assert!(texts.iter().all(|chunk| !chunk.is_empty()), "no empty chunk follows {text:?}: {texts:?}");
    }
}
