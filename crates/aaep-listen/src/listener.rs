//! The state machine and its producers.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use aaep_announce::speakable::name;
use aaep_announce::{Announcer, ConnectionNotice, Pacer, Profile, SubscriberKind};
use aaep_proto::message::{Capabilities, Event, Producer, ReasonCode, SubscriptionAccepted, Verbosity};
use aaep_proto::subscriber::{EndReason, Notice, NoticeKind, PromptReplyError, SubscriberEvent};
use aaep_proto::time::Moment;

use crate::agent_names::AgentNames;
use crate::answer_router::AnswerRouter;
use crate::cancel::OpenSessions;
use crate::output::phrase;
use crate::questions::QuestionList;
use crate::transcript::Transcript;
use crate::{Effect, LineKind};

/// The fastest pace that the protocol has, for users who stopped taking text at a pace.
const MAX_PACE_WPM: u32 = 1000;

/// One producer that is listened to.
pub(crate) struct ProducerState {
    pub(crate) address: String,
    /// The name of its agent, once it is known.
    pub(crate) name: Option<String>,
    /// Each producer has an announcer of its own, so that none can interfere with the questions of another.
    pub(crate) announcer: Announcer,
    connected: bool,
    was_connected: bool,
    /// Whether the user knows that there is no connection yet.
    waiting_announced: bool,
    /// Whether its signing key changed, so that it may be an impostor.
    pub(crate) key_changed: bool,
    ended: bool,
    /// Kinds of notices that are reported only once, and were.
    reported: BTreeSet<NoticeKind>,
}

impl ProducerState {
    fn new(address: &str, profile: &Profile) -> ProducerState {
        ProducerState {
            address: address.to_owned(),
            name: None,
            announcer: Announcer::new(profile.clone()),
            connected: false,
            was_connected: false,
            waiting_announced: false,
            key_changed: false,
            ended: false,
            reported: BTreeSet::new(),
        }
    }

    /// Returns the name, or the address while the name is not known.
    pub(crate) fn display_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.address)
    }
}

/// Why an answer was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerError {
    /// The subscriber refused to send it.
    Refused(PromptReplyError),
    /// The subscription has ended.
    SubscriptionEnded,
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnswerError::Refused(error) => error.fmt(f),
            AnswerError::SubscriptionEnded => f.write_str("the subscription has ended"),
        }
    }
}

impl std::error::Error for AnswerError {}

/// Listens to producers for one user. Producers are named by their index in the list of addresses.
///
/// All methods that take `now` expect moments of one clock that never goes back.
pub struct Listener {
    pub(crate) profile: Profile,
    pub(crate) producers: Vec<ProducerState>,
    pub(crate) questions: QuestionList,
    pub(crate) router: AnswerRouter,
    pub(crate) transcript: Transcript,
    /// The agents that were seen. Critical events of muted ones are announced all the same.
    pub(crate) agents: AgentNames,
    pub(crate) open_sessions: OpenSessions,
    pub(crate) effects: Vec<Effect>,
    /// Whether the user entered a line and heard no response yet.
    pub(crate) response_pending: bool,
    pub(crate) has_voice: bool,
    has_braille: bool,
    /// Whether producers were asked for a pace.
    was_paced: bool,
    /// Keeps speech from falling behind. Lines are printed at once.
    pub(crate) pacer: Pacer,
    /// The latest moment of any input.
    pub(crate) now: Moment,
    /// Whether questions are passed to the user's own command.
    pub(crate) has_prompt_hook: bool,
    rejected: bool,
    /// How many sessions of agents must still end before this listener exits.
    sessions_left: Option<usize>,
}

