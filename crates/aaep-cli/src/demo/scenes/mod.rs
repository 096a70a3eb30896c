//! Scripted agents that show what assistive technology hears. Each scene is one session from its beginning to
//! exactly one end; together they use all twelve events.

mod banking;
mod greetings;
mod pace;
mod photos;
mod printer;
mod report;
mod support;
mod trip;

#[cfg(test)]
mod tests;

use aaep::{Error, LanguageTag, Producer, Session, ToolError};

pub(crate) use pace::Pace;

/// A session that the demo can play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scene {
    /// The session of chapter 4.6.
    Banking,
    /// Questions of all four kinds.
    Trip,
    /// Tools that fail and time out, and an end by an error.
    Printer,
    /// Progress, and a task that the user may stop.
    Photos,
    /// Handing over to a person.
    Support,
    /// Five languages.
    Greetings,
    /// A long text in small tokens.
    Report,
}

impl Scene {
    /// All scenes, in the order in which they are best heard.
    pub(crate) const ALL: [Scene; 7] =
        [Scene::Banking, Scene::Trip, Scene::Printer, Scene::Photos, Scene::Support, Scene::Greetings, Scene::Report];

    /// The name to call it by.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scene::Banking => "banking",
            Scene::Trip => "trip",
            Scene::Printer => "printer",
            Scene::Photos => "photos",
            Scene::Support => "support",
            Scene::Greetings => "greetings",
            Scene::Report => "report",
        }
    }

    /// What happens in it, in one sentence.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Scene::Banking => "Looks up a balance and asks before it moves money for good.",
            Scene::Trip => "Plans a trip and asks four questions: a text, a choice, a number, yes or no.",
            Scene::Printer => "Tries to print, with one tool that fails and one that never answers, and gives up.",
            Scene::Photos => "Sorts photos, tells how far it is, and stops when you say so.",
            Scene::Support => "Finds that a person must help, and hands over.",
            Scene::Greetings => "Tells a library's hours in English, Spanish, German, Arabic and Yoruba.",
            Scene::Report => "Writes a long report with headings, a table and code, a few letters at a time.",
        }
    }

    /// The scene of this name.
    pub(crate) fn find(name: &str) -> Option<Scene> {
        Scene::ALL.into_iter().find(|scene| scene.name() == name)
    }
}

/// The languages that the scenes speak, for the producer to offer. English is the first.
pub(crate) fn languages() -> Vec<LanguageTag> {
    ["en", "es", "de", "ar", "yo"].into_iter().map(tag).collect()
}

/// Plays a scene at a pace.
pub(crate) async fn play_at(scene: Scene, producer: &Producer, pace: Pace) -> Result<(), Error> {
    match scene {
        Scene::Banking => banking::play(producer, pace).await,
        Scene::Trip => trip::play(producer, pace).await,
        Scene::Printer => printer::play(producer, pace).await,
        Scene::Photos => photos::play(producer, pace).await,
        Scene::Support => support::play(producer, pace).await,
        Scene::Greetings => greetings::play(producer, pace).await,
        Scene::Report => report::play(producer, pace).await,
    }
}

/// A language of the scenes.
fn tag(text: &str) -> LanguageTag {
    text.parse().expect("the scenes name languages that exist")
}

/// Writes a text the way a model does: a few letters at a time.
async fn tell(session: &Session, pace: Pace, content_type: &str, text: &str) -> Result<(), Error> {
    let output = session.output_in(content_type, None).await?;
    for token in tokens(text) {
        output.write(token).await?;
        pace.token().await;
    }
    output.finish().await
}

/// Cuts a text into pieces of at most five characters: models do not know of words either.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(5).map_or(rest.len(), |(at, _)| at);
        let (token, after) = rest.split_at(end);
        rest = after;
        (!token.is_empty()).then_some(token)
    })
}

/// Tools of scenes work or fail as written; only a refusal to announce them is a mistake.
fn as_written<T>(result: Result<T, ToolError<&'static str>>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(ToolError::Refused(error)) => Err(error),
        Err(_) => Ok(None),
    }
}
