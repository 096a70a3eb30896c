//! Runs a `Listener`: feeds it from the keyboard, the network and the clock, and performs its effects. It decides
//! nothing.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use aaep_listen::{Effect, Listener};
use aaep_proto::subscriber::SubscriberEvent;
use aaep_runtime::{Clock, system_time};
use aaep_voice::VoiceEvent;
use aaep_voice::ssip::Events;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::hook::Hooks;
use super::keyboard::KeyboardInput;
use super::outputs::Outputs;
use super::socket::{ControlCall, ControlSocket};
use super::source::EventSource;

/// How often the time of day is compared with the quiet hours.
const QUIET_HOURS_CHECK_INTERVAL: Duration = Duration::from_secs(20);
/// How long closing the subscriptions may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A `Listener` with its inputs and outputs.
pub(crate) struct Runner<S> {
    pub(crate) listener: Listener,
    pub(crate) source: S,
    pub(crate) outputs: Outputs,
    /// Lines from the keyboard and from the braille display.
    pub(crate) keyboard: mpsc::Receiver<KeyboardInput>,
    pub(crate) hooks: Hooks,
    clock: Clock,
    exiting: bool,
    /// Whether the program ends once everything was spoken.
    exiting_when_spoken: bool,
    /// Whether all subscriptions have ended.
    source_ended: bool,
    /// Whether the connection to the voice is lost.
    voice_lost: bool,
    /// Requests of other processes of the user.
    control: mpsc::Receiver<ControlCall>,
    /// Its file is removed when this is dropped.
    socket: Option<ControlSocket>,
}

impl<S: EventSource> Runner<S> {
    /// Creates a runner. `clock` must be the one that `source` counts by.
    pub(crate) fn new(listener: Listener, source: S, outputs: Outputs, clock: Clock) -> Runner<S> {
        // The senders are dropped: nothing comes until the receivers are replaced.
        let (_, keyboard) = mpsc::channel(1);
        let (_, control) = mpsc::channel(1);
        Runner {
            listener,
            source,
            outputs,
            keyboard,
            hooks: Hooks::default(),
            clock,
            exiting: false,
            exiting_when_spoken: false,
            source_ended: false,
            voice_lost: false,
            control,
            socket: None,
        }
    }

    /// Lets other processes of the user list and answer questions. Without it everything else works.
    pub(crate) async fn open_socket(&mut self) {
        match super::socket::open(&aaep_local::directory()).await {
            Ok((socket, control)) => {
                self.control = control;
                self.socket = Some(socket);
            }
            Err(error) => tracing::warn!(%error, "cannot open the control socket; aaep accept and reject do not work"),
        }
    }

    /// Runs until `stop` completes or until the user leaves. Also ends when all subscriptions have ended or `over` has
    /// completed, and everything was spoken.
    pub(crate) async fn run(
        &mut self,
        stop: impl Future<Output = ()>,
        over: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let (mut stop, mut over) = (pin!(stop), pin!(over));
        let mut is_over = false;
        let mut voice = None;
        loop {
            self.update_quiet_hours();
            self.perform_effects().await?;
            if self.exiting || self.exiting_when_spoken && self.is_all_spoken() {
                return Ok(());
            }
            voice = match &self.outputs.voice {
                Some(current) => voice.or_else(|| Some(current.events())),
                None => None,
            };
            let check = self.clock.now().moment.plus_seconds(QUIET_HOURS_CHECK_INTERVAL.as_secs());
            let due = self.listener.next_deadline().map_or(check, |due| due.min(check));
            tokio::select! {
                biased;
                () = &mut stop => return Ok(()),
                Some(input) = self.keyboard.recv() => self.handle_keyboard(&input),
                Some(call) = self.control.recv() => {
                    let response = self.listener.handle_request(self.clock.now().moment, &call.request);
                    // The caller may have gone.
                    let _ = call.respond.send(response);
                }
                event = self.source.next(), if !self.source_ended => self.handle_source_event(event),
                () = &mut over, if !is_over => (is_over, self.exiting_when_spoken) = (true, true),
                hook = self.hooks.next() => {
                    self.listener.handle_hook_result(self.clock.now().moment, hook.number, hook.result);
                }
                event = next_voice_event(&mut voice) => self.handle_voice_event(&event),
                () = self.clock.sleep_until(Some(due)) => self.listener.handle_timeout(self.clock.now().moment),
            }
        }
    }

    /// Returns whether nothing is left to be spoken.
    fn is_all_spoken(&self) -> bool {
        let Some(voice) = &self.outputs.voice else { return true };
        self.voice_lost || (voice.is_idle() && !self.listener.has_unspoken())
    }

