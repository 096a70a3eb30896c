//! Parses what the user types: a word or a letter, then Enter.

use crate::LineKind;

/// The longest line that front ends should accept; more than anyone types.
pub const MAX_LINE_BYTES: usize = 16 * 1024;

/// A typed line, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TypedCommand {
    /// An empty line.
    Empty,
    /// Accepts a question. `whole` if the word was written out.
    Yes { named: Option<u32>, whole: bool },
    /// Rejects a question.
    No { named: Option<u32> },
    /// Answers the question with this number in words.
    AnswerTo(u32, String),
    /// Answers in words, also in words that are commands.
    Answer(String),
    /// A number alone: a choice, an answer, or the number of a question.
    Number(String),
    /// Repeats a question, or the last line.
    Repeat(Option<u32>),
    /// Prints every field of a question, exactly as it came. Long codes in full only with `all`.
    Details { named: Option<u32>, all: bool },
    /// Stops speech.
    Stop,
    /// Lists the open questions.
    ListQuestions,
    /// Describes what the agents do.
    Status,
    /// Sums up what happened.
    CatchUp,
    /// Repeats the next or previous line of the transcript.
    Walk { back: bool, kind: Option<LineKind> },
    /// Announces less.
    Less,
    /// Announces more.
    More,
    /// Announces only critical events of an agent. Without a name: of the only one, else lists their names.
    Mute(String),
    /// Announces all events of an agent again.
    Unmute(String),
    /// Asks an agent to stop, named by the number of its session or by its name.
    Cancel(String),
    /// Asks for more time for later questions.
    MoreTime,
    /// Turns the voice on or off.
    Voice(bool),
    /// Ends listening. `whole` if the word was written out.
    Close { whole: bool },
    /// Lists the commands.
    Help,
    /// Anything else: an answer in the user's own words, if an open question takes one.
    Other(String),
}

/// Words for yes in the languages of the locales. A single letter counts too, but not as the whole word.
const YES: [&str; 11] = ["yes", "accept", "sí", "si", "oui", "ja", "نعم", "bẹ́ẹ̀ni", "beeni", "aceptar", "accepter"];
/// Words for no in the languages of the locales.
const NO: [&str; 9] = ["no", "reject", "non", "nein", "لا", "bẹ́ẹ̀kọ́", "beeko", "rechazar", "ablehnen"];

/// Parses a line.
pub(crate) fn parse(line: &str) -> TypedCommand {
    let line = line.trim();
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let (word, rest) = (first.to_lowercase(), rest.trim());
    let number = parse_number(rest);
    // A command that takes at most a number is one only if nothing else follows.
    let plain = rest.is_empty() || number.is_some();
    match word.as_str() {
        "" => TypedCommand::Empty,
        yes if plain && (YES.contains(&yes) || matches!(yes, "y" | "a")) => {
            TypedCommand::Yes { named: number, whole: YES.contains(&yes) }
        }
        no if plain && (NO.contains(&no) || no == "n") => TypedCommand::No { named: number },
        "to" if rest.split_once(char::is_whitespace).is_some_and(|(n, _)| parse_number(n).is_some()) => {
            let (n, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            TypedCommand::AnswerTo(parse_number(n).unwrap_or(0), text.trim().to_owned())
        }
        "answer" | "say" if !rest.is_empty() => TypedCommand::Answer(rest.to_owned()),
        "repeat" | "r" if plain => TypedCommand::Repeat(number),
        "question" if plain => TypedCommand::Repeat(number),
        "details" | "detail" | "d" if plain => TypedCommand::Details { named: number, all: false },
        "details" | "detail" | "d" if rest.to_lowercase().ends_with("all") => {
            let named = rest[..rest.len() - "all".len()].trim();
            match parse_number(named) {
                None if !named.is_empty() => TypedCommand::Other(line.to_owned()),
                named => TypedCommand::Details { named, all: true },
            }
        }
        _ if is_numeric(line) => TypedCommand::Number(line.to_owned()),
        _ => parse_without_number(&word, rest, line),
    }
}

/// Parses commands without a number.
fn parse_without_number(word: &str, rest: &str, line: &str) -> TypedCommand {
    let rest_lower = rest.to_lowercase();
    match (word, rest_lower.as_str()) {
        ("stop" | "s" | "hush", "" | "speech") => TypedCommand::Stop,
        ("waiting" | "pending" | "w", "") | ("what", "waits" | "is waiting") => TypedCommand::ListQuestions,
        ("where", "" | "am i") => TypedCommand::Status,
        ("catch", "up" | "me up") | ("c" | "catchup", "") => TypedCommand::CatchUp,
        ("next" | "previous" | "prev" | "p", kind) if kind.is_empty() || LineKind::from_name(kind).is_some() => {
            TypedCommand::Walk { back: word != "next", kind: LineKind::from_name(kind) }
        }
        ("terser" | "less", "") => TypedCommand::Less,
        ("more", "") => TypedCommand::More,
        ("more", "time") | ("time", "") => TypedCommand::MoreTime,
        ("mute", _) => TypedCommand::Mute(rest.to_owned()),
        ("unmute", _) => TypedCommand::Unmute(rest.to_owned()),
        ("cancel", _) => TypedCommand::Cancel(rest.to_owned()),
        ("voice", "on") => TypedCommand::Voice(true),
        ("voice", "off") => TypedCommand::Voice(false),
        ("close" | "quit" | "exit", "") => TypedCommand::Close { whole: true },
        ("q", "") => TypedCommand::Close { whole: false },
        ("help" | "h" | "?", "") => TypedCommand::Help,
        _ => TypedCommand::Other(line.to_owned()),
    }
}

/// Returns the number of a question, written with or without `#`.
pub(crate) fn parse_number(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('#').unwrap_or(text);
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok()).flatten()
}

