//! Restarts at every step of a scripted session, with a fake clock: the result is the same as without a restart.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

use std::collections::BTreeMap;

use aaep_proto::confirm::{CallDigest, Confirmation, ConfirmationOutcome, PermitError, Resolution};
use aaep_proto::engine::{
    AskedQuestion, Cx, Engine, EngineConfig, EngineEffect, EngineError, FoundQuestion, InvokeError, JournalAck,
    JournalEntry, Orphan, PendingPermit, QuestionStatus, RecoveredResolution, RecoveredState, ResolvedQuestion,
    ResumePolicy, SessionOptions, SessionSnapshot, SubscriptionKey, SubscriptionRecord,
};
use aaep_proto::id::{Entropy, ReplyToken, SessionId, SubscriptionId, ToolCallId};
use aaep_proto::message::{
    ConfirmationReply, Decision, Event, Message, Payload, Producer, SubscriptionRequest, ToolInvoked,
};
use aaep_proto::time::{Moment, Now, Timestamp};
use serde_json::json;

struct Counter(u64);

impl Entropy for Counter {
    fn fill(&mut self, bytes: &mut [u8]) {
        for b in bytes {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *b = (self.0 >> 56) as u8;
        }
    }
}

/// The state that a store keeps.
#[derive(Default)]
struct Keeper {
    sessions: BTreeMap<SessionId, SessionSnapshot>,
    asked: BTreeMap<ReplyToken, AskedQuestion>,
    decided: BTreeMap<ReplyToken, ResolvedQuestion>,
    used: Vec<ReplyToken>,
    subscribers: BTreeMap<SubscriptionId, SubscriptionRecord>,
    events: Vec<Event>,
}

impl Keeper {
    fn keep(&mut self, entry: JournalEntry) {
        match entry {
            JournalEntry::Event(event) => {
                let id = event.envelope.session_id.clone();
                if event.core_type().is_some_and(|c| c.is_terminal()) {
                    self.sessions.remove(&id);
                } else if let Some(state) = SessionSnapshot::begin(&event) {
                    self.sessions.insert(id, state);
                } else if let Some(state) = self.sessions.get_mut(&id) {
                    state.observe(&event);
                }
                self.events.push(*event);
            }
            JournalEntry::Named(id, origin) => {
                if let Some(state) = self.sessions.get_mut(&id) {
                    state.origin = Some(origin);
                }
            }
            JournalEntry::Asked(asked) => {
                if let Some(state) = self.sessions.get_mut(&asked.event.envelope.session_id) {
                    state.ask(&asked);
                }
                self.asked.insert(asked.token.clone(), *asked);
            }
            JournalEntry::Decided(decided) => drop(self.decided.insert(decided.record.reply_token.clone(), *decided)),
            JournalEntry::Spent(token, call) => {
                self.keep(JournalEntry::Event(call));
                self.used.push(token);
            }
            JournalEntry::Subscribed(subscriber) => drop(self.subscribers.insert(subscriber.id.clone(), *subscriber)),
            JournalEntry::Unsubscribed(id) => drop(self.subscribers.remove(&id)),
            _ => {}
        }
    }

    /// Returns the state as a store does: written as JSON and read again.
    fn restored(&self) -> RecoveredState {
        fn again<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
            serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
        }
        let open = self.asked.values().filter(|asked| !self.decided.contains_key(&asked.token));
        let resolved = self.decided.iter().filter_map(|(token, decided)| {
            let asked = again(self.asked.get(token)?);
            Some(RecoveredResolution { asked, resolved: again(decided), permit_used: self.used.contains(token) })
        });
        RecoveredState {
            sessions: self.sessions.values().map(again).collect(),
            broken: Vec::new(),
            questions: open.map(again).collect(),
            resolved: resolved.collect(),
            spent: self.decided.keys().cloned().collect(),
            subscriptions: self.subscribers.values().map(again).collect(),
        }
    }
}

struct World {
    engine: Engine,
    entropy: Counter,
    /// Fake time since the start, and the part of it before the start of this process.
    millis: u64,
    born: u64,
    keeper: Keeper,
    keeps: bool,
    decided: Vec<(ReplyToken, ConfirmationOutcome)>,
    invoked: Vec<Result<ToolCallId, InvokeError>>,
    heard: Vec<Event>,
}

fn config() -> EngineConfig {
    let mut config = EngineConfig::new(Producer::new("tester"));
    config.journal = true;
    config
}

