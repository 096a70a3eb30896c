use super::*;

fn check(text: &str, expected: Option<(SecretKind, &str)>) {
    let found = find_secret(text).map(|s| (s.kind, &text[s.range]));
    assert_eq!(found, expected, "{text}");
}

#[test]
fn secrets_are_found() {
    use SecretKind::*;
    check("Card 4111 1111 1111 1111, please", Some((CardNumber, "4111 1111 1111 1111")));
    check("Card 4111111111111111", Some((CardNumber, "4111111111111111")));
    check("5500-0000-0000-0004 is a card", Some((CardNumber, "5500-0000-0000-0004")));
    check("SSN 123-45-6789.", Some((SocialSecurityNumber, "123-45-6789")));
    check("api_key=sk-test-12345", Some((Password, "sk-test-12345")));
    check("with sk-test-12345678", Some((ApiKey, "sk-test-12345678")));
    check("key ghp_abcdefghij0123456789ABCD end", Some((ApiKey, "ghp_abcdefghij0123456789ABCD")));
    check("AKIAIOSFODNN7EXAMPLE", Some((ApiKey, "AKIAIOSFODNN7EXAMPLE")));
    check("Authorization: Bearer abc.def-123456", Some((BearerToken, "Bearer abc.def-123456")));
    check(
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc123",
        Some((BearerToken, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc123")),
    );
    let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow1B\n-----END RSA PRIVATE KEY-----";
    check(&format!("{key}\nThat was it."), Some((PrivateKey, key)));
    check("password=hunter2 ok", Some((Password, "hunter2")));
    check("Password: hunter2", Some((Password, "hunter2")));
}

#[test]
fn secrets_are_found_in_all_their_forms() {
    use SecretKind::*;
    check("{\"password\": \"hunter22\"}", Some((Password, "hunter22")));
    check("{\\\"password\\\": \\\"hunter22\\\"}", Some((Password, "hunter22")));
    check("password = hunter22", Some((Password, "hunter22")));
    check("DB_PASSWORD=hunter22", Some((Password, "hunter22")));
    check("dbPassword=hunter22", Some((Password, "hunter22")));
    check("password=12345678", Some((Password, "12345678")));
    let hex = "9f8e7d6c5b4a39281706f5e4d3c2b1a0";
    for name in ["API key", "api-key", "apiKey", "\"api_key\"", "Access token", "client_secret"] {
        check(&format!("{name}: {hex}"), Some((Password, hex)));
    }
    check("?token=abc123def456&x=1", Some((Password, "abc123def456")));
    check("Authorization: Bearer  abc123456", Some((BearerToken, "Bearer  abc123456")));
    check("postgres://bob:hunter22@db", Some((Password, "hunter22")));
    check("postgres://bob:secretly@db", Some((Password, "secretly")));
    check("sk-ant-api03-abcDEF123456789", Some((ApiKey, "sk-ant-api03-abcDEF123456789")));
    check("密钥sk-proj-1234567890abcdef。", Some((ApiKey, "sk-proj-1234567890abcdef")));
    // A secret longer than the lookahead limit is covered entirely.
    let long = format!("ghp_{}", "a1".repeat(MAX_LOOKAHEAD_BYTES));
    check(&format!("key {long} end"), Some((ApiKey, &long)));
}

#[test]
fn ordinary_values_are_not_secrets() {
    for text in [
        "pwd=/home/anna/project",
        "pwd=/home/anna/project2",
        "sk-project-2024 branch",
        "sk-release-20240524 branch",
        "token=accepted",
        "password=required",
        "Password: min8chars",
        "Token: step2of5",
        "Token: 2026-05-24T14:22:11Z",
        "BEARER 2026-05-24 note",
        "max_token=100000",
        "tokens: 4096tok",
        "password=${DB_PASSWORD_1}",
        "https://example.org:8080/a@b1",
        "Write to anna1@example.org: she knows.",
        "https://bob:***@db1",
    ] {
        check(text, None);
    }
}

/// Each repeated beginning of a secret is scanned once, up to the lookahead limit.
#[test]
fn repeated_beginnings_are_scanned_in_linear_time() {
    for (unit, times) in [("sk-", 20_000), ("eyJ-", 20_000), ("token:", 10_000), ("://a:", 10_000)] {
        check(&format!("1 {}", unit.repeat(times)), None);
    }
}

#[test]
fn prose_and_identifiers_are_not_secrets() {
    for text in [
        "Transfer $500.00 from checking-7821 to savings-3344.",
        "account_id: checking-7821",
        "4111 1111 1111 1112 does not pass the Luhn check",
        "Order 1234567890123456789012345",
        "Phone 555-123-4567",
        "000-12-3456 and 123-00-4567",
        "Balance as of 2026-05-24 14:22:16.",
        "The task-force and the risk-12345678 and disk-123456789",
        "Enter your password: it is needed.",
        "password=[redacted]",
        "The bearer of this letter",
        "token: accepted",
        "evt_4111111111111111 is an id",
        "",
        "Ẹ ku àárọ̀. Ṣé o sun re?",
    ] {
        check(text, None);
    }
}
