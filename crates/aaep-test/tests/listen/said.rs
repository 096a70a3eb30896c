//! What a real speech-dispatcher was sent and what it spoke, as lists to compare.

use std::fmt;

use aaep_test::speechd::TestSpeechd;

/// One utterance.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Said {
    priority: String,
    language: String,
    pub(crate) text: String,
    /// Whether it is output of the agent, which may be split anywhere between sentences.
    flows: bool,
}

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:?}", self.priority, self.language, self.text)
    }
}

fn said(priority: &str, language: &str, text: &str) -> Said {
    Said { priority: priority.into(), language: language.into(), text: text.into(), flows: false }
}

/// An important utterance: a headline.
pub(crate) fn important(text: &str) -> Said {
    said("important", "en", text)
}

/// An utterance of normal priority.
pub(crate) fn message(text: &str) -> Said {
    said("message", "en", text)
}

/// An utterance that a newer one may replace.
pub(crate) fn progress(text: &str) -> Said {
    said("progress", "en", text)
}

/// An utterance that is spoken only in silence.
pub(crate) fn notification(text: &str) -> Said {
    said("notification", "en", text)
}

/// Output of the agent in a language, whole or sentence by sentence.
pub(crate) fn text(language: &str, text: &str) -> Said {
    Said { flows: true, ..said("message", language, text) }
}

impl Said {
    /// Sets the language, which is English otherwise.
    pub(crate) fn in_language(self, language: &str) -> Said {
        Said { language: language.into(), ..self }
    }
}

/// Returns what clients sent to speech-dispatcher. Each text has the priority and the language that were set last.
pub(crate) fn told(place: &TestSpeechd) -> Vec<Said> {
    let lines = place.lines();
    let (mut priority, mut language) = ("", "");
    let mut all = Vec::new();
    let mut parts: Option<Vec<&str>> = None;
    for line in &lines {
        match &mut parts {
            Some(text) if line == "." => {
                all.push(said(priority, language, &text.join(" ")));
                parts = None;
            }
            Some(text) => text.push(line.strip_prefix("..").map_or(line, |_| &line[1..])),
            None if line == "SPEAK" => parts = Some(Vec::new()),
            None => match line.rsplit_once(' ') {
                Some(("SET self PRIORITY", value)) => priority = value,
                Some(("SET self LANGUAGE", value)) => language = value,
                _ => {}
            },
        }
    }
    all
}

/// Returns what was spoken to its end, in order. A text that was interrupted is sent twice and spoken once.
pub(crate) fn heard(place: &TestSpeechd) -> Vec<Said> {
    let notes = place.spoken();
    let told = told(place);
    let ended = notes.windows(2).filter(|pair| pair[1] == "end").filter_map(|pair| pair[0].strip_prefix("begin "));
    let find = |note: &str| {
        let (language, text) = note.split_once(' ').unwrap_or((note, ""));
        let same = told.iter().rev().find(|said| said.text == text && said.language == language);
        same.unwrap_or_else(|| panic!("nobody told it to say {note:?}, but:\n{told:#?}")).clone()
    };
    ended.map(find).collect()
}

/// Returns the list without differences of timing: pieces of output are joined as expected, and progress that a newer one
/// replaced is added again.
pub(crate) fn gathered(all: Vec<Said>, wanted: &[Said]) -> Vec<Said> {
    let mut out: Vec<Said> = Vec::new();
    for mut next in all {
        if let Some([passed, newer]) = wanted.get(out.len()..out.len() + 2)
            && *newer == next
            && passed.priority == "progress"
            && newer.priority == "progress"
        {
            out.push(passed.clone());
        }
        let want = out.len().checked_sub(1).and_then(|last| wanted.get(last)).filter(|want| want.flows);
        if let (Some(last), Some(want)) = (out.last_mut(), want) {
            let longer = format!("{} {}", last.text, next.text);
            let alike = (&next.priority, &next.language) == (&last.priority, &last.language);
            if alike && want.text.starts_with(&longer) {
                last.text = longer;
                continue;
            }
        }
        next.flows = wanted.get(out.len()).is_some_and(|want| want.flows);
        out.push(next);
    }
    out
}