impl World {
    fn new() -> World {
        World {
            engine: Engine::new(config()),
            entropy: Counter(3),
            millis: 0,
            born: 0,
            keeper: Keeper::default(),
            keeps: true,
            decided: Vec::new(),
            invoked: Vec::new(),
            heard: Vec::new(),
        }
    }

    fn act<T>(&mut self, input: impl FnOnce(&mut Engine, &mut Cx<'_>) -> T) -> T {
        let wall = Timestamp::from_millis(1_780_000_000_000 + self.millis as i64);
        let now = Now { moment: Moment::from_millis(self.millis - self.born), wall };
        let result = input(&mut self.engine, &mut Cx { now, entropy: &mut self.entropy });
        loop {
            match self.engine.poll_effect() {
                EngineEffect::Journal(entry) => {
                    let what = JournalAck::of(&entry);
                    if self.keeps {
                        self.keeper.keep(*entry);
                    }
                    if let Some(what) = what {
                        let keeps = self.keeps;
                        self.engine.handle_journal_ack(&mut Cx { now, entropy: &mut self.entropy }, &what, keeps);
                    }
                }
                EngineEffect::Decided(token, outcome) => self.decided.push((token, outcome)),
                EngineEffect::Invoked(_, result) => self.invoked.push(result),
                EngineEffect::Event(_, frame) => self.heard.push(frame.event().clone()),
                EngineEffect::Idle(_) => return result,
                _ => {}
            }
        }
    }

    fn wait(&mut self, millis: u64) {
        self.millis += millis;
        self.act(|engine, cx| engine.handle_timeout(cx));
    }

    /// Kills the process and starts another.
    fn restart(&mut self) {
        self.engine = Engine::new(config());
        self.born = self.millis;
        let restored = self.keeper.restored();
        self.act(|engine, cx| engine.restore(cx, restored));
    }

    fn back(&mut self, id: &SubscriptionId) -> SubscriptionKey {
        let key = self.engine.find_subscription(id, "user").expect("it was kept");
        self.act(|engine, cx| engine.reconnect(cx, key)).unwrap();
        key
    }

    fn reply(&mut self, id: &SubscriptionId, token: &ReplyToken, decision: Decision) {
        let key = self.back(id);
        let reply = ConfirmationReply {
            reply_token: token.clone(),
            decision,
            subscription_id: id.clone(),
            timestamp: Timestamp::from_millis(1_780_000_000_000 + self.millis as i64),
            decided_by: None,
            decision_rationale: None,
            modified_action: None,
            correlation_id: None,
        };
        self.act(|engine, cx| engine.handle_message(cx, key, &reply.into())).unwrap();
    }
}

fn request() -> SubscriptionRequest {
    let text = r#"{"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "reader",
        "capabilities": {"supports_confirmation_reply": true}}"#;
    match serde_json::from_str(text).unwrap() {
        Message::SubscriptionRequest(request) => *request,
        other => panic!("{other:?}"),
    }
}

fn ask() -> Confirmation {
    Confirmation::new("Delete it.", "It is gone.")
        .for_call("delete", &json!({"id": 1}))
        .irreversible()
        .timeout_seconds(50)
        .origin("agent/evt_1")
}

/// The outcome of the question that [`ask`] asks.
fn decided(engine: &Engine) -> ConfirmationOutcome {
    match engine.find_question("agent/evt_1").map(|found| found.status) {
        Some(QuestionStatus::Decided(outcome)) => outcome,
        other => panic!("{other:?}"),
    }
}

