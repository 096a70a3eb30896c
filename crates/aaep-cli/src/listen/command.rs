//! What the user types: a word or a letter, then Enter.

use super::line::Kind;

/// The longest line that is read; more than anyone types.
pub(crate) const LINE: usize = 16 * 1024;

/// What the user wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Nothing was typed.
    Nothing,
    /// Yes; `whole` if the word was written out.
    Yes { named: Option<u32>, whole: bool },
    /// No.
    No { named: Option<u32> },
    /// An answer to the question with this number.
    To(u32, String),
    /// An answer in words, whatever the words are.
    Answer(String),
    /// A number alone: of a choice, of a question, or an answer.
    Number(String),
    /// Say it again.
    Repeat(Option<u32>),
    /// Everything about a question, letter by letter.
    Details(Option<u32>),
    /// Silence.
    Stop,
    /// What waits for me?
    Waiting,
    /// Where am I?
    Where,
    /// What did I miss?
    CatchUp,
    /// The next or previous entry of the transcript.
    Walk { back: bool, kind: Option<Kind> },
    /// Say less.
    Terser,
    /// Say more.
    More,
    /// Hear only what is critical of an agent; all that can be muted are listed without a name.
    Mute(String),
    /// Hear an agent again.
    Unmute(String),
    /// Ask for more time.
    MoreTime,
    /// Voice on or off.
    Voice(bool),
    /// End listening.
    Close { whole: bool },
    /// What can I type?
    Help,
    /// Anything else: an answer in the user's own words, if such a question is open.
    Words(String),
}

/// Yes and no in the languages that questions are put in.
const YES: [&str; 11] = ["yes", "accept", "sí", "si", "oui", "ja", "نعم", "bẹ́ẹ̀ni", "beeni", "aceptar", "accepter"];
const NO: [&str; 9] = ["no", "reject", "non", "nein", "لا", "bẹ́ẹ̀kọ́", "beeko", "rechazar", "ablehnen"];

/// Reads a line.
pub(crate) fn parse(line: &str) -> Command {
    let line = line.trim();
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let (word, rest) = (first.to_lowercase(), rest.trim());
    let number = number_of(rest);
    // A command that takes at most a number is one only if nothing else follows.
    let plain = rest.is_empty() || number.is_some();
    match word.as_str() {
        "" => Command::Nothing,
        yes if plain && (YES.contains(&yes) || matches!(yes, "y" | "a")) => {
            Command::Yes { named: number, whole: YES.contains(&yes) }
        }
        no if plain && (NO.contains(&no) || no == "n") => Command::No { named: number },
        "to" if rest.split_once(char::is_whitespace).is_some_and(|(n, _)| number_of(n).is_some()) => {
            let (n, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            Command::To(number_of(n).unwrap_or(0), text.trim().to_owned())
        }
        "answer" | "say" if !rest.is_empty() => Command::Answer(rest.to_owned()),
        "repeat" | "r" if plain => Command::Repeat(number),
        "question" if plain => Command::Repeat(number),
        "details" | "detail" | "d" if plain => Command::Details(number),
        _ if number_text(line) => Command::Number(line.to_owned()),
        _ => other(&word, rest, line),
    }
}

/// Commands without a number.
fn other(word: &str, rest: &str, line: &str) -> Command {
    let rest_lower = rest.to_lowercase();
    match (word, rest_lower.as_str()) {
        ("stop" | "s" | "hush", "" | "speech") => Command::Stop,
        ("waiting" | "pending" | "w", "") | ("what", "waits" | "is waiting") => Command::Waiting,
        ("where", "" | "am i") => Command::Where,
        ("catch", "up" | "me up") | ("c" | "catchup", "") => Command::CatchUp,
        ("next" | "previous" | "prev" | "p", kind) if kind.is_empty() || Kind::named(kind).is_some() => {
            Command::Walk { back: word != "next", kind: Kind::named(kind) }
        }
        ("terser" | "less", "") => Command::Terser,
        ("more", "") => Command::More,
        ("more", "time") | ("time", "") => Command::MoreTime,
        ("mute", _) => Command::Mute(rest.to_owned()),
        ("unmute", _) => Command::Unmute(rest.to_owned()),
        ("voice", "on") => Command::Voice(true),
        ("voice", "off") => Command::Voice(false),
        ("close" | "quit" | "exit", "") => Command::Close { whole: true },
        ("q", "") => Command::Close { whole: false },
        ("help" | "h" | "?", "") => Command::Help,
        _ => Command::Words(line.to_owned()),
    }
}

/// The number of a question, with or without a sign.
pub(crate) fn number_of(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('#').unwrap_or(text);
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok()).flatten()
}

/// Whether a text is a number, as answers go.
pub(crate) fn number_text(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'))
        && text.replace(',', ".").parse::<f64>().is_ok_and(f64::is_finite)
}

/// What can be typed, line by line.
pub(crate) const HELP: [&str; 12] = [
    "Type a word or its letter, then Enter. Answer: yes, no, the number of a choice, or your own words.",
    "yes 2, no 2, to 2 and your words: answer question 2.",
    "answer and your words: for words that are also commands.",
    "repeat, or r: say the question again. repeat 2: question 2.",
    "details, or d: everything about the question, exactly as it came.",
    "waiting, or w: what waits for you. where: what the agents do. catch up, or c: what you missed.",
    "next and previous: walk what was said. Add a kind: question, text, tool, start, end, progress, note.",
    "stop, or s: silence the voice. voice on, voice off.",
    "terser, more: hear less or more.",
    "mute and a name, unmute and a name: hear only questions and failures of an agent.",
    "more time: get more time for answers from the next question on.",
    "close: stop listening. help, or h: this help.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_letters_are_commands() {
        for (line, command) in [
            ("", Command::Nothing),
            ("  yes ", Command::Yes { named: None, whole: true }),
            ("y", Command::Yes { named: None, whole: false }),
            ("Accept 3", Command::Yes { named: Some(3), whole: true }),
            ("a #2", Command::Yes { named: Some(2), whole: false }),
            ("NEIN", Command::No { named: None }),
            ("n 4", Command::No { named: Some(4) }),
            ("to 2 Lagos, please", Command::To(2, "Lagos, please".into())),
            ("answer no", Command::Answer("no".into())),
            ("3", Command::Number("3".into())),
            ("-2,5", Command::Number("-2,5".into())),
            ("r", Command::Repeat(None)),
            ("question 2", Command::Repeat(Some(2))),
            ("d 1", Command::Details(Some(1))),
            ("catch me up", Command::CatchUp),
            ("Where am I", Command::Where),
            ("prev tool", Command::Walk { back: true, kind: Some(Kind::Tool) }),
            ("next", Command::Walk { back: false, kind: None }),
            ("more time", Command::MoreTime),
            ("more", Command::More),
            ("mute Bank", Command::Mute("Bank".into())),
            ("voice off", Command::Voice(false)),
            ("q", Command::Close { whole: false }),
        ] {
            assert_eq!(parse(line), command, "{line:?}");
        }
    }

    #[test]
    fn sentences_are_words() {
        for line in ["no sugar, please", "yes and no", "to Lagos", "next week", "repeat after me", "1 or 2", "x"] {
            assert_eq!(parse(line), Command::Words(line.into()), "{line:?}");
        }
    }
}
