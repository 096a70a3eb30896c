use proptest::prelude::*;

use super::*;
use crate::profile::SubscriberKind;

fn with(change: impl FnOnce(&mut Profile)) -> Profile {
    let mut profile = Profile::preset(SubscriberKind::ScreenReader);
    change(&mut profile);
    profile
}

fn check(content_type: &str, profile: &Profile, cases: &[(&str, &str)]) {
    let differs = |(text, said): &&(&str, &str)| speakable(text, content_type, "en", profile) != *said;
    let wrong: Vec<_> = cases.iter().filter(differs).collect();
    let found: Vec<_> = wrong.iter().map(|(text, _)| speakable(text, content_type, "en", profile)).collect();
    assert!(wrong.is_empty(), "expected {wrong:#?}, found {found:#?}");
}

#[test]
fn markdown_becomes_sentences() {
    check(
        "text/markdown",
        &Profile::default(),
        &[
            ("# Title", "Title."),
            ("### Title ###\ntext", "Title. text."),
            ("Title\n=====\ntext", "Title. text."),
            ("Some **bold** and *slanted* and ~~old~~ text", "Some bold and slanted and old text."),
            ("__bold__ and _slanted_ words.", "bold and slanted words."),
            ("snake_case stays one thing", "snake case stays one thing."),
            ("5 * 3 is 15", "5 * 3 is 15."),
            ("- one\n- two\n", "one. two."),
            ("* one\n  goes on\n* two", "one goes on. two."),
            ("1. one\n2) two", "1: one. 2: two."),
            ("- [x] tests\n- [ ] docs", "done: tests. open: docs."),
            ("• one\n• two", "one. two."),
            ("> quoted\n> text", "quoted text."),
            ("a\n\n---\n\nb", "a. b."),
            ("line one\nline two", "line one line two."),
            ("Really? Yes!", "Really? Yes!"),
            ("It said \"stop.\"", "It said \"stop.\""),
            ("A note[^1] here", "A note here."),
            ("line<br>break", "line break."),
            ("a &amp; b &lt; c", "a & b < c."),
            ("\\*not bold\\*", "*not bold*."),
            ("", ""),
            ("***", ""),
            ("\n\n", ""),
        ],
    );
}

#[test]
fn code_is_named_read_or_skipped() {
    let block = "Look:\n```rust\nfn main() {\n    go();\n}\n```\nDone.";
    check("text/markdown", &Profile::default(), &[(block, "Look: Rust code, 3 lines. Done.")]);
    check("text/plain", &Profile::default(), &[(block, "Look: Rust code, 3 lines. Done.")]);
    check("text/markdown", &with(|p| p.code = CodePolicy::Skip), &[(block, "Look: Done.")]);
    let read = with(|p| p.code = CodePolicy::Read);
    check(
        "text/markdown",
        &read,
        &[
            ("```sh\nls -l\n```", "Shell code, 1 line. ls dash l."),
            ("```\na_b = 1;\n```", "Code, 1 line. a b equals 1 semicolon."),
        ],
    );
    check(
        "text/markdown",
        &Profile::default(),
        &[
            ("~~~py\nx\n~~~", "Python code, 1 line."),
            ("```\nx\ny\n```", "Code, 2 lines."),
            ("````md\n```\ninner\n```\n````", "Markdown code, 3 lines."),
            ("```json\n{\n", "JSON code, 1 line."),
            ("```zig\nx\n```", "zig code, 1 line."),
            ("```\n```", ""),
            ("Run `cargo test` now.", "Run cargo test now."),
            ("Call `fetch_balance()`, then wait.", "Call fetch balance, then wait."),
            ("Use `--all`.", "Use dash dash all."),
            ("``a`b`` ok", "a backtick b ok."),
            ("An open ` tick", "An open tick."),
        ],
    );
    let long = format!("See `{}` there.", "word ".repeat(30));
    check("text/markdown", &Profile::default(), &[(&long, "See code of 150 characters that begins with word there.")]);
}

#[test]
fn text_of_a_code_media_type_is_announced_by_name() {
    check("application/json", &Profile::default(), &[("{\n\"a\": 1\n}", "JSON code, 3 lines.")]);
    check("text/x-python", &Profile::default(), &[("x = 1", "Python code, 1 line.")]);
    check("text/html", &Profile::default(), &[("<p>x</p>\n", "HTML code, 1 line.")]);
    check("text/x-diff", &Profile::default(), &[("+a\n-b\n+c", "Changes: 2 lines added, 1 removed.")]);
}