impl Listener {
    /// Creates a listener for a user, with the addresses of the producers.
    pub fn new(profile: Profile, addresses: &[String]) -> Listener {
        Listener {
            producers: addresses.iter().map(|address| ProducerState::new(address, &profile)).collect(),
            pacer: Pacer::new(&profile),
            now: Moment::default(),
            profile,
            questions: QuestionList::default(),
            router: AnswerRouter::default(),
            transcript: Transcript::default(),
            agents: AgentNames::default(),
            open_sessions: OpenSessions::default(),
            response_pending: false,
            has_voice: false,
            has_braille: false,
            was_paced: false,
            effects: Vec::new(),
            has_prompt_hook: false,
            rejected: false,
            sessions_left: None,
        }
    }

    /// Passes questions to the user's own command too, by [`Effect::RunHook`].
    pub fn with_prompt_hook(mut self) -> Listener {
        self.has_prompt_hook = true;
        self
    }

    /// Exits once this many sessions of agents have ended.
    pub fn exit_after_sessions(mut self, sessions: usize) -> Listener {
        self.sessions_left = Some(sessions);
        self
    }

    /// Returns the user's profile with the changes that the user made by commands.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Sets which outputs there are from the start: a voice, a braille display.
    pub fn with_outputs(mut self, voice: bool, braille: bool) -> Listener {
        (self.has_voice, self.has_braille) = (voice, braille);
        self.was_paced = self.is_paced();
        self
    }

    /// Sets whether there is a voice. Without a voice and a braille display, producers are not asked to keep a pace.
    pub fn set_voice(&mut self, on: bool) {
        self.change_paced(|listener| listener.has_voice = on);
    }

    /// Sets whether there is a braille display. Without a voice and a braille display, producers are not asked to keep a
    /// pace.
    pub fn set_braille(&mut self, on: bool) {
        self.change_paced(|listener| listener.has_braille = on);
    }

    fn change_paced(&mut self, change: impl FnOnce(&mut Listener)) {
        let before = self.is_paced();
        change(self);
        if self.is_paced() != before {
            self.was_paced |= self.is_paced();
            self.effects.push(Effect::Renegotiate(Box::new(self.capabilities())));
        }
    }

    /// Returns whether the user takes text at a pace: by ear or by finger. Printed lines can be read at any time.
    fn is_paced(&self) -> bool {
        self.has_voice || self.has_braille || self.profile.kind == SubscriberKind::Braille
    }

