//! Tokens from a file.

use aaep_keys::static_tokens::{LineProblem, TOKENS};
use aaep_keys::{NamedUsers, ParseRoleError, Role, StaticToken, StaticTokens, TokenFileError};

fn line_fault(text: &str) -> (usize, LineProblem) {
    match StaticTokens::parse(text) {
        Err(TokenFileError::Line { number, problem }) => (number, problem),
        other => panic!("{other:?}"),
    }
}

#[test]
fn token_file_with_comments_and_blank_lines_is_parsed() {
    // The SHA-256 of "abc", from FIPS 180-2.
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let text =
        format!("# who may listen\r\n\n  \t\n{abc} kitchen subscribe\nplain-token-of-the-hall hall subscribe,reply\n");
    let tokens = StaticTokens::parse(&text).unwrap();
    assert_eq!(tokens.len(), 2);
    let kitchen = tokens.find("abc").unwrap();
    assert!(kitchen.principal == "kitchen" && kitchen.may(Role::Subscribe) && !kitchen.may(Role::Reply));
    assert!(tokens.find("plain-token-of-the-hall").unwrap().may(Role::Reply));
    // The hash is not the token.
    for wrong in [abc, "", "ab", "abcd", "ABC", "plain-token-of-the-hal", "# who may listen"] {
        assert_eq!(tokens.find(wrong), None, "{wrong}");
    }
    let marked = StaticTokens::parse(&format!("sha256:{} kitchen audit", abc.to_uppercase())).unwrap();
    assert!(marked.find("abc").unwrap().may(Role::Audit));
}

#[test]
fn new_token_is_valid_and_its_line_does_not_contain_it() {
    let (one, two) = (StaticToken::generate().unwrap(), StaticToken::generate().unwrap());
    assert_ne!(one.secret(), two.secret());
    assert!(one.secret().len() >= 43);
    let line = one.line("hall", &[Role::Reply, Role::Subscribe].into(), &NamedUsers::Nobody);
    assert!(!line.contains(one.secret()) && line.ends_with(" hall subscribe,reply"), "{line}");
    let tokens = StaticTokens::parse(&line).unwrap();
    assert_eq!(tokens.find(one.secret()).unwrap().principal, "hall");
    assert_eq!(tokens.find(two.secret()), None);
    assert!(!format!("{one:?}{tokens:?}").contains(&one.secret()[5..]));
    assert!(!format!("{tokens:?}").contains(&line[7..20]));
}

#[test]
fn invalid_lines_are_reported_by_number() {
    let good = "a-plain-token-that-is-long hall reply\n";
    for (line, problem) in [
        ("one-word-of-some-length", LineProblem::Form),
        ("two-words-of-some-length hall", LineProblem::Form),
        ("four-words-of-some-length hall reply subscribe", LineProblem::Form),
        ("too-short hall reply", LineProblem::Token),
        (&format!("{} hall reply", "x".repeat(1025)), LineProblem::Token),
        (&format!("sha256:{} hall reply", "ab".repeat(31)), LineProblem::Hash),
        (&format!("sha256:{} hall reply", "g".repeat(64)), LineProblem::Hash),
        (&format!("{good} "), LineProblem::Duplicate),
        (&format!("another-plain-token-here {} reply", "x".repeat(257)), LineProblem::Principal),
        ("another-plain-token-here hall cook", LineProblem::Role(ParseRoleError("cook".into()))),
        ("another-plain-token-here hall reply,", LineProblem::Role(ParseRoleError(String::new()))),
    ] {
        assert_eq!(line_fault(&format!("{good}\n# note\n{line}")), (4, problem), "{line}");
    }
    // Who reads the error in a log must not learn the token.
    let fault = StaticTokens::parse("secret-token-of-the-hall hall cook").unwrap_err().to_string();
    assert_eq!(fault, "has a mistake on line 1: unknown role \"cook\"; use subscribe, reply, audit, admin or produce");
}

#[test]
fn duplicate_token_is_refused_in_either_form() {
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(line_fault(&format!("{abc} a reply\nsha256:{abc} b reply")), (2, LineProblem::Duplicate));
}

#[test]
fn the_number_of_tokens_is_bounded() {
    let line = |n: usize| format!("a-token-of-number-{n:06} user{n} subscribe\n");
    let text: String = (0..TOKENS).map(line).collect();
    let tokens = StaticTokens::parse(&text).unwrap();
    assert_eq!(tokens.find("a-token-of-number-009999").unwrap().principal, "user9999");
    assert_eq!(StaticTokens::parse(&(text + &line(TOKENS))).unwrap_err(), TokenFileError::TooMany);
    assert!(StaticTokens::parse("# nobody\n").unwrap().is_empty());
}