#[test]
fn diffs_are_summed_up() {
    let diff = "```diff\n--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1 +1 @@\n-old\n+new\n+more\n```";
    let bare = "diff --git a/x.rs b/x.rs\n--- a/x.rs\n+++ b/x.rs\n@@ -1,2 +1 @@\n-old\n same\n\nThat is all.";
    check(
        "text/markdown",
        &Profile::default(),
        &[
            (diff, "Changes in lib.rs in src: 2 lines added, 1 removed."),
            (bare, "Changes in x.rs: 0 lines added, 1 removed. That is all."),
        ],
    );
}

#[test]
fn tables_are_read_by_rows_with_column_names() {
    let table = "| Name | Age |\n|:-----|----:|\n| Ada  | 36 |\n| Alan | 41 |\n\nEnd.";
    let said = "Table, 2 columns, 2 rows. Name: Ada, Age: 36. Name: Alan, Age: 41. End.";
    check("text/markdown", &Profile::default(), &[(table, said)]);
    check("text/plain", &Profile::default(), &[(table, said)]);
    check(
        "text/markdown",
        &Profile::default(),
        &[
            ("| a | b |", "a, b."),
            ("| a |  |\n| c | d |", "Table, 2 columns, 2 rows. a. c, d."),
            ("| `x` | **y** |\n|---|---|\n| 1 | 2 |", "Table, 2 columns, 1 row. x: 1, y: 2."),
        ],
    );
    let rows: String = (1..=14).map(|i| format!("| r{i} |\n")).collect();
    let long = speakable(&format!("| Row |\n|---|\n{rows}"), "text/markdown", "en", &Profile::default());
    assert!(long.ends_with("Row: r10. 4 more rows."), "{long}");
}

#[test]
fn web_addresses_are_spoken_by_their_host() {
    check(
        "text/markdown",
        &Profile::default(),
        &[
            ("See https://www.example.org/a/b?c=d#e.", "See link to example.org."),
            ("(see http://example.org/x)", "(see link to example.org)."),
            ("[the docs](https://docs.rs/serde) help", "the docs, link to docs.rs help."),
            ("[bank.com](https://evil.example/bank.com)", "bank.com, link to evil.example."),
            ("https://bank.com@evil.example/", "link to evil.example."),
            ("<https://a.example>", "link to a.example."),
            ("[local](src/lib.rs) file", "local file."),
            ("![a chart](x.png)", "image: a chart."),
            ("![](x.png) here", "image here."),
            ("www.example.org", "link to example.org."),
            ("write to ada@example.org", "write to ada@example.org."),
            ("[open bracket", "[open bracket."),
            ("https://", "https://."),
        ],
    );
    let detailed = with(|p| p.verbosity = Verbosity::Detailed);
    check("text/plain", &detailed, &[("https://a.example/b", "link to a.example slash b.")]);
}

#[test]
fn paths_are_spoken_as_file_and_directory() {
    check(
        "text/plain",
        &Profile::default(),
        &[
            ("Edit /home/ada/src/main_loop.rs, please", "Edit main loop.rs in src, please."),
            ("Edit src/lib.rs.", "Edit lib.rs in src."),
            ("~/notes.txt", "notes.txt."),
            (r"C:\Users\ada\a.txt", "a.txt in ada."),
            (r"C:\a.txt", "a.txt."),
            ("and/or, km/h, 24/05/2026, TCP/IP", "and/or, km/h, 24/05/2026, TCP/IP."),
        ],
    );
    check("text/plain", &with(|p| p.verbosity = Verbosity::Terse), &[("src/lib.rs", "lib.rs.")]);
    check("text/plain", &with(|p| p.verbosity = Verbosity::Detailed), &[("src/lib.rs", "src slash lib dot rs.")]);
}

#[test]
fn long_numbers_are_grouped_and_codes_are_shortened() {
    check(
        "text/plain",
        &Profile::default(),
        &[
            ("Account 123456789", "Account 123 456 789."),
            ("1234567890123456789", "number of 19 digits that ends in 6 7 8 9."),
            ("12,000.50 and 3.14159265 and 2026", "12,000.50 and 3.14159265 and 2026."),
            ("commit 9f86d081884c7d659a2f", "commit code of 20 characters that begins with 9 f 8 6."),
            ("550e8400-e29b-41d4-a716-446655440000", "code of 36 characters that begins with 5 5 0 e."),
            ("deadbeef facade", "deadbeef facade."),
        ],
    );
    let blob = "Zm9v".repeat(40);
    check("text/plain", &Profile::default(), &[(&blob, "code of 160 characters that begins with Z m 9 v.")]);
}

