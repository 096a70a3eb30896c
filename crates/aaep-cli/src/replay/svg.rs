//! Draws the states of sessions as SVG, with a named lane for each state, so that nothing depends on colour. The
//! description of the picture has the same content as text.

use std::fmt::Write;

use super::summary::{SessionSummary, Summary, seconds};
use super::timeline::StateSpan;
use crate::output::Escaped;

/// All lengths are in pixels.
const WIDTH: u32 = 960;
/// Left edge of the lanes. The names of the states are left of it.
const LEFT: u32 = 200;
const RIGHT: u32 = 24;
const LANE: u32 = 28;
const HEAD: u32 = 40;
const FOOT: u32 = 44;
const TOP: u32 = 16;
/// Maximum number of sessions in one picture.
const MAX_SESSIONS: usize = 50;
/// Maximum number of lanes per session. Further states share the last lane.
const MAX_LANES: usize = 24;
/// Number of intervals of the time axis.
const AXIS_INTERVALS: u64 = 4;
/// Width of the mark of a question.
const MARK: f64 = 3.0;
/// Width of the sign beside a mark. Marks that are nearer share one.
const SIGN: f64 = 16.0;

const STYLE: &str = "text{font:14px sans-serif;fill:#111}.name{font-weight:bold;font-size:16px}.bar{fill:#1f4e79}\
.question{fill:#a33}.line{stroke:#767676}rect.back{fill:#fff}@media(prefers-color-scheme:dark){text{fill:#f5f5f5}.bar{fill:#9ecbff}\
.question{fill:#ffb3a7}rect.back{fill:#111}}";

/// Draws the states of all sessions.
pub(super) fn draw(summary: &Summary) -> String {
    let shown = &summary.sessions[..summary.sessions.len().min(MAX_SESSIONS)];
    let height = TOP + shown.iter().map(height).sum::<u32>();
    let title = match shown {
        [only] => format!("States of {}", only.heading()),
        many => format!("States of {} sessions", many.len()),
    };
    let mut description: Vec<String> = summary.state_lines().take(MAX_SESSIONS).collect();
    if summary.sessions.len() > MAX_SESSIONS {
        description.push(format!("{} more sessions are not drawn.", summary.sessions.len() - MAX_SESSIONS));
    }
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-labelledby=\"title desc\">\n<title id=\"title\">{}</title>\n<desc id=\"desc\">{}</desc>\n\
         <style>{STYLE}</style>\n<rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\"/>\n",
        escape(&title),
        escape(&description.join("\n")),
    );
    let mut top = TOP;
    for session in shown {
        top = draw_session(&mut svg, session, top);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Returns the states in the order of their first occurrence, one for each lane.
fn lanes(session: &SessionSummary) -> Vec<&str> {
    let mut lanes: Vec<&str> = Vec::new();
    for StateSpan { state, .. } in &session.states {
        if lanes.len() < MAX_LANES && !lanes.contains(&state.as_str()) {
            lanes.push(state);
        }
    }
    lanes
}

/// Returns the number of lanes: one for each state, and one for the questions if there are any.
fn lane_count(session: &SessionSummary) -> usize {
    lanes(session).len() + usize::from(!session.questions.is_empty())
}

fn height(session: &SessionSummary) -> u32 {
    HEAD + LANE * u32::try_from(lane_count(session)).unwrap_or(0) + FOOT
}

/// Where the parts of a session are in the picture.
struct Layout {
    top: u32,
    total_ms: u64,
}

impl Layout {
    fn x(&self, ms: u64) -> f64 {
        let width = f64::from(WIDTH - LEFT - RIGHT);
        f64::from(LEFT) + width * (ms.min(self.total_ms) as f64 / self.total_ms as f64)
    }

    fn lane_top(&self, lane: usize) -> u32 {
        self.top + HEAD + LANE * u32::try_from(lane).unwrap_or(0)
    }
}

fn draw_session(svg: &mut String, session: &SessionSummary, top: u32) -> u32 {
    let lanes = lanes(session);
    let layout = Layout { top, total_ms: session.duration_ms.max(1) };
    line(svg, format_args!("<text class=\"name\" x=\"16\" y=\"{}\">{}</text>", top + 24, escape(&session.heading())));
    for (lane, state) in lanes.iter().enumerate() {
        let name = escape(&state.replace('_', " "));
        line(svg, format_args!("<text x=\"16\" y=\"{}\">{name}</text>", layout.lane_top(lane) + 18));
    }
    for span in &session.states {
        let lane = lanes.iter().position(|state| *state == span.state).unwrap_or(lanes.len().saturating_sub(1));
        let (from, to) = (layout.x(span.from_ms), layout.x(span.to_ms));
        let label = format!(
            "{} from {} to {} seconds",
            span.state.replace('_', " "),
            seconds(span.from_ms),
            seconds(span.to_ms)
        );
        line(
            svg,
            format_args!(
                "<rect class=\"bar\" x=\"{from:.1}\" y=\"{}\" width=\"{:.1}\" height=\"{}\"><title>{}</title></rect>",
                layout.lane_top(lane) + 4,
                (to - from).max(1.0),
                LANE - 8,
                escape(&label)
            ),
        );
    }
    draw_questions(svg, session, &layout, layout.lane_top(lanes.len()));
    draw_axis(svg, session, &layout, layout.lane_top(lane_count(session)))
}

/// Draws a mark for each question, in a lane of their own.
fn draw_questions(svg: &mut String, session: &SessionSummary, layout: &Layout, top: u32) {
    if session.questions.is_empty() {
        return;
    }
    line(svg, format_args!("<text x=\"16\" y=\"{}\">questions</text>", top + 18));
    let mut free_from = 0.0;
    for asked in &session.questions {
        let x = layout.x(asked.at_ms);
        let label = escape(&format!("Question at {} seconds: {}", seconds(asked.at_ms), asked.text));
        line(
            svg,
            format_args!(
                "<rect class=\"question\" x=\"{x:.1}\" y=\"{}\" width=\"{MARK}\" height=\"{}\"><title>{label}</title></rect>",
                top + 4,
                LANE - 8
            ),
        );
        if x >= free_from {
            line(svg, format_args!("<text class=\"sign\" x=\"{:.1}\" y=\"{}\">?</text>", x + MARK + 2.0, top + 18));
            free_from = x + SIGN;
        }
    }
}

/// Draws the time axis and returns the end of the session in the picture. A label that equals the one before it is left
/// out, so that a session without a duration has one.
fn draw_axis(svg: &mut String, session: &SessionSummary, layout: &Layout, axis: u32) -> u32 {
    line(
        svg,
        format_args!("<line class=\"line\" x1=\"{LEFT}\" y1=\"{axis}\" x2=\"{}\" y2=\"{axis}\"/>", WIDTH - RIGHT),
    );
    let mut last = None;
    for mark in 0..=AXIS_INTERVALS {
        let at = session.duration_ms * mark / AXIS_INTERVALS;
        let label = seconds(at);
        if last.as_ref() == Some(&label) {
            continue;
        }
        let unit = if mark == 0 { " seconds" } else { "" };
        let anchor = if mark == AXIS_INTERVALS { "end" } else { "start" };
        line(
            svg,
            format_args!(
                "<text class=\"time\" x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{label}{unit}</text>",
                layout.x(at),
                axis + 20,
            ),
        );
        last = Some(label);
    }
    axis + FOOT
}

fn line(svg: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "{text}");
}

