//! The state machine between events and utterances.

mod connection_notice;
mod digest;
mod endings;
mod heartbeat;
mod output;
mod prompt;
mod session;
#[cfg(test)]
mod tests;
mod tools;
mod words;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use aaep_proto::id::{ReplyToken, SessionId};
use aaep_proto::message::{
    CognitiveLoad, CoreType, Event, OutputStreaming, Payload, ProgressUpdated, SessionStarted, StateChanged, Urgency,
};
use aaep_proto::pace::spoken_words;
use aaep_proto::time::Moment;

pub use connection_notice::ConnectionNotice;
pub use prompt::PromptResolution;

use crate::phrases::{Phrases, phrase};
use crate::profile::Profile;
use crate::speakable::{self, SpokenUnit, phrases_for, sentence, speakable};
use crate::utterance::{Earcon, Priority, Turn, Utterance};
use output::{StreamedOutput, split_text};
use prompt::AnnouncedPrompt;
use session::{Activity, MAX_AGENT_ID_CHARS, MAX_SESSION_OUTPUTS, SessionState};
use words::{LocalizedText, headline, summary};

/// The most sessions that are followed at once. Above it, the one that was silent longest is dropped.
const MAX_SESSIONS: usize = 64;
/// The most unfinished outputs of all sessions.
const MAX_OPEN_OUTPUTS: usize = 64;
/// The most open questions.
const MAX_PROMPTS: usize = 64;
/// The most subjects whose last announcement is remembered.
const MAX_FINGERPRINTS: usize = 256;
/// The most agents that have a name of their own.
const MAX_AGENT_NAMES: usize = 256;
/// A percentage is announced again when it changed by this much.
const PERCENT_STEP: f64 = 5.0;
/// A percentage is announced again after this time, however little it changed.
const PERCENT_INTERVAL_SECS: u64 = 15;

/// Turns events into utterances.
///
/// It has no clock: every input comes with the time. Call [`Announcer::handle_timeout`] no later than
/// [`Announcer::next_deadline`], and speak what it returns.
///
/// ```
/// use aaep_announce::{Announcer, Earcon, Profile};
/// use aaep_proto::{message::Event, time::Moment};
/// let event: Event = serde_json::from_str(r#"{"@context":"https://aaep-protocol.org/context/v1",
///   "type":"aaep:agent.session.completed","event_id":"evt_1","session_id":"sess_1",
///   "timestamp":"2026-05-24T14:22:14Z","producer":{"agent_id":"planner"},
///   "localization_hints":{"primary_language":"en"},"summary_normal":"Your plan is ready."}"#)?;
/// let mut announcer = Announcer::new(Profile::default());
/// let said = announcer.announce(Moment::from_millis(0), &event);
/// assert_eq!(said[0].text, "Done. Your plan is ready.");
/// assert_eq!(said[0].earcon, Some(Earcon::Completed));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub struct Announcer {
    profile: Profile,
    sessions: BTreeMap<SessionId, SessionState>,
    prompts: BTreeMap<ReplyToken, AnnouncedPrompt>,
    /// The names of agents that the caller gave, by agent id.
    names: BTreeMap<String, String>,
    /// The fingerprint of the last announcement about each subject, so that nothing is announced twice in a row.
    fingerprints: BTreeMap<String, u64>,
    /// Until when a voice is busy with the utterances so far, by estimate.
    busy_until: Moment,
    quiet: bool,
    connected: bool,
    /// The id of the agent that serves. Agents that it relays are introduced by name.
    serving: Option<String>,
}

impl std::fmt::Debug for Announcer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Announcer({} sessions, {} prompts)", self.sessions.len(), self.prompts.len())
    }
}

/// An utterance before names, repetitions and quiet hours were considered.
struct PendingUtterance {
    utterance: Utterance,
    /// Whether it names the agent already.
    named: bool,
    /// Whether it is output of the agent, which may repeat itself.
    output: bool,
}

impl PendingUtterance {
    fn new(text: LocalizedText, priority: Priority, about: &str) -> PendingUtterance {
        let mut utterance = Utterance::new(text.text, text.language, priority);
        utterance.about = Some(about.to_owned());
        PendingUtterance { utterance, named: false, output: false }
    }

    fn earcon(mut self, earcon: Earcon) -> PendingUtterance {
        self.utterance.earcon = Some(earcon);
        self
    }

    /// Marks the utterance as one that is out of date when a question comes.
    fn passing(mut self) -> PendingUtterance {
        self.utterance.turn = Turn::Passing;
        self
    }