#[test]
fn unspeakable_glyphs_are_removed() {
    check(
        "text/plain",
        &Profile::default(),
        &[
            ("┌─────┬───┐\n│ ok  │ 5 │\n└─────┴───┘", "ok, 5."),
            ("═════ Done ═════", "Done."),
            ("⠋ Working… 3s", "Working… 3s."),
            ("✅ passed ❌ failed", "check passed cross failed."),
            ("Great 🎉🎉🎉 work", "Great 🎉 work."),
            ("-----\n*****\n=====", ""),
            ("a ........ b", "a b."),
            ("\u{1b}[1mBold\u{1b}[0m", "Bold."),
        ],
    );
}

#[test]
fn punctuation_follows_the_profile() {
    let none = with(|p| p.punctuation = Punctuation::None);
    check("text/plain", &none, &[("He (Ada) said: \"Yes\", 5% & more.", "He Ada said: Yes, 5% more.")]);
    let all = with(|p| p.punctuation = Punctuation::All);
    check(
        "text/plain",
        &all,
        &[("Yes, now.", "Yes comma now period."), ("(a_b)", "left parenthesis a underscore b right parenthesis.")],
    );
}

#[test]
fn other_languages_use_their_phrases_if_the_user_understands_them() {
    let both = with(|p| p.languages = vec!["en".parse().unwrap(), "de-AT".parse().unwrap()]);
    let text = "Siehe https://a.example";
    assert_eq!(speakable(text, "text/plain", "de", &both), "Siehe Link zu a.example.");
    assert_eq!(speakable(text, "text/plain", "de", &Profile::default()), "Siehe link to a.example.");
    assert_eq!(speakable("שלום", "text/plain", "he", &both), "שלום.");
    assert_eq!(speakable("你好。", "text/plain", "zh", &both), "你好。");
}

#[test]
fn exact_text_names_every_symbol() {
    let profile = Profile::default();
    for (text, said) in [
        ("Run rm -rf /tmp/a_b", "Run rm dash rf slash tmp slash a underscore b."),
        ("Run `rm -rf *`", "Run rm dash rf star."),
        (
            "Open https://a.example/x?y=1",
            "Open https colon slash slash a dot example slash x question mark y equals 1.",
        ),
        ("Pay $500.00 to 12345678901234567890", "Pay $500.00 to 123 456 789 012 345 678 90."),
        ("Mail ada@example.org, now.", "Mail ada at example dot org, now."),
        ("Delete 12 letters (all of them).", "Delete 12 letters (all of them)."),
        ("key 9f86d081884c7d65", "key 9f86 d081 884c 7d65."),
        ("Add -5 degrees", "Add -5 degrees."),
        ("rm -r * now", "rm dash r star now."),
    ] {
        assert_eq!(speakable_exact(text, "en", &profile), said, "{text:?}");
    }
}

#[test]
fn streamed_blocks_wait_for_their_end() {
    let style = SpeechStyle::new("en", &Profile::default());
    let mut blocks = Blocks::new("text/markdown", style);
    let mut said = Vec::new();
    let mut step = |text: &str| {
        let mut units = Vec::new();
        blocks.push(text, &mut units);
        said.push(joined(units));
    };
    for piece in [
        "First. ",
        "Second one.\n\n",
        "```ru",
        "st\nlet a;\n",
        "let b;\n",
        "```\n",
        "| a | b |\n",
        "|---|---|\n",
        "| 1 | 2 |\n",
        "After.",
    ] {
        step(piece);
    }
    assert_eq!(
        said,
        [
            "First.",
            "Second one.",
            "",
            "",
            "",
            "Rust code, 2 lines.",
            "",
            "",
            "",
            "Table, 2 columns, 1 row. a: 1, b: 2. After."
        ]
    );
}

