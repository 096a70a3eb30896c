//! The core of the terminal: what is heard and typed goes in, lines and deeds come out. It has no clock and touches
//! nothing, so everything that matters can be tested without a network and without waiting.

use std::collections::BTreeSet;
use std::sync::Arc;

use aaep_announce::speakable::name;
use aaep_announce::{Announcer, ConnectionNotice, Pacer, Phrases, Profile, PromptEnd as Told};
use aaep_client::{EndReason, Notice, NoticeKind, Prompt, PromptEnd, PromptId, PromptReplyError, ReplyError};
use aaep_proto::language::LanguageTag;
use aaep_proto::message::{CoreType, Event, Producer as Known, SubscriptionAccepted, Urgency, Verbosity};
use aaep_proto::subscriber::SubscriberEvent;
use aaep_proto::time::Moment;
use serde_json::json;

use super::answer_router::AnswerRouter;
use super::line::{Effect, Kind};
use super::questions::Questions;
use super::speak::own;
use super::transcript::Transcript;

/// Seconds after which a question that was not opened cannot be answered here.
const UNANSWERABLE: u64 = 5;

/// One producer that is listened to.
pub(super) struct Producer {
    pub(super) address: String,
    /// Its name, once it is known.
    pub(super) name: Option<String>,
    /// Producers must not be able to meddle with each other's questions, so each has its own announcer.
    pub(super) announcer: Announcer,
    connected: bool,
    was_connected: bool,
    /// It was told that there is no connection yet.
    told_waiting: bool,
    key_changed: bool,
    over: bool,
    /// Of what is told once only: that it was.
    told: BTreeSet<NoticeKind>,
}

impl Producer {
    pub(super) fn called(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.address)
    }
}

/// The terminal without its shell.
pub(crate) struct ListenSession {
    pub(super) profile: Profile,
    pub(super) producers: Vec<Producer>,
    pub(super) questions: Questions,
    pub(super) guard: AnswerRouter,
    pub(super) transcript: Transcript,
    /// Agents of which only critical things are told, in small letters.
    pub(super) muted: BTreeSet<String>,
    pub(super) out: Vec<Effect>,
    /// Keeps the voice from falling behind. Lines are shown at once.
    pub(super) pacer: Pacer,
    /// The latest time that was told.
    pub(super) now: Moment,
    /// Whether the user's own command is asked.
    asks_command: bool,
    /// Whether a producer ended in a way that is worth an exit code.
    refused: bool,
    /// How many sessions are to be heard to their end, if it ends by itself.
    sessions_left: Option<usize>,
}

impl ListenSession {
    /// A terminal for this user that listens to producers at these addresses.
    pub(crate) fn new(profile: Profile, addresses: &[String]) -> ListenSession {
        let producer = |address: &String| Producer {
            address: address.clone(),
            name: None,
            announcer: Announcer::new(profile.clone()),
            connected: false,
            was_connected: false,
            told_waiting: false,
            key_changed: false,
            over: false,
            told: BTreeSet::new(),
        };
        ListenSession {
            producers: addresses.iter().map(producer).collect(),
            pacer: Pacer::new(&profile),
            now: Moment::default(),
            profile,
            questions: Questions::default(),
            guard: AnswerRouter::default(),
            transcript: Transcript::default(),
            muted: BTreeSet::new(),
            out: Vec::new(),
            asks_command: false,
            refused: false,
            sessions_left: None,
        }
    }

    /// Questions are handed to the user's own command too.
    pub(crate) fn ask_command(mut self) -> ListenSession {
        self.asks_command = true;
        self
    }

    /// The user's profile as it is now.
    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// It is over when so many sessions were heard to their end.
    pub(crate) fn leave_after(mut self, sessions: usize) -> ListenSession {
        self.sessions_left = Some(sessions);
        self
    }

    /// Whether a producer would not serve.
    pub(crate) fn was_refused(&self) -> bool {
        self.refused
    }