    /// Puts the utterance before all others that wait.
    fn first(mut self) -> PendingUtterance {
        self.utterance.turn = Turn::First;
        self
    }

    /// Makes other speech stop for this utterance.
    fn interrupting(mut self, named: bool) -> PendingUtterance {
        self.utterance.interrupts = true;
        self.named = named;
        self
    }
}

impl Announcer {
    /// Creates an announcer for this user.
    pub fn new(profile: Profile) -> Announcer {
        Announcer {
            profile,
            sessions: BTreeMap::new(),
            prompts: BTreeMap::new(),
            names: BTreeMap::new(),
            fingerprints: BTreeMap::new(),
            busy_until: Moment::default(),
            quiet: false,
            connected: true,
            serving: None,
        }
    }

    /// Returns the user's profile.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Replaces the profile, for announcements from now on.
    pub fn set_profile(&mut self, profile: Profile) {
        self.profile = profile;
    }

    /// Sets whether only critical events are announced. The caller knows the time of day, see [`Profile::is_quiet_at`].
    /// [`Announcer::catch_up`] sums up what was left out.
    pub fn set_quiet(&mut self, quiet: bool) {
        self.quiet = quiet;
    }

    /// Sets the `agent_id` of the agent that serves. The first announcement about each session of another agent, which it
    /// relays, begins with that agent's name.
    pub fn set_serving_agent(&mut self, agent_id: &str) {
        self.serving = Some(agent_id.chars().take(MAX_AGENT_ID_CHARS).collect());
    }

    /// Sets the name that an agent is announced by, instead of the one in its events.
    pub fn name_agent(&mut self, agent_id: &str, name: &str) {
        if self.names.len() >= MAX_AGENT_NAMES && !self.names.contains_key(agent_id) {
            self.names.pop_first();
        }
        self.names.insert(agent_id.to_owned(), name.to_owned());
        for session in self.sessions.values_mut().filter(|session| session.agent_id == agent_id) {
            name.clone_into(&mut session.agent);
        }
    }

    /// Returns the name of the agent of an event as it is spoken.
    fn agent_name(&self, event: &Event) -> String {
        let producer = &event.envelope.producer;
        if let Some(given) = self.names.get(&producer.agent_id) {
            return given.clone();
        }
        let name = producer.agent_name.as_deref().map(|n| speakable::name(n, &self.profile)).filter(|n| !n.is_empty());
        let id = || speakable::name(&producer.agent_id.replace('-', " "), &self.profile);
        let found = name.unwrap_or_else(id);
        if found.is_empty() { self.user_phrases().text("agent-unknown") } else { found }
    }

    /// Announces an event.
    pub fn announce(&mut self, now: Moment, event: &Event) -> Vec<Utterance> {
        let id = event.envelope.session_id.clone();
        let critical = event.is_critical();
        if !self.admit(now, event, critical) {
            return Vec::new();
        }
        let mut out = self.release_excess_output(now, event);
        let drafts = match &event.payload {
            Payload::SessionStarted(started) => self.started(now, event, started),
            Payload::SessionCompleted(completed) => self.completed(event, completed),
            Payload::SessionErrored(errored) => self.errored(event, errored),
            Payload::SessionCancelled(cancelled) => self.cancelled(event, cancelled),
            Payload::HandoffRequested(handoff) => self.handoff(event, handoff),
            Payload::StateChanged(change) => self.state_changed(now, event, change),
            Payload::ProgressUpdated(updated) => self.progress(now, event, updated),
            Payload::ToolInvoked(tool) => self.tool_invoked(now, event, tool),
            Payload::ToolCompleted(tool) => self.tool_completed(now, event, tool),
            Payload::OutputStreaming(chunk) => self.output(now, event, chunk),
            Payload::AwaitingConfirmation(question) => self.confirmation(now, event, question),
            Payload::AwaitingClarification(question) => self.clarification(now, event, question),
            // An extension, or a type that is newer than this crate: its texts are announced as they are.
            _ => self.other(event, critical),
        };
        out.extend(self.finish(now, &id, drafts, critical));
        out
    }

