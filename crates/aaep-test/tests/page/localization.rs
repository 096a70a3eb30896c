//! The page speaks the language of its user.

use serde_json::json;

use crate::browser::{Browser, BrowserKind};
use crate::in_both_browsers;
use crate::producer::FakeProducer;

in_both_browsers!(page_is_in_the_language_of_the_user, settings_reach_the_producer);

async fn open_in(browser: &mut Browser, producer: &FakeProducer, language: &str) {
    browser.bidi.call("emulation.setLocaleOverride", json!({"locale": language, "contexts": [browser.context]})).await;
    browser.open(&producer.url()).await;
    browser
        .eval(&format!(
            "localStorage.setItem('aaep-page-settings', JSON.stringify({{languages: ['{language}', 'en']}}))"
        ))
        .await;
    browser.open(&producer.url()).await;
    browser.until("document.getElementById('transcript-controls').childElementCount > 0").await;
}

async fn page_is_in_the_language_of_the_user(kind: BrowserKind) {
    let producer = FakeProducer::start().await;
    let mut browser = Browser::start(kind).await;
    for (language, direction, title, nothing) in [
        ("de", "ltr", "Deinen Agenten folgen", "Nichts wartet auf deine Antwort."),
        ("ar", "rtl", "تابع وكلاءك", ""),
        ("yo", "ltr", "Tẹ̀lé àwọn aṣojú rẹ", ""),
    ] {
        open_in(&mut browser, &producer, language).await;
        assert_eq!(browser.text("document.documentElement.lang").await, language);
        assert_eq!(browser.text("document.documentElement.dir").await, direction);
        assert_eq!(browser.text("document.title").await, title);
        let count = browser.text("document.getElementById('question-count').textContent").await;
        assert!(!count.is_empty() && (nothing.is_empty() || count == nothing), "{count}");
        let left = browser.eval("[...document.querySelectorAll('[data-t]')].filter((one) => one.textContent === '' || one.textContent === one.dataset.t).length").await;
        assert_eq!(left, 0, "{language}");
    }
    open_in(&mut browser, &producer, "de").await;
    browser.until("document.getElementById('connection').textContent === 'Verbunden mit Helper.'").await;
    producer.send("awaiting.confirmation", json!({"urgency": "critical", "reply_token": "rpl_1", "timeout_seconds": 90,
        "default_decision": "reject", "risk_level": "high", "irreversible": true, "action": "Delete it.", "action_de": "Die Datei löschen.",
        "consequence": "Gone.", "consequence_de": "Sie ist weg."}));
    browser.until_question("Die Datei löschen.").await;
    let text = browser.text("document.getElementById('dialog-text').innerText.replaceAll(/\\s+/g, ' ')").await;
    assert!(text.starts_with("Die Datei löschen. Sie ist weg. ") && text.contains("Sekunden"), "{text}");
    assert_eq!(browser.text("document.querySelector('#dialog-text .asked').lang").await, "de");
    browser.assert_clean().await;
}

async fn settings_reach_the_producer(kind: BrowserKind) {
    let producer = FakeProducer::start().await;
    let mut browser = Browser::start(kind).await;
    browser.open(&producer.url()).await;
    browser.until("document.getElementById('connection').textContent.startsWith('Connected')").await;
    browser.eval("document.getElementById('tab-settings').click()").await;
    let choose = |label: &str, value: &str| {
        format!(
            "(() => {{ const field = [...document.querySelectorAll('#settings-form label')].find((one) => one.textContent === '{label}').control; field.value = '{value}'; field.dispatchEvent(new Event('change')); }})()"
        )
    };
    browser.eval(&choose("Words", "terse")).await;
    browser.eval(&choose("Time to answer", "10")).await;
    browser.until("localStorage.getItem('aaep-page-settings').includes('terse')").await;
    let last = async || producer.posted().into_iter().rfind(|message| message["type"] == "subscription.renegotiate");
    aaep_test::until("the change", async || {
        last().await.is_some_and(|message| message["capabilities"]["more_time"]["factor"] == 10)
    })
    .await;
    let message = last().await.unwrap();
    assert_eq!(message["capabilities"]["preferred_verbosity"], "terse");
    assert_eq!(message["subscription_id"], "sub_1");
    producer.send("session.started", json!({"summary_terse": "Short.", "summary_normal": "Much longer."}));
    browser.until_heard("Short.").await;
    // Off is silent, and the transcript goes on.
    browser.eval(&choose("Announcements to the screen reader", "off")).await;
    producer.send("session.completed", json!({"summary_terse": "Silent."}));
    browser.until("document.getElementById('transcript-list').textContent.includes('Silent.')").await;
    assert!(!browser.heard().await.iter().any(|one| one.contains("Silent.")));
    // The voice of the browser speaks whole utterances.
    browser.eval("(() => { window.spoken = []; speechSynthesis.speak = (one) => spoken.push(one.text); })()").await;
    browser.eval("(() => { [...document.querySelectorAll('#settings-form label')].find((one) => one.textContent.includes('voice of the browser')).control.click(); })()").await;
    producer.send("session.completed", json!({"session_id": "sess_5", "summary_terse": "Spoken."}));
    browser.until("window.spoken.includes('Done. Spoken.')").await;
    browser.assert_clean().await;
}
