//! Redaction of secrets in text, whole and in pieces.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests, one of which compares times"
)]

use aaep_proto::validate::{Redactor, find_secret, redact};
use proptest::prelude::*;

/// One secret of each format, made up.
const SECRETS: &[&str] = &[
    "4111 1111 1111 1111",
    "4111111111111111",
    "3782 822463 10005",
    "123-45-6789",
    "sk-proj-1234567890abcdef",
    "sk-ant-api03-abcDEF123456789",
    "sk_live_4eC39HqLyjWDarjtT1",
    "whsec_5WbX5kEWLlfzsGNjH64I8lOOqUB6e8FH",
    "ghp_abcdefghij0123456789ABCD",
    "github_pat_11ABCDEFG0abcdefghijkl",
    "glpat-abcdefGHIJ0123456789",
    "glrt-abcdefGHIJ0123456789",
    "xoxb-123456789012-abcdefghij",
    "xapp-1-A0123456789-1234567890",
    "SG.abcdefGHIJ0123456789ab.abcdefghijklmnopqrstuvwxyz0123456789",
    "pypi-AgEIcHlwaS5vcmcCJDU3NjU0NzA4LTQ1",
    "dop_v1_0123456789abcdef0123456789abcdef0123456789abcdef",
    "AGE-SECRET-KEY-1QQPQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA-abcdefghijklmnopqrstuvwxyz01234",
    "npm_abcdefghijklmnopqrstuvwxyz0123456789",
    "hf_abcdefghijklmnopqrstuv01",
    "shpat_0123456789abcdef0123456789abcdef",
    "dp.pt.abcdefghijklmnopqrstuvwxyz0123456789ABCD",
    "lin_api_abcdefghijklmnopqrst0123",
    "figd_abcdefghijklmnopqrst0123",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc123_-DEF",
    "Bearer abc.def-123456",
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEow1B/abc+def==\n  AbCdEf12\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBg\\n-----END PRIVATE KEY-----",
    "-----BEGIN EC PRIVATE KEY----- MHcCAQEEIIrYSSNQFaA2Hwf1duRS -----END EC PRIVATE KEY-----",
];

/// Text that must not change, although many words start like a secret.
const HARMLESS: &[&str] = &[
    "Transfer $500.00 from checking-7821 to savings-3344. You owe 500. Then 12. 5",
    "The task-force and the risk-12345678, a sketch, SGML, a glass; Asia and AKIA. dp.pt.",
    "password: it is needed. Token: step2of5. https://example.org:8080/a?b=c#d and mailto:anna@example.org",
    "let key = map[\"token\"]; // sk-project-2024\nfor i in 0..=16 { x -= i - 1; }\n---\n- item\n-----\n",
    "#!/bin/sh\nexport PATH=$HOME/bin:$PATH\ncurl -H 'Authorization: Bearer $TOKEN' https://api.example.org/v1\n",
    "commit 9f8e7d6c5b4a39281706f5e4d3c2b1a0f9e8d7c6, 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "Ẹ ku àárọ̀. Ṣé o sun re? 東京タワー１２３号室。 می\u{200C}خواهم \u{1F468}\u{200D}\u{1F469}",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
    "A file that starts with BEGIN PRIVATE KEY is a key. The bearer of this letter, Bearer 2026-05-24 note.",
    "0.4111111111111111, 356938035643809, 2026-05-24T14:22:16.108Z, 192.168.17.254, +49 30 901820, v1.2.3-rc.4",
];

fn in_pieces(text: &str, cuts: &[usize]) -> String {
    let (mut redactor, mut out, mut from) = (Redactor::default(), String::new(), 0);
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
    cuts.retain(|cut| text.is_char_boundary(*cut));
    cuts.sort_unstable();
    for cut in cuts {
        redactor.push(&text[from..cut], &mut out);
        from = cut;
    }
    redactor.push(&text[from..], &mut out);
    redactor.finish(&mut out);
    assert_eq!(redactor.held(), "", "nothing is left behind");
    out
}

#[test]
fn every_known_format_is_removed_whole_and_nothing_else() {
    for secret in SECRETS {
        let text = format!("Use {secret}, please.");
        assert_eq!(redact(&text), "Use [removed], please.", "{secret}");
        let found = find_secret(&text).unwrap();
        assert_eq!(&text[found.range], *secret);
        assert_eq!(redact(&format!("It is {secret}. Keep it.")), "It is [removed]. Keep it.", "{secret}");
    }
}