fn any_profile() -> impl Strategy<Value = Profile> {
    (0..3usize, 0..3usize, 0..3usize, 0..7usize).prop_map(|(punctuation, code, verbosity, language)| {
        with(|p| {
            p.punctuation = [Punctuation::None, Punctuation::Some, Punctuation::All][punctuation];
            p.code = [CodePolicy::Name, CodePolicy::Read, CodePolicy::Skip][code];
            p.verbosity = [Verbosity::Terse, Verbosity::Normal, Verbosity::Detailed][verbosity].clone();
            p.languages = vec![["en", "es", "fr", "de", "ar", "yo", "ja"][language].parse().unwrap()];
        })
    })
}

/// Text like agents write it, mixed with what nobody should.
fn any_text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "\\PC{0,20}",
        any::<String>(),
        prop::sample::select(vec![
            "`",
            "```",
            "```rust\n",
            "\n",
            "\n\n",
            "|",
            "| a | b |\n",
            "|---|---|\n",
            "**",
            "*",
            "_",
            "[",
            "](",
            ")",
            "![",
            "<",
            ">",
            "https://",
            "www.",
            "a/b.rs",
            "/",
            "\\",
            "# ",
            "- ",
            "1. ",
            "│",
            "─",
            "•",
            "🎉",
            "\u{200B}",
            "\u{202E}",
            "\u{200D}",
            "⠋",
            "→",
            "&amp;",
            "1234567890",
            "diff --git a b\n",
            "@@ -1\n",
            "+x\n",
            "--",
            "...",
            "é\u{301}",
            "word ",
            "\t",
            "\r\n",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

/// A control sequence that has an end: cursor and colour, strings such as titles, single ones.
fn any_control_sequence() -> impl Strategy<Value = String> {
    prop_oneof![
        "(\u{1b}\\[|\u{9b})[?0-9;]{0,8}[A-Za-z]",
        "(\u{1b}[]PX^_]|[\u{90}\u{98}\u{9d}\u{9e}\u{9f}])[0-9a-zA-Z;:/.= ]{0,20}(\u{7}|\u{1b}\\\\|\u{9c})",
        "\u{1b}[()#][0-9A-B]",
        "\u{1b}[0-9=>c]",
    ]
}

proptest! {
    #[test]
    fn result_never_has_unspeakable_characters(text in any_text(), profile in any_profile(), kind in 0..4usize) {
        let content_type = ["text/plain", "text/markdown", "application/json", "nonsense"][kind];
        let said = speakable(&text, content_type, "en", &profile);
        prop_assert!(!said.chars().any(|c| is_unspeakable(c) || c == '\n'), "{said:?}");
        prop_assert!(said.chars().count() <= MAX_CHARS);
        prop_assert!(said.is_empty() || is_sentence(&said), "{said:?}");
        prop_assert_eq!(said.trim(), &said);
        let said = speakable_exact(&text, "en", &profile);
        prop_assert!(!said.chars().any(|c| is_unspeakable(c) || c == '\n'), "{said:?}");
    }

    #[test]
    fn control_sequences_leave_nothing_behind(
        words in proptest::collection::vec("[A-Za-z]{1,8}", 1..8),
        orders in proptest::collection::vec(any_control_sequence(), 9),
        cut in any::<proptest::sample::Index>(),
    ) {
        let profile = Profile::default();
        let plain: String = words.iter().map(|word| format!("{word} ")).collect();
        let painted: String = words.iter().zip(&orders).map(|(word, order)| format!("{order}{word}{order} ")).collect();
        let say = |text: &str| speakable(text, "text/plain", "en", &profile);
        prop_assert_eq!(say(&painted), say(&plain));
        prop_assert_eq!(speakable_exact(&painted, "en", &profile), speakable_exact(&plain, "en", &profile));
        prop_assert_eq!(name(&painted, &profile), name(&plain, &profile));
        let places: Vec<usize> = painted.char_indices().map(|(at, _)| at).collect();
        let (first, second) = painted.split_at(places[cut.index(places.len())]);
        let mut escapes = aaep_proto::escape::Escapes::default();
        let whole = escapes.push(first) + &escapes.push(second) + &escapes.finish();
        prop_assert_eq!(whole, plain);
    }

    #[test]
    fn memory_is_bounded_however_text_is_cut_into_lines(line in "[a-z|`# ]{1,30}", times in 1000..4000usize) {
        let mut blocks = Blocks::new("text/markdown", SpeechStyle::new("en", &Profile::default()));
        let mut units = Vec::new();
        for _ in 0..times {
            blocks.push(&line, &mut units);
            units.clear();
            prop_assert!(blocks.waiting_bytes() <= 64 * 1024);
        }
    }
}