/// Escapes text for XML, and characters that could deceive a reader. Line ends stay.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for (index, part) in text.split('\n').enumerate() {
        if index > 0 {
            safe.push('\n');
        }
        for c in Escaped(part).to_string().chars() {
            match c {
                '&' => safe.push_str("&amp;"),
                '<' => safe.push_str("&lt;"),
                '>' => safe.push_str("&gt;"),
                '"' => safe.push_str("&quot;"),
                // XML allows these not even as character references.
                '\u{FFFE}' | '\u{FFFF}' => safe.push('\u{FFFD}'),
                c => safe.push(c),
            }
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::super::summary::SummarySentence;
    use super::*;

    #[test]
    fn nothing_breaks_out_of_the_text() {
        assert_eq!(escape("a<b>&\"c\"\u{1b}\u{FFFE}\nd"), "a&lt;b&gt;&amp;&quot;c&quot;\\u{001B}\u{FFFD}\nd");
    }
    fn session(duration_ms: u64, questions: &[u64]) -> Summary {
        let states = vec![StateSpan { state: "idle".to_owned(), from_ms: 0, to_ms: duration_ms }];
        let asked = |at_ms: &u64| SummarySentence { at_ms: *at_ms, text: "May I?".to_owned() };
        let session = SessionSummary {
            session_id: "sess_1".parse().unwrap(),
            agent: "Bank".to_owned(),
            began: String::new(),
            duration_ms,
            end: "completed",
            events: 2,
            story: Vec::new(),
            states,
            questions: questions.iter().map(asked).collect(),
            left_out: 0,
        };
        Summary { sessions: vec![session], events_left_out: 0 }
    }

    /// Returns the positions of the texts of a class.
    fn positions(svg: &str, class: &str) -> Vec<String> {
        let lines = svg.lines().filter(|line| line.contains(&format!("class=\"{class}\"")));
        let x = |line: &str| line.split("x=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        lines.map(x).collect()
    }

    #[test]
    fn labels_of_the_axis_do_not_overlap() {
        for (duration, labels) in [(0, 1), (40, 1), (100, 2), (60_000, 5)] {
            let mut at = positions(&draw(&session(duration, &[])), "time");
            assert_eq!(at.len(), labels, "{duration} ms");
            at.dedup();
            assert_eq!(at.len(), labels, "{duration} ms: two labels at one place");
        }
    }

    #[test]
    fn questions_are_marked_and_described() {
        let svg = draw(&session(60_000, &[1000, 1001, 30_000]));
        assert_eq!((positions(&svg, "question").len(), positions(&svg, "sign").len()), (3, 2), "{svg}");
        assert!(svg.contains("<title>Question at 30.0 seconds: May I?</title>"), "{svg}");
        assert!(svg.contains(" Question at 1.0 seconds: May I? Question at"), "the description has them too: {svg}");
        assert!(!draw(&session(60_000, &[])).contains("questions</text>"));
    }
}
