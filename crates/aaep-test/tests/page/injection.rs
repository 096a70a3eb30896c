//! Whatever the text of an event contains, it is shown as text: nothing executes, nothing breaks out, and what is hidden is
//! told in words.

use serde_json::{Value, json};

use crate::browser::{Browser, BrowserKind};
use crate::in_both_browsers;
use crate::producer::{FakeProducer, event};

in_both_browsers!(hostile_texts_are_shown_as_text, hidden_characters_are_told_in_words, invalid_events_do_no_harm);

/// Opens the page of a producer and waits until its stream is open.
pub(crate) async fn open_page(kind: BrowserKind) -> (FakeProducer, Browser) {
    let producer = FakeProducer::start().await;
    let mut browser = Browser::start(kind).await;
    browser.open(&producer.url()).await;
    browser.until("document.getElementById('connection').textContent.startsWith('Connected')").await;
    (producer, browser)
}

/// Texts that other pages have executed. Each sets `window.hacked` if it works.
const CORPUS: [&str; 14] = [
    "<script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    "<svg onload=window.hacked=1>",
    "\"><svg/onload=window.hacked=1>",
    "'\"--></style></script><script>window.hacked=1</script>",
    "<iframe srcdoc='<script>parent.hacked=1</script>'>",
    "<a href=javascript:window.hacked=1 autofocus onfocus=window.hacked=1>x</a>",
    "[x](javascript:window.hacked=1) ![y](x\" onerror=\"window.hacked=1)",
    "```js\n</code></pre><script>window.hacked=1</script>\n```",
    "<style>body{display:none}</style>",
    "<base href=//evil.example/><form action=//evil.example/><button>go",
    "<div id=dialog></div><div id=assertive aria-live=assertive>fake</div>",
    "{{constructor.constructor('window.hacked=1')()}}${window.hacked=1}",
    "__proto__ constructor toString <!-- ]]> &lt;script&gt; \u{0}",
];

/// Puts a text into every text field of an example, at any depth, except where the protocol has ids and names.
fn poison(value: &mut Value, text: &str, name: &str) {
    let fixed = [
        "@context",
        "type",
        "event_id",
        "session_id",
        "timestamp",
        "reply_token",
        "primary_language",
        "urgency",
        "status",
        "risk_level",
        "default_decision",
        "output_id",
        "accepted_response_kinds",
        "content_type",
        "error_category",
        "cancelled_by",
        "target_kind",
        "reversibility",
    ];
    match value {
        Value::String(old) if !fixed.contains(&name) => text.clone_into(old),
        Value::Array(items) => items.iter_mut().for_each(|item| poison(item, text, name)),
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if !fixed.contains(&name.as_str()) {
                    poison(value, text, name);
                }
            }
        }
        _ => {}
    }
}

async fn hostile_texts_are_shown_as_text(kind: BrowserKind) {
    let (producer, mut browser) = open_page(kind).await;
    let elements_before = browser.eval("document.querySelectorAll('script, iframe, base, style, object').length").await;
    let examples = aaep_test::example("events.ndjson");
    let mut sent = 0;
    for (i, text) in CORPUS.iter().enumerate() {
        for example in &examples {
            let mut value: Value = serde_json::from_str(example).unwrap();
            poison(&mut value, text, "");
            let id = event("x", json!({}))["event_id"].clone();
            value["event_id"] = id;
            value["session_id"] = format!("sess_{i}").into();
            if value.get("reply_token").is_some() {
                // Questions are closed when their session ends.
                value["session_id"] = format!("sess_asking{i}").into();
                value["reply_token"] = format!("rpl_{i}{}", value["type"].as_str().unwrap().len()).into();
            }
            producer.send_raw(&value.to_string());
            sent += 1;
        }
    }
    assert!(sent > 150, "{sent}");
    producer.send("session.completed", json!({"session_id": "sess_end", "summary_normal": "The end of the corpus."}));
    browser.until("document.getElementById('transcript-list').textContent.includes('The end of the corpus.')").await;
    // Every open question is looked at, and every view.
    for view in ["inspector", "captions", "settings", "live"] {
        browser.eval(&format!("document.getElementById('tab-{view}').click()")).await;
    }
    browser.eval("document.querySelectorAll('#inspector-list details').forEach((one) => { one.open = true; })").await;
    let questions = browser.eval("document.querySelectorAll('#question-list button').length").await.as_u64().unwrap();
    assert!(questions >= 28, "{questions} questions");
    for number in 0..questions {
        browser.eval(&format!("document.querySelectorAll('#question-list button')[{number}].click()")).await;
        browser.eval("document.querySelectorAll('#dialog-answers button.danger').forEach((one) => one.click())").await;
    }
    assert_eq!(browser.eval("window.hacked ?? null").await, Value::Null, "nothing executes");
    let elements = browser.eval("document.querySelectorAll('script, iframe, base, style, object').length").await;
    assert_eq!(elements, elements_before, "nothing breaks out");
    assert_eq!(
        browser
            .eval("document.querySelectorAll('#dialog').length + document.querySelectorAll('[aria-live]').length")
            .await,
        3
    );
    assert_eq!(browser.eval("({}).hacked ?? Object.prototype.hacked ?? null").await, Value::Null);
    assert_eq!(browser.eval("getComputedStyle(document.body).display").await, "block");
    let shown = browser.text("document.getElementById('transcript-list').textContent").await;
    assert!(shown.contains(CORPUS[0]) && shown.contains(CORPUS[3]), "{shown}");
    assert_eq!(producer.posted(), Vec::<Value>::new(), "nothing was answered");
    browser.assert_clean().await;
}