    /// Releases the output of another session as it is, if too many are unfinished.
    fn release_excess_output(&mut self, now: Moment, event: &Event) -> Vec<Utterance> {
        if self.sessions.values().map(|s| s.outputs.len()).sum::<usize>() < MAX_OPEN_OUTPUTS {
            return Vec::new();
        }
        let others = self.sessions.iter().filter(|(id, s)| **id != event.envelope.session_id && !s.outputs.is_empty());
        let Some(silent) = others.min_by_key(|(_, s)| s.last_event).map(|(id, _)| id.clone()) else {
            return Vec::new();
        };
        let output = self.sessions.get_mut(&silent).and_then(|s| s.outputs.pop_first());
        let Some((_, output)) = output else { return Vec::new() };
        let language = output.language.clone();
        let drafts = self.output_utterances(output.abandon(), &language, &silent);
        self.finish(now, &silent, drafts, false)
    }

    /// Adds or updates the session of an event. Returns `false` for events after the end of a session, unless they are
    /// critical or start it again.
    fn admit(&mut self, now: Moment, event: &Event, critical: bool) -> bool {
        let id = &event.envelope.session_id;
        let begins = event.core_type() == Some(CoreType::SessionStarted);
        match self.sessions.get_mut(id) {
            Some(session) if session.ended.is_some() && !begins && !critical => return false,
            Some(session) if session.ended.is_none() => {
                session.last_event = now;
                session.stall_notices = 0;
                session.unreported.any = true;
                return true;
            }
            _ => {}
        }
        self.sessions.insert(id.clone(), SessionState::new(now, event, self.agent_name(event)));
        if self.sessions.len() > MAX_SESSIONS {
            let others = self.sessions.iter().filter(|(other, _)| *other != id);
            let idle = others.min_by_key(|(_, s)| (s.ended.is_none(), s.last_event)).map(|(other, _)| other.clone());
            if let Some(idle) = idle {
                self.sessions.remove(&idle);
                self.fingerprints.remove(idle.as_str());
            }
        }
        true
    }

    /// Completes utterances: adds names, drops repetitions, respects quiet hours, splits long texts.
    fn finish(&mut self, now: Moment, id: &SessionId, drafts: Vec<PendingUtterance>, critical: bool) -> Vec<Utterance> {
        let agent = self.sessions.get(id).map(|s| s.agent.clone());
        let mut name = agent.clone().filter(|_| self.several_agents(id) || self.needs_introduction(id));
        let mut out = Vec::new();
        // A question or a failure is one block, from its headline to its end.
        let block = drafts.iter().any(|draft| draft.utterance.priority == Priority::Important);
        for draft in drafts {
            let mut utterance = draft.utterance;
            if block && !draft.output {
                utterance.turn = Turn::First;
            }
            if utterance.text.is_empty() || (self.quiet && !critical) {
                continue;
            }
            if let Some(agent) = name.take()
                && !draft.named
            {
                let phrases = phrases_for(&utterance.language, &self.profile.languages);
                utterance.text = phrase!(phrases, "agent-says", agent = &agent, text = &utterance.text);
            }
            utterance.agent.clone_from(&agent);
            if draft.output || self.is_new(&utterance) {
                self.count_time(now, &utterance);
                out.extend(self.split_long(utterance));
            }
        }
        if let Some(session) = self.sessions.get_mut(id) {
            session.introduced |= !out.is_empty();
            if out.iter().any(|u| u.priority >= Priority::Progress) {
                session.last_announced = now;
                session.heartbeats = 0;
            }
        }
        out
    }

    /// Splits a long utterance into several, each of whole sentences. The sound goes with the first.
    fn split_long(&self, utterance: Utterance) -> Vec<Utterance> {
        if spoken_words(&utterance.text) <= self.profile.max_utterance_words() {
            return vec![utterance];
        }
        let texts = split_text(vec![utterance.text.clone().into()], &utterance.language, &self.profile);
        let mut earcon = utterance.earcon;
        let part = |unit: SpokenUnit| Utterance { text: unit.text, earcon: earcon.take(), ..utterance.clone() };
        texts.into_iter().map(part).collect()
    }

    /// Returns whether the last announcement about the same subject was another one, and remembers this one.
    fn is_new(&mut self, utterance: &Utterance) -> bool {
        let about = utterance.about.clone().unwrap_or_default();
        let print = fingerprint(&utterance.text);
        if self.fingerprints.get(&about) == Some(&print) {
            return false;
        }
        if self.fingerprints.len() >= MAX_FINGERPRINTS && !self.fingerprints.contains_key(&about) {
            self.fingerprints.pop_first();
        }
        self.fingerprints.insert(about, print);
        true
    }