    /// Returns the capabilities to request from producers.
    pub fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.profile.capabilities();
        if !self.is_paced() {
            // A renegotiation keeps what it leaves out.
            capabilities.fields.pace_wpm = self.was_paced.then_some(MAX_PACE_WPM);
        }
        capabilities
    }

    /// Returns whether a subscription ended because it was rejected, refused or not what was demanded.
    pub fn was_rejected(&self) -> bool {
        self.rejected
    }

    /// Returns the effects since the last call, in order.
    pub fn drain_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Sets whether only critical events are spoken. The front end knows the time of day.
    pub fn set_quiet(&mut self, quiet: bool) {
        self.producers.iter_mut().for_each(|producer| producer.announcer.set_quiet(quiet));
    }

    /// Returns when [`handle_timeout`](Listener::handle_timeout) is due, or `None` if nothing waits for time.
    pub fn next_deadline(&self) -> Option<Moment> {
        let announcers = self.producers.iter().filter(|p| !p.ended).filter_map(|p| p.announcer.next_deadline());
        let unopened = self.questions.open().filter(|q| q.prompt.is_none()).map(|q| q.deadline);
        announcers.chain(unopened).chain(self.pacer.next_deadline()).min()
    }

    /// Announces what is due because time has passed.
    pub fn handle_timeout(&mut self, now: Moment) {
        self.observe(now);
        let due = self.pacer.handle_timeout(now);
        self.effects.extend(due.into_iter().map(Effect::Speak));
        for producer in 0..self.producers.len() {
            let utterances = self.producers[producer].announcer.handle_timeout(now);
            self.present(producer, LineKind::Progress, None, utterances);
        }
        self.end_unopened(now);
    }

    /// Handles an event of the subscriber that listens to this producer. Its moments must be of the same clock as `now`.
    pub fn handle_event(&mut self, now: Moment, producer: usize, event: SubscriberEvent) {
        self.observe(now);
        if producer >= self.producers.len() {
            return;
        }
        match event {
            SubscriberEvent::Accepted(accepted) => self.accepted(now, producer, &accepted),
            SubscriberEvent::Event(event) => self.agent_event(now, producer, &event),
            SubscriberEvent::PromptOpened(prompt, deadline) => self.prompt_opened(now, producer, &prompt, deadline),
            SubscriberEvent::PromptMoved(id, deadline) => self.prompt_moved(now, producer, id, deadline),
            SubscriberEvent::PromptEnded(id, end) => self.prompt_ended(now, producer, id, end),
            SubscriberEvent::Gap(_) => self.connection_notice(now, producer, &ConnectionNotice::Gap),
            SubscriberEvent::Skipped(left_out) => {
                self.connection_notice(now, producer, &ConnectionNotice::Flood { left_out });
            }
            SubscriberEvent::Notice(notice) => self.notice(now, producer, &notice),
            SubscriberEvent::Ended(reason) => self.subscription_ended(producer, &reason),
            // The user knows from a notice that the connection is lost; raw messages are for recorders.
            SubscriberEvent::Retrying(_) | SubscriberEvent::Message(_) => {}
            // Newer than this crate: the user has to know that something was not announced.
            _ => self.connection_notice(now, producer, &ConnectionNotice::Gap),
        }
    }

    fn accepted(&mut self, now: Moment, producer: usize, accepted: &SubscriptionAccepted) {
        let agent = self.name_of(producer, &accepted.producer);
        let state = &mut self.producers[producer];
        state.name = Some(agent.clone());
        state.announcer.set_serving_agent(&accepted.producer.agent_id);
        let again = state.was_connected;
        let restored = again && !state.connected;
        (state.connected, state.was_connected) = (true, true);
        state.reported.remove(&NoticeKind::Rejected);
        if restored {
            return self.connection_notice(now, producer, &ConnectionNotice::ConnectionBack { agent });
        }
        if again {
            return;
        }
        self.note(phrase!(self, "ui-listening", agent = &agent, address = &self.producers[producer].address));
        if accepted.honored_capabilities.fields.supports_confirmation_reply == Some(false) && self.profile.can_reply() {
            self.note(phrase!(self, "ui-takes-no-answers", agent = &agent));
        }
    }

    fn agent_event(&mut self, now: Moment, producer: usize, event: &Arc<Event>) {
        if !self.producers[producer].was_connected {
            // A producer without a handshake: its first event is the sign that it serves.
            let agent = self.name_of(producer, &event.envelope.producer);
            let state = &mut self.producers[producer];
            state.name = Some(agent.clone());
            (state.connected, state.was_connected) = (true, true);
            let address = state.address.clone();
            self.note(phrase!(self, "ui-listening", agent = &agent, address = &address));
        }
        let agent = self.name_of(producer, &event.envelope.producer);
        self.open_sessions.note(producer, event, &agent);
        let kind = LineKind::for_event(event);
        if kind == LineKind::Question {
            return self.question_event(now, producer, event);
        }
        let utterances = self.producers[producer].announcer.announce(now, event);
        if event.is_critical() || !self.agents.is_muted(producer, &event.envelope.producer.agent_id) {
            self.present(producer, kind, None, utterances);
        } else {
            // Muted lines can still be walked to.
            for utterance in utterances {
                let line = self.line_for(producer, kind, None, utterance);
                self.transcript.push(&line);
            }
        }
        if kind == LineKind::End
            && let Some(left) = &mut self.sessions_left
        {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.exit();
            }
        }
    }

    /// Returns the name of an agent as it is spoken and printed. Two agents of one name are told apart by a number.
    fn name_of(&mut self, producer: usize, agent: &Producer) -> String {
        let names = [agent.agent_name.as_deref(), Some(agent.agent_id.as_str())];
        let mut plain = names.into_iter().flatten().map(|text| name(text, &self.profile));
        let own = plain.find(|name| !name.is_empty()).unwrap_or_else(|| "?".to_owned());
        let name = self.agents.name(producer, &agent.agent_id, &own);
        if name != own {
            self.producers[producer].announcer.name_agent(&agent.agent_id, &name);
        }
        name
    }

    fn connection_notice(&mut self, now: Moment, producer: usize, notice: &ConnectionNotice) {
        let utterances = self.producers[producer].announcer.connection_notice(now, notice);
        self.present(producer, LineKind::Note, None, utterances);
    }

    fn notice(&mut self, now: Moment, producer: usize, notice: &Notice) {
        let agent = self.producers[producer].display_name().to_owned();
        match notice.kind() {
            NoticeKind::KeyChanged => {
                self.producers[producer].key_changed = true;
                self.connection_notice(now, producer, &ConnectionNotice::KeyChanged { agent });
            }
            kind @ (NoticeKind::Disconnected | NoticeKind::ClosedByProducer) => {
                if kind == NoticeKind::ClosedByProducer {
                    self.open_sessions.forget(producer);
                }
                let state = &mut self.producers[producer];
                if state.connected {
                    state.connected = false;
                    let notice = match kind {
                        NoticeKind::ClosedByProducer => ConnectionNotice::ConnectionEnded { agent },
                        _ => ConnectionNotice::ConnectionLost { agent },
                    };
                    self.connection_notice(now, producer, &notice);
                } else if !state.was_connected && !state.waiting_announced {
                    // Reported once, however often the connection is retried.
                    state.waiting_announced = true;
                    let why = match notice {
                        Notice::Disconnected(why) => sentence(why),
                        other => other.to_string(),
                    };
                    self.note(phrase!(self, "ui-not-connected", agent = &agent, why = &why));
                }
            }
            kind => {
                if self.profile.verbosity == Verbosity::Detailed || self.is_worth_reporting(producer, kind) {
                    self.note_from(producer, notice.to_string());
                }
            }
        }
    }

    /// Returns whether a notice is reported to users who did not ask for details. Harmless violations are not; notices
    /// about events that the user may miss are, the first time.
    fn is_worth_reporting(&mut self, producer: usize, kind: NoticeKind) -> bool {
        match kind {
            NoticeKind::Violation | NoticeKind::Unexpected => false,
            // A producer that cannot serve now is asked again and again.
            NoticeKind::Malformed | NoticeKind::OutOfOrder | NoticeKind::Rejected => {
                self.producers[producer].reported.insert(kind)
            }
            _ => true,
        }
    }

    fn subscription_ended(&mut self, producer: usize, reason: &EndReason) {
        self.producers[producer].ended = true;
        self.open_sessions.forget(producer);
        let name = self.producers[producer].display_name().to_owned();
        let why = match reason {
            EndReason::Closed | EndReason::ProducerEnded(_) => None,
            EndReason::Rejected(rejected) => {
                Some(phrase!(self, "ui-does-not-serve", agent = &name, why = &rejected.reason_message))
            }
            EndReason::Refused(why) => Some(phrase!(self, "ui-cannot-listen", agent = &name, why = why)),
            EndReason::ManifestMismatch(why) => Some(phrase!(self, "ui-not-demanded", agent = &name, why = why)),
        };
        if let Some(why) = why {
            self.rejected = true;
            self.note(why);
            if matches!(reason, EndReason::Rejected(r) if r.reason_code == ReasonCode::AuthenticationRequired) {
                self.note(phrase!(self, "ui-needs-token"));
            }
        }
        if self.producers.iter().all(|producer| producer.ended) {
            self.exit();
        }
    }
}

/// Returns the reason for a lost connection as a sentence, without the number that the system gives it.
fn sentence(why: &str) -> String {
    let why = why.split(" (os error").next().unwrap_or(why).trim_end();
    if why.ends_with('.') { why.to_owned() } else { format!("{why}.") }
}