async fn hidden_characters_are_told_in_words(kind: BrowserKind) {
    let (producer, mut browser) = open_page(kind).await;
    producer.send(
        "awaiting.confirmation",
        json!({"urgency": "critical", "reply_token": "rpl_1", "timeout_seconds": 600, "default_decision": "reject",
            "action": "Pay p\u{430}ypal 100\u{202E}001.", "consequence": "It is\u{200B} paid."}),
    );
    browser.until_question("Pay").await;
    let text = browser.text("document.getElementById('dialog-text').innerText").await;
    assert!(text.contains("100[direction control U+202E]001"), "{text}");
    assert!(text.contains("It is[hidden character U+200B] paid."), "{text}");
    assert!(text.contains("Warning: this text has a character that changes its order, U+202E."), "{text}");
    assert!(
        text.contains("the word p\u{430}ypal has letters that only look like others: letter 2 is U+0430."),
        "{text}"
    );
    browser.assert_clean().await;
    // The rules are those of the validator.
    let corpus = [
        "plain",
        "a\u{200D}b",
        "می\u{200C}خواهم",
        "ring\u{7}",
        "x\u{FE0F}",
        "❤\u{FE0F}",
        "1\u{FE0F}\u{20E3}",
        "plain \u{2066}text\u{2069}",
        "שלום \u{2066}abc\u{2069}",
        "\u{1F3F4}\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}",
        "\u{1F3F4}\u{E0067}\u{E0062}",
        "co\u{AD}operate",
        "co\u{AD}-op",
        "Pay \u{440}\u{430}\u{443} now",
        "Москва и Pay",
        "p\u{430}ypal",
        "αβγ and abc",
        "Ωmega",
        "กขค\u{200B}กขค",
        "👩\u{200D}👩\u{200D}👧",
        "a\u{E0100}b",
        "葛\u{E0100}",
        "\u{FEFF}x",
        "tab\tnew\nline",
        "\u{202A}a\u{202C}\u{202D}",
    ];
    for text in corpus {
        let found = browser
            .eval(&format!("import('/page/deception.js').then(({{ findDeception, expose }}) => [findDeception({0}, 'en')?.kind ?? null, expose({0})])", json!(text)))
            .await;
        let expected = aaep_proto::validate::find_deception_in(text, Some("en")).map(|found| match found {
            aaep_proto::validate::Deception::Hidden(_) => "hidden",
            aaep_proto::validate::Deception::Direction(_) => "direction",
            aaep_proto::validate::Deception::LookAlike(_) => "look-alike",
        });
        assert_eq!(found, json!([expected, aaep_proto::validate::expose(text)]), "{text:?}");
    }
}

async fn invalid_events_do_no_harm(kind: BrowserKind) {
    let (producer, mut browser) = open_page(kind).await;
    for data in ["", "null", "[]", "{", "\"x\"", "{\"type\": 5}", "{\"type\": \"aaep:agent.session.started\"}"] {
        producer.send_raw(data);
    }
    let hostile = [
        ("session.started", json!({"summary_normal": 5, "producer": null})),
        ("tool.completed", json!({"status": {}, "tool": [], "error_message": 7})),
        ("progress.updated", json!({"progress": "much"})),
        ("output.streaming", json!({"chunk": null, "complete": "yes"})),
        ("awaiting.confirmation", json!({"reply_token": 9, "timeout_seconds": "x", "extra_context": "y"})),
        (
            "awaiting.clarification",
            json!({"reply_token": "rpl_2", "timeout_seconds": -5, "choices": [{"label": "a", "value": "b"}, {}]}),
        ),
        ("state.changed", json!({"extensions": {"consent": 5}})),
        ("handoff.requested", json!({"target_kind": 1, "reason": {}})),
    ];
    for (kind, fields) in hostile {
        producer.send(kind, fields);
    }
    producer.send("session.completed", json!({"summary_normal": "It goes on."}));
    browser.until("document.getElementById('transcript-list').textContent.includes('It goes on.')").await;
    browser.assert_clean().await;
}
