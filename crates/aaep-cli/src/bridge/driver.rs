//! Carries out the effects of a bridge: lines to the peers, sessions, questions and tool calls to the producer.

use std::collections::BTreeMap;

use aaep::message::{
    Decision, Localized, Payload, ProgressUpdated, SessionCancelled, SessionCompleted, SessionErrored, SessionStarted,
    ToolCompleted, ToolInvoked,
};
use aaep::{Output, Permit, Producer, Question, Resolution, Session, SessionOptions};
use aaep_bridge::{
    BridgeAnswer, BridgeEffect, BridgeQuestion, CallKey, LineBridge, QuestionKey, SessionEnd, SessionKey,
};
use aaep_proto::id::ToolCallId;
use aaep_proto::message::EventMeta;
use aaep_proto::time::Moment;
use aaep_runtime::Clock;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::lines::LineSender;
use crate::output::print_error;

/// The longest duration that an event may state.
const MAX_DURATION_MILLIS: u64 = 86_400_000;

/// What the driver learns from its own tasks.
pub(crate) enum BridgeInput {
    /// A question was resolved, with the permit that it may have given.
    Answer(QuestionKey, BridgeAnswer, Option<Permit>),
    /// The user asks a session to stop.
    CancelRequest(SessionKey),
}

/// How questions are asked if no listener can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnheardQuestions {
    /// The bridge decides at once.
    Resolve,
    /// They wait for a listener until their timeout.
    Wait,
}

/// A session of the bridge.
struct BridgeSession {
    session: Session,
    output: Option<Output>,
    cancel_watch: AbortHandle,
}

/// A tool call that was emitted.
struct EmittedCall {
    session: SessionKey,
    tool: String,
    id: ToolCallId,
}

/// The driver of a bridge.
pub(crate) struct BridgeDriver<B> {
    bridge: B,
    producer: Producer,
    clock: Clock,
    unheard: UnheardQuestions,
    meta: EventMeta,
    to_client: Option<LineSender>,
    to_server: Option<LineSender>,
    sessions: BTreeMap<SessionKey, BridgeSession>,
    calls: BTreeMap<CallKey, EmittedCall>,
    questions: BTreeMap<QuestionKey, AbortHandle>,
    permits: BTreeMap<QuestionKey, Permit>,
    inputs: mpsc::UnboundedSender<BridgeInput>,
    remember: Box<dyn FnMut(aaep_bridge::rules::ConsentRule) + Send>,
}

/// What a driver is made of.
pub(crate) struct BridgeDriverParts<B> {
    pub(crate) bridge: B,
    pub(crate) producer: Producer,
    pub(crate) unheard: UnheardQuestions,
    /// What the first event of each session carries: what the route can enforce.
    pub(crate) meta: EventMeta,
    pub(crate) to_client: LineSender,
    pub(crate) to_server: LineSender,
    /// Keeps a rule for later runs.
    pub(crate) remember: Box<dyn FnMut(aaep_bridge::rules::ConsentRule) + Send>,
}