/// Runs the script with restarts before these steps. Returns the result.
fn script(restarts: &[usize]) -> (Resolution, usize, Vec<String>) {
    let mut world = World::new();
    let key = world.act(|e, cx| e.subscribe(cx, &request(), "user", ResumePolicy::Resumable)).unwrap();
    let reader = world.engine.subscription_id(key).unwrap().clone();
    let mut session = None;
    let mut token = None;
    let mut ran = 0;
    for step in 0..6 {
        if restarts.contains(&step) {
            world.restart();
            world.back(&reader);
            session.iter().for_each(|id| assert!(world.engine.adopt_session(id).is_some(), "before step {step}"));
        }
        world.wait(1000);
        match (step, &session, &token) {
            (0, ..) => session = Some(world.act(|e, cx| e.start_session(cx, SessionOptions::new("Working."))).unwrap()),
            (1, Some(id), _) => drop(world.act(|e, cx| e.set_state(cx, id, "deciding", Some("Hm."))).unwrap()),
            (2, Some(id), _) => token = Some(world.act(|e, cx| e.ask(cx, id, ask())).unwrap()),
            (3, _, Some(token)) => world.reply(&reader, token, Decision::Accept),
            (4, Some(id), _) => {
                // A repeated question gets the recorded decision.
                let found = world.engine.find_question("agent/evt_1");
                let Some(FoundQuestion { session: of, status: QuestionStatus::Decided(outcome) }) = found else {
                    panic!()
                };
                assert_eq!(of, *id);
                let tool =
                    ToolInvoked { tool: "delete".into(), summary_normal: "Deleting.".into(), ..Default::default() };
                let permit = outcome.permit.expect("it was accepted");
                let call = world.act(|e, cx| e.invoke_irreversible(cx, id, tool, &json!({"id": 1}), permit)).unwrap();
                ran += 1;
                let done = serde_json::from_value::<Event>(completed(&call)).unwrap();
                let Payload::ToolCompleted(done) = done.payload else { panic!() };
                world.act(|e, cx| e.complete_tool(cx, id, done)).unwrap();
            }
            (5, Some(id), _) => {
                let again = decided(&world.engine);
                assert!(again.permit.is_none(), "a permit that was used is not given again");
                world.act(|e, cx| e.complete_session(cx, id, "Done.")).unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(world.decided.len(), 1, "restarts before {restarts:?}");
    let types = world.keeper.events.iter().map(|e| e.core_type().map_or("", |c| c.as_str()).to_owned()).collect();
    (world.decided[0].1.resolution, ran, types)
}

fn completed(call: &aaep_proto::id::ToolCallId) -> serde_json::Value {
    json!({"@context": "https://aaep-protocol.org/context/v1", "type": "aaep:agent.tool.completed", "event_id": "evt_1",
        "session_id": "sess_1", "timestamp": "2026-05-24T14:22:13Z", "producer": {"agent_id": "a"},
        "tool": "delete", "tool_call_id": call, "status": "success"})
}

#[test]
fn a_restart_before_any_step_changes_nothing() {
    let without = script(&[]);
    assert_eq!((without.0, without.1), (Resolution::Accepted, 1));
    for step in 0..6 {
        assert_eq!(script(&[step]), without, "a restart before step {step}");
    }
    assert_eq!(script(&[1, 2, 3, 4, 5]), without, "a restart before every step");
}

fn asked(world: &mut World) -> (SubscriptionId, SessionId, ReplyToken) {
    let key = world.act(|e, cx| e.subscribe(cx, &request(), "user", ResumePolicy::Resumable)).unwrap();
    let reader = world.engine.subscription_id(key).unwrap().clone();
    let session = world.act(|e, cx| e.start_session(cx, SessionOptions::new("Working."))).unwrap();
    let token = world.act(|e, cx| e.ask(cx, &session, ask())).unwrap();
    (reader, session, token)
}

#[test]
fn a_question_has_the_time_that_is_left_and_not_more() {
    let mut world = World::new();
    let (reader, _, token) = asked(&mut world);
    world.wait(20_000);
    // The machine was down for ten seconds.
    world.millis += 10_000;
    world.restart();
    world.heard.clear();
    world.back(&reader);
    let again = world.heard.iter().find_map(|event| match &event.payload {
        Payload::AwaitingConfirmation(asked) => Some((asked.reply_token.clone(), asked.timeout_seconds)),
        _ => None,
    });
    assert_eq!(again, Some((token.clone(), 20)), "it is put again with the time that is left");
    world.wait(19_000);
    assert!(world.decided.is_empty());
    world.wait(1_000);
    assert_eq!(world.decided[0].1.resolution, Resolution::TimedOut);
    assert_eq!(world.decided[0].1.decision, Decision::Reject);
}

#[test]
fn a_question_whose_time_ran_out_meanwhile_ends_as_timed_out() {
    let mut world = World::new();
    let (_, session, token) = asked(&mut world);
    world.millis += 60_000;
    world.restart();
    let (decided, outcome) = &world.decided[0];
    assert_eq!((decided, outcome.resolution), (&token, Resolution::TimedOut));
    assert!(outcome.permit.is_none());
    assert!(world.engine.has_session(&session));
    assert_eq!(world.engine.open_questions(), 0);
}

#[test]
fn a_session_whose_agent_does_not_come_back_ends_and_says_so() {
    let mut world = World::new();
    let session = world.act(|e, cx| e.start_session(cx, SessionOptions::new("Working."))).unwrap();
    world.restart();
    world.wait(119_000);
    assert!(world.engine.has_session(&session));
    world.wait(1_000);
    assert!(!world.engine.has_session(&session));
    let last = world.keeper.events.last().unwrap();
    assert!(matches!(&last.payload, Payload::SessionErrored(e) if e.summary_normal.contains("did not come back")));
}

/// A restarted agent gets its unfinished work, and a permit that was returned twice can be used once.
#[test]
fn an_agent_goes_on_with_what_it_left_undone() {
    let mut world = World::new();
    let key = world.act(|e, cx| e.subscribe(cx, &request(), "user", ResumePolicy::Resumable)).unwrap();
    let reader = world.engine.subscription_id(key).unwrap().clone();
    let options = SessionOptions::new("Working.").origin("agent/one");
    let session = world.act(|e, cx| e.start_session(cx, options)).unwrap();
    let look = ToolInvoked { tool: "look".into(), summary_normal: "Looking.".into(), ..Default::default() };
    let call = world.act(|e, cx| e.invoke_tool(cx, &session, look)).unwrap();
    let token = world.act(|e, cx| e.ask(cx, &session, ask())).unwrap();
    world.reply(&reader, &token, Decision::Accept);
    for _ in 0..2 {
        world.restart();
        let orphans: Vec<_> = world.engine.orphans().collect();
        assert_eq!(orphans, [Orphan { session: session.clone(), origin: Some("agent/one".to_owned()) }]);
    }
    let left = world.engine.adopt_session(&session).expect("it goes on");
    assert_eq!(left.calls.into_iter().collect::<Vec<_>>(), [(call, "look".to_owned())]);
    assert_eq!(left.guarded.into_iter().collect::<Vec<_>>(), ["delete"]);
    let [PendingPermit { tool, call, permit }] = <[_; 1]>::try_from(left.permits).unwrap();
    assert_eq!((tool.as_str(), call), ("delete", CallDigest::of("delete", &json!({"id": 1}))));
    let other = decided(&world.engine).permit.expect("it can be found by its question too");
    let delete = ToolInvoked { tool: "delete".into(), summary_normal: "Deleting.".into(), ..Default::default() };
    let used = world.act(|e, cx| e.invoke_irreversible(cx, &session, delete.clone(), &json!({"id": 1}), permit));
    used.unwrap();
    let again = world.act(|e, cx| e.invoke_irreversible(cx, &session, delete, &json!({"id": 1}), other));
    assert!(matches!(again, Err(EngineError::WrongPermit(_))), "{again:?}");
    world.restart();
    assert!(world.engine.adopt_session(&session).unwrap().permits.is_empty());
    // Adopting a session a second time returns nothing.
    assert_eq!(world.engine.orphans().count(), 0);
    assert!(world.engine.adopt_session(&session).unwrap().guarded.is_empty());
}

#[test]
fn what_cannot_be_kept_is_not_done() {
    let mut world = World::new();
    let (reader, session, token) = asked(&mut world);
    world.keeps = false;
    world.reply(&reader, &token, Decision::Accept);
    let (_, outcome) = &world.decided[0];
    assert_eq!((outcome.resolution, &outcome.decision), (Resolution::NotRecorded, &Decision::Reject));
    assert!(outcome.permit.is_none());
    world.heard.clear();
    world.act(|e, cx| e.ask(cx, &session, ask())).unwrap();
    assert_eq!(world.decided[1].1.resolution, Resolution::NotRecorded);
    let put = world.heard.iter().any(|event| matches!(event.payload, Payload::AwaitingConfirmation(_)));
    assert!(!put, "what cannot be put on record is not put to the user");
}

fn delete() -> ToolInvoked {
    ToolInvoked { tool: "delete".into(), summary_normal: "Deleting.".into(), ..Default::default() }
}

/// The disk is full between the acceptance and the call: the call is not emitted, and the session can continue.
#[test]
fn call_that_cannot_be_recorded_is_not_emitted() {
    let mut world = World::new();
    let (reader, session, token) = asked(&mut world);
    world.reply(&reader, &token, Decision::Accept);
    let permit = world.decided[0].1.permit.take().expect("it was accepted");
    world.heard.clear();
    world.keeps = false;
    world.act(|e, cx| e.invoke_irreversible(cx, &session, delete(), &json!({"id": 1}), permit)).unwrap();
    assert_eq!(world.invoked, [Err(InvokeError::NotRecorded)]);
    let invoked = |event: &Event| matches!(event.payload, Payload::ToolInvoked(_));
    assert!(!world.heard.iter().any(invoked), "{:?}", world.heard);
    world.keeps = true;
    world.act(|e, cx| e.complete_session(cx, &session, "Done.")).unwrap();
    assert!(!world.keeper.events.iter().any(invoked));
}

/// Until the journal acknowledges the record, the call is not emitted and the session does not complete.
#[test]
fn call_is_emitted_only_after_it_was_recorded() {
    let mut world = World::new();
    let (reader, session, token) = asked(&mut world);
    world.reply(&reader, &token, Decision::Accept);
    let permit = world.decided[0].1.permit.take().expect("it was accepted");
    world.heard.clear();
    let now = Now { moment: Moment::from_millis(world.millis), wall: Timestamp::from_millis(1_780_000_000_000) };
    let cx = &mut Cx { now, entropy: &mut world.entropy };
    let call = world.engine.invoke_irreversible(cx, &session, delete(), &json!({"id": 1}), permit).unwrap();
    let mut waits = None;
    let mut events = 0;
    loop {
        match world.engine.poll_effect() {
            EngineEffect::Idle(_) => break,
            EngineEffect::Journal(entry) => waits = waits.or(JournalAck::of(&entry)),
            EngineEffect::Event(_, frame) => {
                events += usize::from(matches!(frame.event().payload, Payload::ToolInvoked(_)))
            }
            EngineEffect::Invoked(..) => panic!("it is not on record"),
            _ => {}
        }
    }
    assert_eq!((events, &waits), (0, &Some(JournalAck::Spent(token))));
    assert!(world.engine.complete_session(cx, &session, "Done.").is_err());
    // The permit cannot be obtained again in the meantime.
    let again = decided(&world.engine);
    assert!(again.permit.is_none());
    world.engine.handle_journal_ack(cx, &waits.unwrap(), true);
    let effects: Vec<EngineEffect> = std::iter::from_fn(|| match world.engine.poll_effect() {
        EngineEffect::Idle(_) => None,
        other => Some(other),
    })
    .collect();
    let heard = effects.iter().position(
        |effect| matches!(effect, EngineEffect::Event(_, frame) if matches!(frame.event().payload, Payload::ToolInvoked(_))),
    );
    let told = effects.iter().position(|effect| matches!(effect, EngineEffect::Invoked(_, Ok(id)) if *id == call));
    assert!(heard.is_some() && heard < told, "{effects:?}");
}

/// An unused permit is valid for ten minutes, over restarts too, and a clock that was set back does not renew it.
#[test]
fn permits_expire_over_restarts() {
    for (restarts, seconds, usable) in
        [(false, 599, true), (false, 600, false), (true, 599, true), (true, 600, false), (true, 3_456_000, false)]
    {
        let mut world = World::new();
        let (reader, session, token) = asked(&mut world);
        world.reply(&reader, &token, Decision::Accept);
        let mut permit = world.decided[0].1.permit.take();
        if restarts {
            world.millis += seconds * 1000;
            world.restart();
            permit = world.engine.adopt_session(&session).unwrap().permits.pop().map(|pending| pending.permit);
            assert_eq!(permit.is_some(), usable, "{seconds}");
        } else {
            world.wait(seconds * 1000);
        }
        let found = decided(&world.engine);
        assert_eq!(found.permit.is_some(), usable, "{seconds}");
        let Some(permit) = permit else { continue };
        let result = world.act(|e, cx| e.invoke_irreversible(cx, &session, delete(), &json!({"id": 1}), permit));
        let expired = Err(EngineError::WrongPermit(PermitError::Expired));
        if usable { drop(result.unwrap()) } else { assert_eq!(result, expired) }
    }
}

/// Only a question that was asked as irreversible permits something after a restart.
#[test]
fn a_restart_makes_no_permit_of_a_plain_yes() {
    let mut world = World::new();
    let key = world.act(|e, cx| e.subscribe(cx, &request(), "user", ResumePolicy::Resumable)).unwrap();
    let reader = world.engine.subscription_id(key).unwrap().clone();
    let session = world.act(|e, cx| e.start_session(cx, SessionOptions::new("Working."))).unwrap();
    let plain = Confirmation::new("Delete it.", "It is gone.").for_call("delete", &json!({"id": 1}));
    let token = world.act(|e, cx| e.ask(cx, &session, plain.origin("agent/evt_1"))).unwrap();
    world.reply(&reader, &token, Decision::Accept);
    let (_, outcome) = &world.decided[0];
    assert_eq!((&outcome.decision, &outcome.permit), (&Decision::Accept, &None));
    world.restart();
    assert!(world.engine.adopt_session(&session).unwrap().permits.is_empty());
    let found = decided(&world.engine);
    assert_eq!((found.decision, found.permit), (Decision::Accept, None));
}