#[test]
fn a_secret_is_removed_wherever_it_is_cut() {
    for secret in SECRETS {
        let text = format!("Use {secret}, please.");
        for cut in 0..text.len() {
            assert_eq!(in_pieces(&text, &[cut]), "Use [removed], please.", "{secret} cut at {cut}");
        }
        let every: Vec<usize> = (0..text.len()).collect();
        assert_eq!(in_pieces(&text, &every), "Use [removed], please.", "{secret} byte by byte");
    }
}

#[test]
fn harmless_text_is_not_changed_however_it_is_cut() {
    for text in HARMLESS {
        assert_eq!(redact(text), *text);
        let every: Vec<usize> = (0..text.len()).collect();
        assert_eq!(in_pieces(text, &every), *text);
    }
}

#[test]
fn only_what_may_become_a_secret_is_held_back() {
    for (text, held) in [
        ("These are the only copies. ", ""),
        ("Deleting them", ""),
        ("Use gh", "gh"),
        ("Use ghost", ""),
        ("Card 4111 11", "4111 11"),
        ("Card 9999", ""),
        ("The password: hun", ": hun"),
        ("It ends here: ", ""),
    ] {
        let (mut redactor, mut out) = (Redactor::default(), String::new());
        redactor.push(text, &mut out);
        assert_eq!(redactor.held(), held, "{text}");
        assert_eq!(format!("{out}{held}"), text);
    }
    let (mut redactor, mut out) = (Redactor::default(), String::new());
    for _ in 0..10_000 {
        redactor.push("token: aaaaaaaaaaaaaaaa", &mut out);
        assert!(redactor.held().len() < 1024, "{} bytes are held", redactor.held().len());
    }
}

#[test]
fn what_was_released_too_early_is_followed_by_the_marker() {
    let (mut redactor, mut out) = (Redactor::default(), String::new());
    redactor.push("Use ghp_abcd", &mut out);
    redactor.release(&mut out);
    assert_eq!((out.as_str(), redactor.held()), ("Use ghp_abcd", ""));
    redactor.push("efghij0123456789ABCD now", &mut out);
    redactor.finish(&mut out);
    assert_eq!(out, "Use ghp_abcd[removed] now");
}

/// Texts for which a naive search restarts at every secret, or at every prefix of one. The time is compared between two
/// sizes: sixteen times the text may take sixteen times as long, not 256 times.
#[test]
fn the_work_grows_with_the_text_and_not_with_its_square() {
    let time = |text: &str| {
        let best = (0..3).map(|_| {
            let start = std::time::Instant::now();
            std::hint::black_box(redact(text));
            start.elapsed()
        });
        best.min().unwrap().as_secs_f64().max(0.000_2)
    };
    for unit in
        ["4111111111111111 ", "password=hunter22 ", "sk-", "token:", "://a:", "eyJ-", "-----BEGIN ", "1-", "a=", "."]
    {
        let text = |bytes: usize| unit.repeat(bytes / unit.len());
        let (small, large) = (time(&text(16 * 1024)), time(&text(256 * 1024)));
        assert!(large < 96.0 * small, "{unit}: {small} s, then {large} s for 16 times as much");
    }
}

fn fragment() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(SECRETS).prop_map(str::to_owned),
        proptest::sample::select(HARMLESS).prop_map(str::to_owned),
        "[ a-zA-Z0-9:=._@/'\"\\\\\n-]{0,24}",
        "(password|token|api_key|Bearer|sk-|ghp_|://|eyJ|4[0-9]{3}|-----BEGIN |\\PC){1,4}",
    ]
}

proptest! {
    #[test]
    fn any_cut_gives_the_same_text(parts in prop::collection::vec(fragment(), 1..6), cuts in prop::collection::vec(any::<usize>(), 0..12)) {
        let text = parts.concat();
        prop_assert_eq!(in_pieces(&text, &cuts), redact(&text));
        prop_assert_eq!(find_secret(&text).is_some(), redact(&text) != text);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,200}", cuts in prop::collection::vec(any::<usize>(), 0..12)) {
        prop_assert_eq!(in_pieces(&text, &cuts), redact(&text));
    }
}