    fn count_time(&mut self, now: Moment, utterance: &Utterance) {
        let pace = u64::from(self.profile.pace_wpm);
        if pace > 0 && utterance.priority >= Priority::Message {
            let from = if utterance.interrupts { now } else { self.busy_until.max(now) };
            self.busy_until = from.plus_millis(spoken_words(&utterance.text) * 60_000 / pace);
        }
    }

    /// Returns whether more than one agent is at work, so that each has to be named.
    fn several_agents(&self, with: &SessionId) -> bool {
        let at_work = self.sessions.iter().filter(|(id, s)| s.ended.is_none() || *id == with);
        let mut agents = at_work.map(|(_, s)| &s.agent_id);
        agents.next().is_some_and(|first| agents.any(|agent| agent != first))
    }

    /// Returns whether a session belongs to an agent that is relayed, and was not announced yet.
    fn needs_introduction(&self, id: &SessionId) -> bool {
        let Some(session) = self.sessions.get(id) else { return false };
        !session.introduced && self.serving.as_ref().is_some_and(|serving| *serving != session.agent_id)
    }

    fn user_phrases(&self) -> &'static Phrases {
        Phrases::for_languages(&self.profile.languages)
    }

    /// Makes a text of an event speakable.
    fn spoken(&self, text: &LocalizedText) -> LocalizedText {
        LocalizedText::new(speakable(&text.text, "text/plain", &text.language, &self.profile), text.language.clone())
    }

    /// Returns the summary of an event, made speakable.
    fn summary(&self, event: &Event) -> Option<LocalizedText> {
        summary(event, &self.profile).map(|text| self.spoken(&text)).filter(|text| !text.text.is_empty())
    }

    fn is_low_load(&self) -> bool {
        self.profile.cognitive_load == CognitiveLoad::Low
    }

    fn started(&mut self, now: Moment, event: &Event, started: &SessionStarted) -> Vec<PendingUtterance> {
        let text = self.summary(event);
        let Some(session) = self.sessions.get_mut(&event.envelope.session_id) else { return Vec::new() };
        session.title = text.clone().map(|t| LocalizedText::new(headline(&t.text).0, t.language));
        session.enter(now, Activity::Working);
        session.expect(now, started.expected_duration_ms);
        let about = event.envelope.session_id.as_str();
        text.map(|text| PendingUtterance::new(text, Priority::Message, about).earcon(Earcon::Started).passing())
            .into_iter()
            .collect()
    }

    fn state_changed(&mut self, now: Moment, event: &Event, change: &StateChanged) -> Vec<PendingUtterance> {
        if let Some(session) = self.sessions.get_mut(&event.envelope.session_id) {
            session.enter(now, Activity::from_state(&change.to_state));
            session.expect(now, change.expected_duration_ms);
        }
        let about = event.envelope.session_id.as_str();
        if let Some(text) = self.outcome(event) {
            return vec![PendingUtterance::new(text, Priority::Message, about).first()];
        }
        let priority = priority_of(event);
        let text = self.summary(event).filter(|_| !self.is_low_load());
        text.map(|text| PendingUtterance::new(text, priority, about).passing()).into_iter().collect()
    }

    fn progress(&mut self, now: Moment, event: &Event, updated: &ProgressUpdated) -> Vec<PendingUtterance> {
        let about = event.envelope.session_id.as_str();
        let counts_down = prompt::consent(event).is_some();
        let percent = updated.progress.percent.map(|p| p.0).filter(|p| p.is_finite());
        let low_load = self.is_low_load();
        let Some(session) = self.sessions.get_mut(&event.envelope.session_id) else { return Vec::new() };
        session.expect(now, updated.eta_ms);
        if let (Some(new), Some((old, at)), false) = (percent, session.progress, counts_down) {
            let soon = now.since(at) < PERCENT_INTERVAL_SECS * 1_000_000;
            if soon && (new - old).abs() < PERCENT_STEP && new < 100.0 {
                return Vec::new();
            }
        }
        if low_load && !counts_down {
            return Vec::new();
        }
        if let Some(percent) = percent {
            session.progress = Some((percent, now));
        }
        let text = self.summary(event).or_else(|| self.progress_text(event, updated));
        text.map(|text| PendingUtterance::new(text, Priority::Progress, about).passing()).into_iter().collect()
    }

    /// Returns a text for progress without a summary.
    fn progress_text(&self, event: &Event, updated: &ProgressUpdated) -> Option<LocalizedText> {
        let phrases = self.user_phrases();
        let mut parts = Vec::new();
        match (updated.progress.step, updated.progress.total_steps) {
            (Some(step), Some(total)) => parts.push(phrase!(phrases, "step", step = step, total = total)),
            (Some(step), None) => parts.push(phrase!(phrases, "step-alone", step = step)),
            _ => {}
        }
        if let Some(percent) = updated.progress.percent.map(|p| p.0).filter(|p| p.is_finite()) {
            parts.push(phrase!(phrases, "percent", percent = percent.clamp(0.0, 100.0).round() as u64));
        }
        let described = updated.progress.description.as_deref().filter(|d| !d.trim().is_empty());
        if let Some(description) = described {
            let language = words::primary(event, &self.profile).to_string();
            if parts.is_empty() {
                return Some(self.spoken(&LocalizedText::new(description, language)));
            }
            parts.push(self.spoken(&LocalizedText::new(description, language)).text);
        }
        (!parts.is_empty()).then(|| LocalizedText::new(parts.join(" "), phrases.language()))
    }

    fn output(&mut self, now: Moment, event: &Event, chunk: &OutputStreaming) -> Vec<PendingUtterance> {
        let id = &event.envelope.session_id;
        let language = chunk.language.clone().unwrap_or_else(|| words::primary(event, &self.profile)).to_string();
        let whole = self.is_low_load();
        let mut drafts = Vec::new();
        let key = chunk.output_id.as_ref().map_or_else(String::new, |id| id.as_str().to_owned());
        let Some(session) = self.sessions.get_mut(id) else { return drafts };
        session.enter(now, Activity::Writing);
        let mut ended = Vec::new();
        if session.outputs.len() >= MAX_SESSION_OUTPUTS && !session.outputs.contains_key(&key) {
            ended.extend(session.outputs.pop_first().map(|(_, output)| output));
        }
        let fresh = || StreamedOutput::new(chunk, language.clone(), &self.profile, whole);
        let mut output = session.outputs.remove(&key).unwrap_or_else(fresh);
        if output.language != language {
            let next = fresh().continuing(&output);
            ended.push(std::mem::replace(&mut output, next));
        }
        let ready = output.push(chunk);
        if !chunk.complete {
            session.outputs.insert(key, output);
        }
        session.unreported.words += spoken_words(&chunk.chunk);
        for output in ended {
            let language = output.language.clone();
            drafts.extend(self.output_utterances(output.abandon(), &language, id));
        }
        if ready.gap {
            let text = LocalizedText::new(self.user_phrases().text("gap-text"), self.user_phrases().language());
            drafts.push(PendingUtterance::new(text, Priority::Message, id.as_str()));
        }
        drafts.extend(self.output_utterances(ready.units, &language, id));
        if !drafts.is_empty() {
            drafts.splice(0..0, self.sum_up_tools(id));
        }
        drafts
    }

    fn output_utterances(&self, units: Vec<SpokenUnit>, language: &str, id: &SessionId) -> Vec<PendingUtterance> {
        let split_text = split_text(units, language, &self.profile).into_iter();
        let draft = |unit: SpokenUnit| {
            let text = LocalizedText::new(unit.text, language);
            let mut draft = PendingUtterance::new(text, Priority::Message, id.as_str());
            (draft.output, draft.utterance.heading) = (true, unit.heading);
            draft
        };
        split_text.map(draft).collect()
    }

    /// Announces an event of an extension by its summary.
    fn other(&mut self, event: &Event, critical: bool) -> Vec<PendingUtterance> {
        let Some(text) = self.summary(event) else { return Vec::new() };
        let about = event.envelope.session_id.as_str();
        if !critical {
            let wanted = !self.is_low_load();
            return wanted.then(|| PendingUtterance::new(text, priority_of(event), about)).into_iter().collect();
        }
        self.headline_and_rest(text, about)
    }

    /// Announces a critical text: its headline at once, then all of it if there is more.
    fn headline_and_rest(&self, text: LocalizedText, about: &str) -> Vec<PendingUtterance> {
        let (short, is_all) = headline(&text.text);
        let short = LocalizedText::new(sentence(&short), text.language.clone());
        let mut drafts = vec![PendingUtterance::new(short, Priority::Important, about).interrupting(false)];
        if !is_all {
            drafts.push(PendingUtterance::new(text, Priority::Message, about));
        }
        drafts
    }
}

/// Returns a hash of a text. An agent that provokes a collision only suppresses its own announcement.
fn fingerprint(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn priority_of(event: &Event) -> Priority {
    if *event.urgency() == Urgency::Background { Priority::Notification } else { Priority::Message }
}
