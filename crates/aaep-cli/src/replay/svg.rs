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

const STYLE: &str = "text{font:14px sans-serif;fill:#111}.name{font-weight:bold;font-size:16px}.bar{fill:#1f4e79}\
.line{stroke:#767676}rect.back{fill:#fff}@media(prefers-color-scheme:dark){text{fill:#f5f5f5}.bar{fill:#9ecbff}\
rect.back{fill:#111}}";

/// Draws the states of all sessions.
pub(super) fn draw(summary: &Summary) -> String {
    let shown = &summary.sessions[..summary.sessions.len().min(MAX_SESSIONS)];
    let height = TOP + shown.iter().map(|session| height(&lanes(session))).sum::<u32>();
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

fn height(lanes: &[&str]) -> u32 {
    HEAD + LANE * u32::try_from(lanes.len()).unwrap_or(0) + FOOT
}

fn draw_session(svg: &mut String, session: &SessionSummary, top: u32) -> u32 {
    let lanes = lanes(session);
    let total = session.duration_ms.max(1);
    let x = |ms: u64| {
        let width = f64::from(WIDTH - LEFT - RIGHT);
        f64::from(LEFT) + width * (ms.min(total) as f64 / total as f64)
    };
    line(svg, format_args!("<text class=\"name\" x=\"16\" y=\"{}\">{}</text>", top + 24, escape(&session.heading())));
    let lane_top = |lane: usize| top + HEAD + LANE * u32::try_from(lane).unwrap_or(0);
    for (lane, state) in lanes.iter().enumerate() {
        let name = escape(&state.replace('_', " "));
        line(svg, format_args!("<text x=\"16\" y=\"{}\">{name}</text>", lane_top(lane) + 18));
    }
    for span in &session.states {
        let lane = lanes.iter().position(|state| *state == span.state).unwrap_or(lanes.len().saturating_sub(1));
        let (from, to) = (x(span.from_ms), x(span.to_ms));
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
                lane_top(lane) + 4,
                (to - from).max(1.0),
                LANE - 8,
                escape(&label)
            ),
        );
    }
    let axis = lane_top(lanes.len());
    line(
        svg,
        format_args!("<line class=\"line\" x1=\"{LEFT}\" y1=\"{axis}\" x2=\"{}\" y2=\"{axis}\"/>", WIDTH - RIGHT),
    );
    for mark in 0..=AXIS_INTERVALS {
        let at = session.duration_ms * mark / AXIS_INTERVALS;
        let unit = if mark == 0 { " seconds" } else { "" };
        let anchor = if mark == AXIS_INTERVALS { "end" } else { "start" };
        line(
            svg,
            format_args!(
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}{unit}</text>",
                x(at),
                axis + 20,
                seconds(at)
            ),
        );
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
    use super::*;

    #[test]
    fn nothing_breaks_out_of_the_text() {
        assert_eq!(escape("a<b>&\"c\"\u{1b}\u{FFFE}\nd"), "a&lt;b&gt;&amp;&quot;c&quot;\\u{001B}\u{FFFD}\nd");
    }
}
