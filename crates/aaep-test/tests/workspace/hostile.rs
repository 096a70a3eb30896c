//! No input causes a panic, a hang, or more than linear cost.

use std::time::Duration;

use aaep_proto::framing::{AutoDecoder, Decoded};
use aaep_proto::message::Message;
use aaep_proto::{Rule, SequenceChecker, limits, validate};
use aaep_test::example;
use proptest::prelude::*;

/// Runs every parser on these bytes.
fn parse_all(bytes: &[u8]) {
    let mut sequence = SequenceChecker::new();
    let mut mixed = AutoDecoder::new(limits::MESSAGE_BYTES);
    let mut document = |_line: u64, piece: Decoded<'_>| {
        if let Decoded::Document(bytes) = piece {
            let report = validate(bytes);
            if let Ok(message) = Message::parse(bytes) {
                sequence.observe(&message);
                let text = serde_json::to_vec(&message).expect("a message can be written");
                assert_eq!(Message::parse(&text).as_ref(), Ok(&message), "a message survives its own text");
            }
            assert!(report.problems.len() <= limits::PROBLEMS_PER_DOCUMENT + 1);
        }
    };
    mixed.push(bytes, &mut document);
    mixed.finish(&mut document);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        parse_all(&bytes);
    }

    #[test]
    fn broken_documents_do_no_harm(which in 0usize..14, cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), keep in any::<prop::sample::Index>()) {
        let mut bytes = example("events.ndjson")[which].clone().into_bytes();
        for (at, byte) in cuts {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        parse_all(&bytes);
        let end = keep.index(bytes.len());
        parse_all(&bytes[..end]);
    }
}

/// Returns the processor time of this thread, which other load does not affect.
#[cfg(unix)]
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

#[cfg(not(unix))]
fn cpu_time() -> Duration {
    static BEGIN: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    BEGIN.elapsed()
}

/// Work for an input of eight times the length, in proportion: far below what a square would give.
/// The smallest of several runs is taken, so that a busy machine does not decide.
fn check_linear(name: &str, make: impl Fn(usize) -> Vec<u8>, small: usize) {
    let time = |input: &[u8]| {
        (0..5)
            .map(|_| {
                let start = cpu_time();
                validate(input);
                cpu_time() - start
            })
            .min()
            .unwrap_or_default()
    };
    let factor = 8;
    let (short, long) = (make(small), make(small * factor));
    let (a, b) = (time(&short).max(Duration::from_micros(200)), time(&long));
    // Eight times the length may cost eight times as much; quadratic cost would be sixty-four times.
    assert!(b < a * 40, "{name}: {a:?} for {} bytes, {b:?} for {}", short.len(), long.len());
}

fn event_with(extra: &str) -> Vec<u8> {
    let line = &example("events.ndjson")[1];
    format!("{},{extra}}}", &line[..line.len() - 1]).into_bytes()
}

#[test]
fn cost_grows_in_proportion() {
    check_linear(
        "many keys",
        |n| {
            let fields: Vec<String> = (0..n).map(|i| format!("\"k{i}\":0")).collect();
            event_with(&fields.join(","))
        },
        20_000,
    );
    check_linear("one key many times", |n| event_with(&vec!["\"k\":0"; n].join(",")), 20_000);
    check_linear("a long string", |n| event_with(&format!("\"summary_normal\":\"{}\"", "a".repeat(n))), 1 << 20);
    check_linear("digits", |n| event_with(&format!("\"summary_normal\":\"{}\"", "4 ".repeat(n))), 1 << 18);
    check_linear("words", |n| event_with(&format!("\"summary_normal\":\"{}\"", "sk-".repeat(n))), 1 << 18);
    for unit in ["sk-", "eyJ-", "token:", "://a:"] {
        check_linear(unit, |n| event_with(&format!("\"summary_normal\":\"1 {}\"", unit.repeat(n))), 1 << 13);
    }
    check_linear("a long list", |n| event_with(&format!("\"x\":[{}]", vec!["{}"; n].join(","))), 20_000);
    check_linear("deep nesting", |n| "[".repeat(n).into_bytes(), 100_000);
    check_linear(
        "look-alikes",
        |n| {
            let line = &example("events.ndjson")[8];
            line.replace("Order seeds for 40 euros.", &"p\\u0430y ж ".repeat(n)).into_bytes()
        },
        5_000,
    );
}

#[test]
fn a_list_with_many_equal_items_is_cheap() {
    let request = |n: usize| {
        let patterns: Vec<String> = (0..n).map(|i| format!("\"p{i}\"")).collect();
        format!(r#"{{"type":"subscription.request","aaep_version":"1.0.0","subscriber_id":"x","capabilities":{{"event_filters":{{"include":[{}]}}}}}}"#, patterns.join(",")).into_bytes()
    };
    check_linear("unique patterns", request, 20_000);
}

/// Every item breaks a rule in a field with a name of hundreds of kilobytes; the report stays small.
#[test]
fn a_long_name_over_many_violations_is_cheap() {
    let document = |n: usize| {
        let items = vec!["9007199254740993"; n].join(",");
        event_with(&format!("\"extensions\":{{\"x\":{{\"{}\":[{items}]}}}}", "k".repeat(n * 4)))
    };
    check_linear("a long name", document, 6_000);
    let report = validate(&document(48_000));
    let written: usize = report.problems.iter().map(|p| p.pointer.len() + p.message.len()).sum();
    assert!(!report.is_valid() && written < 200_000, "{written} bytes");
}

#[test]
fn a_million_keys_and_sixty_four_mebibytes() {
    let fields: Vec<String> = (0..1_000_000).map(|i| format!("\"k{i}\":0")).collect();
    let report = validate(&event_with(&fields.join(",")));
    assert!(!report.is_valid() && report.problems.len() <= limits::PROBLEMS_PER_DOCUMENT + 1);
    let long =
        event_with(&format!("\"summary_detailed\":\"{}\"", "ab ".repeat(64 << 20 >> 1).get(..64 << 20).unwrap()));
    let report = validate(&long);
    assert!(report.problems.iter().any(|p| p.rule == Rule::MessageSize));
}

#[test]
fn odd_json_is_named_not_guessed() {
    let rule_of = |bytes: &[u8]| validate(bytes).problems.first().map(|p| p.rule);
    assert_eq!(rule_of(b"{\"type\":\"\\ud800\"}"), Some(Rule::Syntax));
    assert_eq!(rule_of(b"\xff\xfe{\0}\0"), Some(Rule::Syntax));
    assert_eq!(rule_of(b"{\"a\":1e999}"), Some(Rule::Syntax));
    assert_eq!(rule_of(b"{\"a\":NaN}"), Some(Rule::Syntax));
    let twice = event_with("\"urgency\":\"critical\"");
    assert!(validate(&twice).problems.iter().any(|p| p.rule == Rule::DuplicateKey));
}