    /// Takes what is to be done.
    pub(crate) fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.out)
    }

    /// Whether only what is critical is said; the shell knows the time of day.
    pub(crate) fn set_quiet(&mut self, quiet: bool) {
        self.producers.iter_mut().for_each(|producer| producer.announcer.set_quiet(quiet));
    }

    /// When `tick` is due.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        let announcers = self.producers.iter().filter(|p| !p.over).filter_map(|p| p.announcer.next_deadline());
        let unopened = self.questions.open().filter(|q| q.id.is_none()).map(|q| q.deadline);
        announcers.chain(unopened).chain(self.pacer.next_deadline()).min()
    }

    /// Says what is due because time has passed.
    pub(crate) fn tick(&mut self, now: Moment) {
        self.observe(now);
        let said = self.pacer.tick(now);
        self.out.extend(said.into_iter().map(Effect::Say));
        for source in 0..self.producers.len() {
            let said = self.producers[source].announcer.tick(now);
            self.utter(source, Kind::Progress, None, said);
        }
        let late: Vec<u32> =
            self.questions.open().filter(|q| q.id.is_none() && q.deadline <= now).map(|q| q.number).collect();
        for number in late {
            self.questions.end(number, "over-unanswerable");
            self.guard.ended(now, number);
            self.note(own!(self, "own-cannot-answer", number = number));
        }
    }

    /// Handles what the subscriber of one producer reported, with times of the same clock as `now`.
    pub(crate) fn hear(&mut self, now: Moment, source: usize, heard: SubscriberEvent<Moment>) {
        self.observe(now);
        if source >= self.producers.len() {
            return;
        }
        match heard {
            SubscriberEvent::Accepted(accepted) => self.accepted(now, source, &accepted),
            SubscriberEvent::Event(event) => self.event(now, source, &event),
            SubscriberEvent::PromptOpened(prompt, deadline) => self.opened(now, source, &prompt, deadline),
            SubscriberEvent::PromptMoved(id, deadline) => self.moved(now, source, id, deadline),
            SubscriberEvent::PromptEnded(id, end) => self.ended(now, source, id, end),
            SubscriberEvent::Gap(_) => self.remark(now, source, &ConnectionNotice::Gap),
            SubscriberEvent::Skipped(left_out) => self.remark(now, source, &ConnectionNotice::Flood { left_out }),
            SubscriberEvent::Notice(notice) => self.notice(now, source, &notice),
            // Raw messages are for those who record.
            SubscriberEvent::Retrying(_) | SubscriberEvent::Message(_) => {}
            SubscriberEvent::Ended(ended) => self.over(source, &ended),
        }
    }

    fn accepted(&mut self, now: Moment, source: usize, accepted: &SubscriptionAccepted) {
        let called = self.name_of(&accepted.producer);
        let producer = &mut self.producers[source];
        producer.name = Some(called);
        let name = producer.called().to_owned();
        let again = producer.was_connected;
        let lost = again && !producer.connected;
        (producer.connected, producer.was_connected) = (true, true);
        if lost {
            return self.remark(now, source, &ConnectionNotice::ConnectionBack { agent: name });
        }
        if again {
            return;
        }
        self.note(own!(self, "own-listening", agent = &name, address = &self.producers[source].address));
        if accepted.honored_capabilities.fields.supports_confirmation_reply == Some(false) && self.profile.can_reply() {
            self.note(own!(self, "own-takes-no-answers", agent = &name));
        }
    }

    fn event(&mut self, now: Moment, source: usize, event: &Arc<Event>) {
        if !self.producers[source].was_connected {
            // A simple producer that offers no terms.
            let called = self.name_of(&event.envelope.producer);
            let producer = &mut self.producers[source];
            producer.name = Some(called);
            (producer.connected, producer.was_connected) = (true, true);
            let (called, address) = (producer.called().to_owned(), producer.address.clone());
            self.note(own!(self, "own-listening", agent = &called, address = &address));
        }
        let kind = Kind::of(event);
        if kind == Kind::Question {
            return self.question(now, source, event);
        }
        let said = self.producers[source].announcer.announce(now, event);
        if is_critical(event) || !self.is_muted(event) {
            self.utter(source, kind, None, said);
        } else {
            // It can still be walked to.
            for utterance in said {
                let shown = self.shown(source, kind, None, utterance);
                self.transcript.push(&shown);
            }
        }
        if kind == Kind::End
            && let Some(left) = &mut self.sessions_left
        {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.leave();
            }
        }
    }

    fn is_muted(&self, event: &Event) -> bool {
        let producer = &event.envelope.producer;
        let names = [self.name_of(producer), producer.agent_id.clone()];
        names.iter().any(|name| self.muted.contains(&name.to_lowercase()))
    }

    /// The name of an agent as it is said and shown.
    fn name_of(&self, producer: &Known) -> String {
        let names = [producer.agent_name.as_deref(), Some(producer.agent_id.as_str())];
        let mut plain = names.into_iter().flatten().map(|text| name(text, &self.profile));
        plain.find(|name| !name.is_empty()).unwrap_or_else(|| "?".to_owned())
    }

    /// A question came as an event. It gets a number; that it can be answered is heard next.
    fn question(&mut self, now: Moment, source: usize, event: &Arc<Event>) {
        let token = super::questions::token_of(event);
        if token.is_some_and(|token| self.questions.by_token(source, token).is_some()) {
            // Asked again, or another under the same token: then it is opened anew.
            let said = self.producers[source].announcer.announce(now, event);
            let number = token.and_then(|token| self.questions.by_token(source, token)).map(|q| q.number);
            return self.utter(source, Kind::Question, number, said);
        }
        self.put_new(now, source, event.clone(), now.plus_seconds(UNANSWERABLE));
    }

    /// Puts a question under a new number.
    fn put_new(&mut self, now: Moment, source: usize, event: Arc<Event>, deadline: Moment) -> u32 {
        let said = self.producers[source].announcer.announce(now, &event);
        let number = self.questions.add(source, event, deadline, said.clone());
        let doubtful = self.producers[source].key_changed;
        if let Some(question) = self.questions.get_mut(number) {
            question.doubtful = doubtful;
        }
        for lost in self.questions.forget() {
            self.guard.ended(now, lost);
        }
        self.guard.asked(now, number);
        let several = self.questions.open().count() > 1;
        let mut said = said;
        if let Some(first) = said.first_mut().filter(|_| several) {
            // One voice says all of it.
            let tag = first.language.parse().ok();
            let wishes: Vec<LanguageTag> = tag.into_iter().chain(self.profile.languages.iter().cloned()).collect();
            let values = [("number", number.into()), ("text", first.text.as_str().into())];
            first.text = Phrases::for_languages(&wishes).say_with("own-number", &values);
        }
        self.utter(source, Kind::Question, Some(number), said);
        number
    }

    fn opened(&mut self, now: Moment, source: usize, prompt: &Prompt, deadline: Moment) {
        let token = prompt.token();
        let waiting = token.and_then(|token| self.questions.by_token(source, token));
        let same = waiting.filter(|q| q.id.is_none() && q.event.envelope.event_id == prompt.event.envelope.event_id);
        let number = match same.map(|q| q.number) {
            Some(number) => number,
            None => {
                // An answer that did not arrive, or another question under the same token.
                if let Some(token) = token {
                    let _ = self.producers[source].announcer.prompt_ended(now, token, Told::Withdrawn);
                }
                self.put_new(now, source, prompt.event.clone(), deadline)
            }
        };
        let Some(question) = self.questions.get_mut(number) else { return };
        question.id = Some(prompt.id);
        question.can_answer = prompt.can_answer;
        question.deadline = deadline;
        let json = question.json(now);
        if !prompt.can_answer {
            self.note(own!(self, "own-cannot-answer", number = number));
        }
        self.out.push(Effect::Tell(json.clone()));
        if self.asks_command && prompt.can_answer {
            self.out.push(Effect::Ask { number, question: json });
        }
    }

    fn moved(&mut self, now: Moment, source: usize, id: PromptId, deadline: Moment) {
        let Some(question) = self.questions.by_id(source, id).and_then(|number| self.questions.get_mut(number)) else {
            return;
        };
        question.deadline = deadline;
        let json = question.json(now);
        self.out.push(Effect::Tell(json));
    }

    fn ended(&mut self, now: Moment, source: usize, id: PromptId, end: PromptEnd) {
        let Some(number) = self.questions.by_id(source, id) else { return };
        let (over, told) = match end {
            PromptEnd::AnsweredHere => ("over-answered", Told::Answered),
            PromptEnd::ResolvedElsewhere(_) => ("over-elsewhere", Told::AnsweredElsewhere),
            PromptEnd::Expired => ("over-expired", Told::TimedOut),
            PromptEnd::Replaced => ("over-replaced", Told::Withdrawn),
            PromptEnd::SessionEnded => ("over-session", Told::Withdrawn),
            PromptEnd::ConnectionLost => ("over-connection", Told::Withdrawn),
            PromptEnd::Cancelled | PromptEnd::Closed => ("over-withdrawn", Told::Withdrawn),
        };
        let Some(question) = self.questions.get_mut(number) else { return };
        question.over = Some(over);
        let token = question.token().cloned();
        let mut json = question.json(now);
        // For programs, whatever the user's language is.
        json["reason"] = json!(Phrases::for_languages(&[]).say(over));
        match end {
            PromptEnd::AnsweredHere => self.guard.answered(number),
            _ => self.guard.ended(now, number),
        }
        self.out.push(Effect::Tell(json));
        let Some(token) = token else { return };
        let about = about(source, token.as_str());
        self.pacer.take_back(&about);
        self.out.push(Effect::Unsay(about));
        let said = self.producers[source].announcer.prompt_ended(now, &token, told);
        if end == PromptEnd::Replaced {
            return self.note(own!(self, "own-replaced", number = number));
        }
        self.utter(source, Kind::Answer, Some(number), said);
    }

    /// What became of an answer that was to be sent.
    pub(crate) fn sent(&mut self, now: Moment, number: u32, result: Result<(), ReplyError>) {
        let Err(error) = result else { return };
        let gone = matches!(error, ReplyError::Refused(PromptReplyError::Gone) | ReplyError::Over);
        if !gone {
            self.guard.asked(now, number);
            self.guard.put(now, number);
        }
        let why = match error {
            ReplyError::Refused(PromptReplyError::Gone) => "refused-gone",
            ReplyError::Refused(PromptReplyError::NotConnected) => "refused-away",
            ReplyError::Refused(PromptReplyError::NotGranted) => "refused-not-granted",
            ReplyError::Refused(PromptReplyError::NotAllowed) => "refused-not-allowed",
            ReplyError::Refused(PromptReplyError::WrongKind) => "refused-kind",
            ReplyError::Over => "refused-over",
        };
        self.reply(own!(self, "own-not-sent-to", number = number, why = &self.phrases().say(why)));
    }

    pub(super) fn remark(&mut self, now: Moment, source: usize, remark: &ConnectionNotice) {
        let said = self.producers[source].announcer.remark(now, remark);
        self.utter(source, Kind::Note, None, said);
    }

    fn notice(&mut self, now: Moment, source: usize, notice: &Notice) {
        let agent = self.producers[source].called().to_owned();
        match notice.kind() {
            NoticeKind::KeyChanged => {
                self.producers[source].key_changed = true;
                self.remark(now, source, &ConnectionNotice::KeyChanged { agent });
            }
            kind @ (NoticeKind::Disconnected | NoticeKind::ClosedByProducer) => {
                let producer = &mut self.producers[source];
                if producer.connected {
                    producer.connected = false;
                    let remark = match kind {
                        NoticeKind::ClosedByProducer => ConnectionNotice::ConnectionEnded { agent },
                        _ => ConnectionNotice::ConnectionLost { agent },
                    };
                    self.remark(now, source, &remark);
                } else if !producer.was_connected && !producer.told_waiting {
                    // Told once: it is tried again and again.
                    producer.told_waiting = true;
                    self.note(own!(self, "own-not-connected", agent = &agent, why = &notice.to_string()));
                }
            }
            kind if self.profile.verbosity != Verbosity::Detailed && !self.is_worth_telling(source, kind) => {
                tracing::debug!(%notice, "a notice that users need not hear");
            }
            _ => self.note_from(source, notice.to_string()),
        }
    }

    /// What breaks a rule and does no harm is for those who want details; what the user may miss something by is told
    /// the first time.
    fn is_worth_telling(&mut self, source: usize, kind: NoticeKind) -> bool {
        match kind {
            NoticeKind::Violation | NoticeKind::Unexpected => false,
            NoticeKind::Malformed | NoticeKind::OutOfOrder => self.producers[source].told.insert(kind),
            _ => true,
        }
    }

    fn over(&mut self, source: usize, ended: &EndReason) {
        self.producers[source].over = true;
        let name = self.producers[source].called().to_owned();
        let why = match ended {
            EndReason::Closed => None,
            EndReason::Rejected(rejected) => {
                Some(own!(self, "own-does-not-serve", agent = &name, why = &rejected.reason_message))
            }
            EndReason::Refused(why) => Some(own!(self, "own-cannot-listen", agent = &name, why = why)),
            EndReason::ManifestMismatch(why) => Some(own!(self, "own-not-demanded", agent = &name, why = why)),
        };
        if let Some(why) = why {
            self.refused = true;
            self.note(why);
        }
        if self.producers.iter().all(|producer| producer.over) {
            self.leave();
        }
    }
}

/// What speech belongs to, told apart by producer: one must not be able to take back another's words.
pub(super) fn about(source: usize, own: &str) -> String {
    format!("{source}/{own}")
}

fn is_critical(event: &Event) -> bool {
    *event.urgency() == Urgency::Critical || event.core_type().is_some_and(CoreType::must_be_critical)
}
