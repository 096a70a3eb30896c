//! How fast the segmenter is. Run with `cargo run --release -p aaep-proto --example segment_speed`.
#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a measurement needs a clock")]

use std::time::Instant;

use aaep_proto::shaping::segment::{Segmenter, Segments, Syntax};

const SIZE: usize = 8 << 20;

const PROSE: &str = "The agent opened the file, e.g. notes.txt, and read 3.14 pages of it. Dr. Okoro asked why! \
    Nobody knew (not even the author). Version v1.2.3 was released on 4 May; see https://example.org/a?b=c for more.\n\n\
    It works well. ";

fn main() {
    let measures = [
        ("English prose", PROSE, Syntax::Markdown, false),
        ("English prose with words", PROSE, Syntax::Markdown, true),
        ("Chinese prose", "他今天去了图书馆。她说：「我们明天再来！」然后他们回家了。", Syntax::Plain, false),
        ("Chinese prose with words", "他今天去了图书馆。她说：「我们明天再来！」然后他们回家了。", Syntax::Plain, true),
        ("no boundary", "a", Syntax::Markdown, false),
        ("initials", "a. ", Syntax::Markdown, false),
        ("brackets", "(", Syntax::Markdown, false),
        ("stops and brackets", "a. ((((((((((((((((((", Syntax::Markdown, false),
        ("backticks", "`", Syntax::Markdown, false),
        ("open fence", "```\nlet a = 1. 2;\n````` x", Syntax::Markdown, false),
        ("blank lines", "\n ", Syntax::Markdown, true),
        ("combining marks", "\u{301}\u{323}", Syntax::Markdown, false),
        ("joiners", "\u{200d}", Syntax::Markdown, false),
        ("Thai with words", "ก", Syntax::Plain, true),
    ];
    for (name, unit, syntax, words) in measures {
        measure(name, unit, syntax, words);
    }
}

fn measure(name: &str, unit: &str, syntax: Syntax, words: bool) {
    let text = unit.repeat(SIZE / unit.len());
    let ends: Vec<usize> = text.char_indices().step_by(4).map(|(at, _)| at).chain([text.len()]).collect();
    let mut segmenter = Segmenter::new(syntax, None);
    if words {
        segmenter = segmenter.with_words();
    }
    let (mut out, mut marks) = (Segments::default(), 0);
    let start = Instant::now();
    for token in ends.windows(2) {
        segmenter.push(&text[token[0]..token[1]], &mut out);
        marks += out.marks.len();
        out.text.clear();
        out.marks.clear();
    }
    segmenter.finish(&mut out);
    let seconds = start.elapsed().as_secs_f64();
    let speed = text.len() as f64 / 1e6 / seconds;
    println!("{name}: {speed:.1} MB/s, {} marks", marks + out.marks.len());
}