impl<B: LineBridge> BridgeDriver<B> {
    /// Makes a driver, and the channel of its own inputs.
    pub(crate) fn new(parts: BridgeDriverParts<B>) -> (BridgeDriver<B>, mpsc::UnboundedReceiver<BridgeInput>) {
        let (inputs, received) = mpsc::unbounded_channel();
        let BridgeDriverParts { bridge, producer, unheard, meta, to_client, to_server, remember } = parts;
        let driver = BridgeDriver {
            bridge,
            producer,
            clock: Clock::new(),
            unheard,
            meta,
            to_client: Some(to_client),
            to_server: Some(to_server),
            sessions: BTreeMap::new(),
            calls: BTreeMap::new(),
            questions: BTreeMap::new(),
            permits: BTreeMap::new(),
            inputs,
            remember,
        };
        (driver, received)
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Whether lines of the client may be read.
    pub(crate) fn takes_client_lines(&self) -> bool {
        self.to_server.as_ref().is_none_or(LineSender::has_capacity)
    }

    /// Whether lines of the server may be read.
    pub(crate) fn takes_server_lines(&self) -> bool {
        self.to_client.as_ref().is_none_or(LineSender::has_capacity)
    }

    /// Closes the input of the server.
    pub(crate) fn close_server(&mut self) {
        self.to_server = None;
    }

    /// Closes the input of the client.
    pub(crate) fn close_client(&mut self) {
        self.to_client = None;
    }

    pub(crate) async fn client_line(&mut self, line: &[u8]) -> Option<Moment> {
        self.bridge.handle_client_line(self.clock.now(), line);
        self.drain().await
    }

    pub(crate) async fn server_line(&mut self, line: &[u8]) -> Option<Moment> {
        self.bridge.handle_server_line(self.clock.now(), line);
        self.drain().await
    }

    pub(crate) async fn client_closed(&mut self) -> Option<Moment> {
        self.bridge.handle_client_closed(self.clock.now());
        self.drain().await
    }

    pub(crate) async fn server_closed(&mut self) -> Option<Moment> {
        self.bridge.handle_server_closed(self.clock.now());
        self.drain().await
    }

    pub(crate) async fn timeout(&mut self) -> Option<Moment> {
        self.bridge.handle_timeout(self.clock.now());
        self.drain().await
    }

    pub(crate) async fn input(&mut self, input: BridgeInput) -> Option<Moment> {
        match input {
            BridgeInput::Answer(question, answer, permit) => {
                // A question that was withdrawn meanwhile has no effect any more.
                if self.questions.remove(&question).is_some() {
                    self.permits.extend(permit.map(|permit| (question, permit)));
                    self.bridge.handle_answer(self.clock.now(), question, answer);
                }
            }
            BridgeInput::CancelRequest(session) => self.bridge.handle_cancel_request(self.clock.now(), session),
        }
        let deadline = self.drain().await;
        // A permit that the bridge did not use at once is for nothing.
        self.permits.clear();
        deadline
    }

    /// Carries out effects until there are none. Returns the next deadline.
    async fn drain(&mut self) -> Option<Moment> {
        loop {
            match self.bridge.poll_effect() {
                BridgeEffect::Idle(deadline) => return deadline,
                effect => self.carry_out(effect).await,
            }
        }
    }

    async fn carry_out(&mut self, effect: BridgeEffect) {
        match effect {
            BridgeEffect::ToServer(line) => self.to_server.iter().for_each(|peer| peer.send(line.clone())),
            BridgeEffect::ToClient(line) => self.to_client.iter().for_each(|peer| peer.send(line.clone())),
            BridgeEffect::Warn(text) => print_error(text),
            BridgeEffect::StartSession { session, summary, request } => {
                self.start_session(session, summary, request).await;
            }
            BridgeEffect::SetState { session, to, summary } => {
                if let Some(open) = self.sessions.get(&session) {
                    report(open.session.set_state(&to, summary.as_deref()).await);
                }
            }
            BridgeEffect::Write { session, text } => self.write(session, &text).await,
            BridgeEffect::FinishOutput(session) => {
                if let Some(output) = self.sessions.get_mut(&session).and_then(|open| open.output.take()) {
                    report(output.finish().await);
                }
            }
            BridgeEffect::Ask { session, question, content } => self.ask(session, question, content).await,
            BridgeEffect::Withdraw(question) => {
                if let Some(waiting) = self.questions.remove(&question) {
                    // Dropping the question withdraws it.
                    waiting.abort();
                }
            }
            BridgeEffect::Invoke { session, call, invoked, arguments, permit_of } => {
                let permit = permit_of.map(|question| self.permits.remove(&question));
                let result = self.invoke(session, call, *invoked, (arguments, permit)).await;
                self.bridge.handle_invoked(self.clock.now(), call, result);
            }
            BridgeEffect::Complete { call, status, error, duration_ms } => {
                let Some(EmittedCall { session, tool, id }) = self.calls.remove(&call) else { return };
                let duration_ms = Some(duration_ms.min(MAX_DURATION_MILLIS));
                let base = ToolCompleted::new(tool, status);
                let completed = ToolCompleted { tool_call_id: Some(id), duration_ms, error_message: error, ..base };
                if let Some(open) = self.sessions.get(&session) {
                    report(open.session.complete_tool(completed).await);
                }
            }
            BridgeEffect::Progress { session, progress } => {
                if let Some(open) = self.sessions.get(&session) {
                    let summary_normal = progress.description.clone();
                    let updated = ProgressUpdated { progress, summary_normal, ..ProgressUpdated::default() };
                    report(open.session.emit(updated).await.map(drop));
                }
            }
            BridgeEffect::Remember(rule) => (self.remember)(rule),
            BridgeEffect::EndSession { session, end } => self.end_session(session, end).await,
            BridgeEffect::Idle(_) => {}
        }
    }

    /// Emits a tool call. A call whose question should have given a permit is not emitted without one.
    async fn invoke(
        &mut self,
        session: SessionKey,
        call: CallKey,
        invoked: ToolInvoked,
        (arguments, permit): (Value, Option<Option<Permit>>),
    ) -> Result<(), String> {
        let open = self.sessions.get(&session).ok_or("its session has ended")?;
        let tool = invoked.tool.clone();
        let id = match permit {
            None => open.session.invoke_tool(invoked).await,
            Some(None) => return Err("it has no permit".to_owned()),
            Some(Some(permit)) => open.session.invoke_irreversible(invoked, arguments, permit).await,
        };
        let id = id.map_err(|error| error.to_string())?;
        self.calls.insert(call, EmittedCall { session, tool, id });
        Ok(())
    }

    async fn start_session(&mut self, key: SessionKey, summary: String, request_text: Option<String>) {
        let started = SessionStarted { summary_normal: summary, request_text, ..SessionStarted::default() };
        let options = SessionOptions::from(started).with_variants(serde_json::Map::new(), self.meta.clone());
        match self.producer.session_with(options).await {
            Ok(session) => {
                let (requested, inputs) = (session.cancel_requested(), self.inputs.clone());
                let watch = tokio::spawn(async move {
                    if requested.await.is_ok() {
                        let _ = inputs.send(BridgeInput::CancelRequest(key));
                    }
                });
                let cancel_watch = watch.abort_handle();
                self.sessions.insert(key, BridgeSession { session, output: None, cancel_watch });
            }
            Err(error) => print_error(format_args!("cannot start a session: {error}")),
        }
    }

    async fn write(&mut self, key: SessionKey, text: &str) {
        let Some(open) = self.sessions.get_mut(&key) else { return };
        if open.output.is_none() {
            open.output = open.session.output_in("text/markdown", None).await.ok();
        }
        if let Some(output) = &open.output {
            report(output.write(text).await);
        }
    }

    async fn ask(&mut self, session: SessionKey, key: QuestionKey, content: BridgeQuestion) {
        let counts = self.producer.subscriber_counts().await;
        let able = match content {
            BridgeQuestion::Confirmation(_) => counts.can_confirm,
            BridgeQuestion::Clarification(_) => counts.can_clarify,
        };
        if able == 0 && self.unheard == UnheardQuestions::Resolve {
            return self.bridge.handle_answer(self.clock.now(), key, BridgeAnswer::NobodyListens);
        }
        let Some(open) = self.sessions.get(&session) else {
            return self.bridge.handle_answer(self.clock.now(), key, unasked(&content));
        };
        let inputs = self.inputs.clone();
        let refused = unasked(&content);
        let waiting = match content {
            BridgeQuestion::Confirmation(confirmation) => {
                open.session.ask_confirmation(*confirmation).await.map(|question| {
                    tokio::spawn(wait_for(question, key, inputs, |outcome| {
                        let accepted = outcome.decision == Decision::Accept;
                        (BridgeAnswer::Decided { accepted, resolution: outcome.resolution }, outcome.permit)
                    }))
                })
            }
            BridgeQuestion::Clarification(clarification) => {
                open.session.ask_clarification(*clarification).await.map(|question| {
                    tokio::spawn(wait_for(question, key, inputs, |outcome| {
                        let (response, resolution) = (outcome.response, outcome.resolution);
                        (BridgeAnswer::Answered { response, resolution }, None)
                    }))
                })
            }
        };
        match waiting {
            Ok(task) => {
                self.questions.insert(key, task.abort_handle());
            }
            Err(error) => {
                print_error(format_args!("cannot ask a question: {error}"));
                self.bridge.handle_answer(self.clock.now(), key, refused);
            }
        }
    }

    async fn end_session(&mut self, key: SessionKey, end: SessionEnd) {
        let Some(BridgeSession { session, output, cancel_watch }) = self.sessions.remove(&key) else { return };
        cancel_watch.abort();
        if let Some(output) = output {
            report(output.finish().await);
        }
        let payload: Payload = match end {
            SessionEnd::Completed { summary, tool_calls } => SessionCompleted {
                summary_normal: summary,
                tool_invocations_count: Some(tool_calls),
                ..SessionCompleted::default()
            }
            .into(),
            SessionEnd::Errored { category, summary } => SessionErrored::new(category, summary).into(),
            SessionEnd::Cancelled { by, summary } => SessionCancelled::new(by, summary).into(),
        };
        report(session.end_with(Localized::new(payload)).await);
    }
}

/// The answer to a question that could not be asked: never a yes.
fn unasked(content: &BridgeQuestion) -> BridgeAnswer {
    match content {
        BridgeQuestion::Confirmation(_) => BridgeAnswer::Decided { accepted: false, resolution: Resolution::Cancelled },
        BridgeQuestion::Clarification(_) => {
            BridgeAnswer::Answered { response: None, resolution: Resolution::Cancelled }
        }
    }
}

async fn wait_for<T>(
    question: Question<T>,
    key: QuestionKey,
    inputs: mpsc::UnboundedSender<BridgeInput>,
    read: impl FnOnce(T) -> (BridgeAnswer, Option<Permit>),
) {
    if let Ok(outcome) = question.await {
        let (answer, permit) = read(outcome);
        let _ = inputs.send(BridgeInput::Answer(key, answer, permit));
    }
}

/// Prints why an event could not be emitted. The bridge goes on: only tool calls depend on their events.
fn report(result: Result<(), aaep::Error>) {
    if let Err(error) = result {
        print_error(format_args!("an event was not emitted: {error}"));
    }
}
