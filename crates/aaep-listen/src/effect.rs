//! What the front end has to do.

use aaep_announce::{Earcon, Utterance};
use aaep_proto::id::SessionId;
use aaep_proto::message::Capabilities;
use aaep_proto::subscriber::{PromptAnswer, PromptId};
use serde_json::Value;

use crate::Line;

/// One thing that the front end has to do, in the order in which [`drain_effects`](crate::Listener::drain_effects)
/// returns them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Effect {
    /// Print this line, and keep it where lines are kept.
    PrintLine(Line),
    /// Print this object, if the output is for programs.
    PrintJson(Value),
    /// Speak this utterance.
    Speak(Utterance),
    /// Stop what is being spoken and speak this response to the user, as [`Utterance::turn`] says. Text that was stopped is
    /// spoken again after it.
    Respond(Utterance),
    /// Cancel speech whose [`Utterance::about`] is this key.
    CancelSpeech(String),
    /// Stop all speech.
    Silence,
    /// Play a short sound.
    PlaySound(Earcon),
    /// Send a reply, then call [`handle_reply_result`](crate::Listener::handle_reply_result).
    SendReply {
        /// The index of the producer.
        producer: usize,
        /// The prompt that is answered.
        prompt: PromptId,
        /// The number of the question.
        number: u32,
        /// The answer.
        answer: PromptAnswer,
    },
    /// Ask an agent to stop, then call [`handle_cancel_result`](crate::Listener::handle_cancel_result).
    RequestCancel {
        /// The index of the producer.
        producer: usize,
        /// The session to cancel.
        session: SessionId,
        /// The name of the agent.
        agent: String,
    },
    /// Ask all producers for these capabilities.
    Renegotiate(Box<Capabilities>),
    /// Run the user's own command for a question, then call
    /// [`handle_hook_result`](crate::Listener::handle_hook_result).
    RunHook {
        /// The number of the question.
        number: u32,
        /// The question as JSON.
        question: Value,
    },
    /// Turn the voice on or off.
    SetVoice(bool),
    /// End the program now.
    Exit,
    /// End the program once everything was spoken and [`has_unspoken`](crate::Listener::has_unspoken) is `false`.
    ExitWhenSpoken,
}