    /// Closes the subscriptions and silences the voice.
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        self.perform_effects().await?;
        // A producer that does not respond must not keep the program running.
        let _ = timeout(CLOSE_TIMEOUT, self.source.close()).await;
        if let Some(voice) = &self.outputs.voice {
            voice.stop();
        }
        Ok(())
    }

    fn handle_keyboard(&mut self, input: &KeyboardInput) {
        match &input.line {
            Some(line) => self.listener.handle_line(self.clock.moment(input.entered), line),
            None => self.exiting = true,
        }
    }

    fn handle_source_event(&mut self, event: Option<(usize, SubscriberEvent)>) {
        let Some((producer, event)) = event else {
            (self.source_ended, self.exiting_when_spoken) = (true, true);
            return;
        };
        if let SubscriberEvent::Notice(notice) = &event {
            tracing::debug!(producer, %notice, "notice");
        }
        self.listener.handle_event(self.clock.now().moment, producer, event);
    }

    fn handle_voice_event(&mut self, event: &VoiceEvent) {
        match event {
            VoiceEvent::Lost(error) => {
                self.voice_lost = true;
                self.listener.note_phrase("ui-voice-gone", &[("why", error.to_string().as_str().into())]);
            }
            VoiceEvent::Back => {
                self.voice_lost = false;
                self.listener.note_phrase("ui-voice-back", &[]);
            }
            VoiceEvent::Ended { .. } | VoiceEvent::Canceled { .. } => {
                self.listener.handle_speech_finished(self.clock.now().moment);
            }
            // Nothing to do when speech begins.
            _ => {}
        }
    }

    fn update_quiet_hours(&mut self) {
        let quiet = super::settings::is_quiet_now(self.listener.profile());
        self.listener.set_quiet(quiet);
    }

    /// Performs effects until there are none.
    async fn perform_effects(&mut self) -> io::Result<()> {
        loop {
            let effects = self.listener.drain_effects();
            if effects.is_empty() {
                return Ok(());
            }
            for effect in effects {
                self.perform(effect).await?;
            }
        }
    }

    async fn perform(&mut self, effect: Effect) -> io::Result<()> {
        match effect {
            Effect::PrintLine(line) => {
                self.outputs.print_line(&system_time().to_string(), &line)?;
                if self.outputs.show_on_braille(&line).is_err() {
                    self.listener.set_braille(false);
                    self.listener.note_phrase("ui-braille-lost", &[]);
                }
            }
            Effect::PrintJson(object) => self.outputs.print_json(&system_time().to_string(), object)?,
            Effect::Speak(utterance) => {
                if let Some(Err(error)) = self.outputs.voice.as_ref().map(|voice| voice.say(utterance)) {
                    tracing::debug!(%error, "utterance not spoken");
                }
            }
            Effect::Respond(utterance) => {
                if let Some(Err(error)) = self.outputs.voice.as_ref().map(|voice| voice.respond(utterance)) {
                    tracing::debug!(%error, "response not spoken");
                }
            }
            Effect::CancelSpeech(key) => {
                if let Some(voice) = &self.outputs.voice {
                    voice.cancel_about(&key);
                }
            }
            Effect::Silence => {
                if let Some(voice) = &self.outputs.voice {
                    voice.stop();
                }
            }
            Effect::PlaySound(earcon) => {
                if let Err(error) = self.outputs.sounds.play(earcon) {
                    self.listener.note_phrase("ui-no-sound", &[("why", error.to_string().as_str().into())]);
                }
            }
            Effect::SendReply { producer, prompt, number, answer } => {
                let result = self.source.reply(producer, prompt, answer).await;
                self.listener.handle_reply_result(self.clock.now().moment, number, result);
            }
            Effect::RequestCancel { producer, session, agent } => {
                let result = self.source.request_cancel(producer, session).await;
                self.listener.handle_cancel_result(&agent, result);
            }
            Effect::Renegotiate(changes) => self.source.renegotiate(&changes).await,
            Effect::RunHook { number, question } => self.hooks.run(number, &question),
            Effect::SetVoice(on) => {
                let result = self.outputs.set_voice(on, self.listener.phrases()).await;
                self.listener.set_voice(self.outputs.voice.is_some());
                self.listener.note(result);
            }
            Effect::Exit => self.exiting = true,
            Effect::ExitWhenSpoken => self.exiting_when_spoken = true,
            _ => {}
        }
        Ok(())
    }
}

/// Waits for the next event of the voice; forever if there is no voice or it has ended.
async fn next_voice_event(voice: &mut Option<Events>) -> VoiceEvent {
    let event = match voice {
        Some(events) => events.next().await,
        None => None,
    };
    match event {
        Some(event) => event,
        None => std::future::pending().await,
    }
}
