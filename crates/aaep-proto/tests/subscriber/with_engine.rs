//! The subscriber connected to an engine.

use aaep_proto::confirm::{Clarification, Confirmation, Resolution};
use aaep_proto::engine::{self, Engine, ResumePolicy, SessionOptions, SubscriptionKey};
use aaep_proto::id::SessionId;
use aaep_proto::message::{CancelledBy, Decision, Message, Producer, Response};
use aaep_proto::subscriber::{Cx, Prompt, PromptAnswer, PromptEnd, SubscriberEffect};
use aaep_proto::time::Moment;
use serde_json::{Value, json};

use crate::harness::*;

struct Pair {
    world: SubscriberHarness,
    engine: Engine,
    entropy: Seeded,
    key: Option<SubscriptionKey>,
    decided: Vec<(Decision, Resolution)>,
    answered: Vec<Option<Response>>,
}

impl Pair {
    fn new(wish: Value) -> Pair {
        let engine = Engine::new(engine::EngineConfig::new(Producer::new("tester")));
        let world = SubscriberHarness::new(config(wish));
        let mut pair =
            Pair { world, engine, entropy: Seeded(11), key: None, decided: Vec::new(), answered: Vec::new() };
        pair.world.act(|s, cx| s.start(cx));
        pair.world.act(|s, cx| s.connected(cx, false));
        pair.carry();
        pair
    }

    fn produce<T>(&mut self, input: impl FnOnce(&mut Engine, &mut Cx<'_>) -> T) -> T {
        let now = self.world.now();
        let result = input(&mut self.engine, &mut Cx { now, entropy: &mut self.entropy });
        self.carry();
        result
    }

    /// Carries messages both ways until there are none.
    fn carry(&mut self) {
        loop {
            let mut quiet = true;
            let (sent, rest) = self
                .world
                .take()
                .into_iter()
                .partition::<Vec<_>, _>(|effect| matches!(effect, SubscriberEffect::Send(_)));
            self.world.out = rest;
            for effect in sent {
                let SubscriberEffect::Send(message) = effect else { continue };
                quiet = false;
                let now = self.world.now();
                let cx = &mut Cx { now, entropy: &mut self.entropy };
                match (&*message, self.key) {
                    (Message::SubscriptionRequest(request), _) => {
                        self.key = Some(self.engine.subscribe(cx, request, "user", ResumePolicy::Connection).unwrap());
                    }
                    (message, Some(key)) => self.engine.handle_message(cx, key, message).unwrap(),
                    _ => {}
                }
            }
            loop {
                match self.engine.poll_effect() {
                    engine::EngineEffect::Event(_, frame) => {
                        self.world.act(|s, cx| s.handle_bytes(cx, frame.json()));
                    }
                    engine::EngineEffect::Message(_, message) => {
                        self.world.act(|s, cx| s.handle_message(cx, *message));
                    }
                    engine::EngineEffect::Decided(_, outcome) => {
                        self.decided.push((outcome.decision, outcome.resolution))
                    }
                    engine::EngineEffect::Answered(_, answer) => self.answered.push(answer.response),
                    engine::EngineEffect::Idle(_) => break,
                    _ => {}
                }
                quiet = false;
            }
            if quiet {
                return;
            }
        }
    }

    fn session(&mut self) -> SessionId {
        self.produce(|e, cx| e.start_session(cx, SessionOptions::new("Working."))).unwrap()
    }
}

#[test]
fn subscriber_and_engine_agree_on_questions() {
    let mut pair = Pair::new(replying());
    assert!(pair.world.subscriber.is_live());
    let session = pair.session();
    let ask = |action: &str| Confirmation::new(action, "It is gone.").for_call("mail", &json!({"x": action}));
    let first = pair.produce(|e, cx| e.ask(cx, &session, ask("Delete one."))).unwrap();
    let second = pair.produce(|e, cx| e.ask(cx, &session, ask("Delete two."))).unwrap();
    let third = pair.produce(|e, cx| e.clarify(cx, &session, Clarification::yes_no("Sure?"))).unwrap();
    let prompts = pair.world.prompts();
    let tokens: Vec<_> = prompts.iter().filter_map(Prompt::token).collect();
    assert_eq!(tokens, [&first, &second, &third]);
    // One is answered: the others stay open, although the state changes.
    pair.world.act(|s, cx| s.reply(cx, prompts[0].id, PromptAnswer::accept())).unwrap();
    pair.carry();
    assert_eq!(pair.decided, [(Decision::Accept, Resolution::Accepted)]);
    assert_eq!(pair.world.ended_prompts(), [(prompts[0].id, PromptEnd::AnsweredHere)]);
    pair.produce(|e, cx| e.withdraw(cx, &second, true)).unwrap();
    assert_eq!(pair.world.ended_prompts()[1..], [(prompts[1].id, PromptEnd::Replaced)]);
    let yes = PromptAnswer::response(Response::Boolean(true));
    pair.world.act(|s, cx| s.reply(cx, prompts[2].id, yes)).unwrap();
    pair.carry();
    assert_eq!(pair.answered, [Some(Response::Boolean(true))]);
    assert_eq!(pair.world.subscriber.open_prompts(), 0);
    pair.produce(|e, cx| e.complete_session(cx, &session, "Done.")).unwrap();
    let notices = pair.world.notices();
    assert!(notices.is_empty(), "{notices:?}: {:?}", pair.world.out);
}

#[test]
fn withdrawn_question_and_question_of_an_ended_session_end() {
    let mut pair = Pair::new(replying());
    let session = pair.session();
    let token = pair.produce(|e, cx| e.ask(cx, &session, Confirmation::new("Send it.", "It is out."))).unwrap();
    pair.produce(|e, cx| e.withdraw(cx, &token, false)).unwrap();
    pair.produce(|e, cx| e.ask(cx, &session, Confirmation::new("Print it.", "It is on paper."))).unwrap();
    pair.produce(|e, cx| e.cancel_session(cx, &session, CancelledBy::User, "Stopped.")).unwrap();
    let ends: Vec<PromptEnd> = pair.world.ended_prompts().into_iter().map(|(_, end)| end).collect();
    assert_eq!(ends, [PromptEnd::Cancelled, PromptEnd::SessionEnded]);
}

#[test]
fn extended_timeout_is_counted() {
    let mut wish = replying();
    wish["more_time"] = json!({"factor": 5});
    wish["supported_extensions"] = json!(["urn:aaep:extension:more-time:1"]);
    let mut pair = Pair::new(wish);
    let session = pair.session();
    let ask = Confirmation::new("Send it.", "It is out.").timeout_seconds(60);
    pair.produce(|e, cx| e.ask(cx, &session, ask)).unwrap();
    let prompt = pair.world.prompts().pop().unwrap();
    assert_eq!(prompt.deadline, Moment::from_millis(300_000));
}