/// Returns whether a text is a number that answers a numeric question.
pub(crate) fn is_numeric(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'))
        && text.replace(',', ".").parse::<f64>().is_ok_and(f64::is_finite)
}

/// The help text, line by line.
pub(crate) const HELP_LINES: [&str; 13] = [
    "Type a word or its letter, then Enter. Answer: yes, no, the number of a choice, or your own words.",
    "yes 2, no 2, to 2 and your words: answer question 2.",
    "answer and your words: for words that are also commands.",
    "repeat, or r: say the question again. repeat 2: question 2.",
    "details, or d: everything about the question, exactly as it came. details all: long codes in full too.",
    "waiting, or w: what waits for you. where: what the agents do. catch up, or c: what you missed.",
    "next and previous: walk what was said. Add a kind: question, text, heading, tool, start, end, progress, note.",
    "stop, s, or Enter alone: silence the voice; the agents go on. voice on, voice off.",
    "terser, more: hear less or more.",
    "mute and a name, unmute and a name: hear only questions and failures of an agent.",
    "cancel: ask the agent to stop; it decides. cancel and a number or a name: one of several.",
    "more time: get more time for answers from the next question on.",
    "close: stop listening. help, or h: this help.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_letters_are_parsed_as_commands() {
        for (line, command) in [
            ("", TypedCommand::Empty),
            ("  yes ", TypedCommand::Yes { named: None, whole: true }),
            ("y", TypedCommand::Yes { named: None, whole: false }),
            ("Accept 3", TypedCommand::Yes { named: Some(3), whole: true }),
            ("a #2", TypedCommand::Yes { named: Some(2), whole: false }),
            ("NEIN", TypedCommand::No { named: None }),
            ("n 4", TypedCommand::No { named: Some(4) }),
            ("to 2 Lagos, please", TypedCommand::AnswerTo(2, "Lagos, please".into())),
            ("answer no", TypedCommand::Answer("no".into())),
            ("3", TypedCommand::Number("3".into())),
            ("-2,5", TypedCommand::Number("-2,5".into())),
            ("r", TypedCommand::Repeat(None)),
            ("question 2", TypedCommand::Repeat(Some(2))),
            ("d 1", TypedCommand::Details { named: Some(1), all: false }),
            ("details all", TypedCommand::Details { named: None, all: true }),
            ("details 2 ALL", TypedCommand::Details { named: Some(2), all: true }),
            ("next heading", TypedCommand::Walk { back: false, kind: Some(LineKind::Heading) }),
            ("catch me up", TypedCommand::CatchUp),
            ("Where am I", TypedCommand::Status),
            ("prev tool", TypedCommand::Walk { back: true, kind: Some(LineKind::Tool) }),
            ("next", TypedCommand::Walk { back: false, kind: None }),
            ("more time", TypedCommand::MoreTime),
            ("more", TypedCommand::More),
            ("mute Bank", TypedCommand::Mute("Bank".into())),
            ("voice off", TypedCommand::Voice(false)),
            ("q", TypedCommand::Close { whole: false }),
        ] {
            assert_eq!(parse(line), command, "{line:?}");
        }
    }

    #[test]
    fn sentences_are_not_commands() {
        for line in ["no sugar, please", "yes and no", "to Lagos", "next week", "repeat after me", "1 or 2", "x"] {
            assert_eq!(parse(line), TypedCommand::Other(line.into()), "{line:?}");
        }
    }
}
