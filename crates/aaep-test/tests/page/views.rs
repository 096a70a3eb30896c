//! The inspector and the captions, on the same client.

use serde_json::{Value, json};

use crate::browser::BrowserKind;
use crate::in_both_browsers;
use crate::injection::open_page;

in_both_browsers!(
    inspector_shows_findings_and_changes_terms,
    captions_come_word_by_word,
    question_while_the_page_is_read
);

async fn inspector_shows_findings_and_changes_terms(kind: BrowserKind) {
    let (producer, mut browser) = open_page(kind).await;
    browser.eval("document.getElementById('tab-inspector').click()").await;
    let terms = browser.text("document.getElementById('inspector-terms-body').textContent").await;
    assert!(terms.contains("coalesce_boundaries[\"sentence\",\"completion\"]"), "{terms}");
    producer.send("session.started", json!({"summary_normal": "Fine."}));
    producer.send("session.completed", json!({"summary_normal": 7, "urgency": "loud"}));
    browser.until("document.querySelectorAll('#inspector-list li').length === 2").await;
    let heads =
        browser.eval("[...document.querySelectorAll('#inspector-list summary')].map((one) => one.textContent)").await;
    assert_eq!(
        heads,
        json!(["aaep:agent.session.started. It fits the schema.", "aaep:agent.session.completed. 2 findings."])
    );
    browser.eval("document.querySelectorAll('#inspector-list details').forEach((one) => { one.open = true; })").await;
    browser.until("document.querySelectorAll('#inspector-list pre').length === 2").await;
    let findings =
        browser.eval("[...document.querySelectorAll('#inspector-list ul li')].map((one) => one.textContent)").await;
    assert_eq!(
        findings,
        json!(["/summary_normal: is not string", "/urgency: is not one of background, normal, critical"])
    );
    let shown: Value =
        serde_json::from_str(&browser.text("document.querySelector('#inspector-list pre').textContent").await).unwrap();
    assert_eq!(shown["summary_normal"], "Fine.");
    // The terms are renegotiated live.
    browser.eval("(() => { const form = document.querySelector('#inspector-terms-form form'); form.querySelector('input').value = '5'; form.requestSubmit(); })()").await;
    browser.until_heard("The terms have changed.").await;
    let posted = producer.posted();
    assert_eq!(posted[0]["capabilities"]["max_events_per_second"], 5, "{posted:?}");
    browser
        .until("document.getElementById('inspector-terms-body').textContent.includes('max_events_per_second55')")
        .await;
    // The capture is one event per line.
    browser.eval("(() => { const create = URL.createObjectURL; URL.createObjectURL = (blob) => { window.saved = blob.text(); return create.call(URL, blob); }; })()").await;
    browser.eval("document.querySelector('#inspector-controls button').click()").await;
    let saved = browser.text("window.saved").await;
    assert_eq!(
        saved.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone()).collect::<Vec<_>>(),
        ["aaep:agent.session.started", "aaep:agent.session.completed"]
    );
    browser.assert_clean().await;
}

async fn captions_come_word_by_word(kind: BrowserKind) {
    let (producer, mut browser) = open_page(kind).await;
    browser.eval("document.getElementById('tab-captions').click()").await;
    browser
        .eval("(() => { window.steps = []; new MutationObserver(() => steps.push(document.getElementById('caption-lines').textContent)).observe(document.getElementById('caption-lines'), { childList: true, subtree: true, characterData: true }); })()")
        .await;
    producer.send("output.streaming", json!({"chunk": "One two three four.", "position": 0, "complete": true}));
    browser.until("document.getElementById('caption-lines').textContent === 'One two three four.'").await;
    let steps: Vec<String> = serde_json::from_value(browser.eval("steps").await).unwrap();
    assert!(steps.contains(&"One".to_owned()) && steps.contains(&"One two three".to_owned()), "{steps:?}");
    let colours = browser.eval("(() => { const style = getComputedStyle(document.getElementById('caption-lines')); return [style.color, style.backgroundColor]; })()").await;
    assert_eq!(colours, json!(["rgb(255, 255, 255)", "rgb(0, 0, 0)"]));
    browser.assert_clean().await;
}

/// Until a screen reader has read the page, the button with the focus is described by the question too.
async fn question_while_the_page_is_read(kind: BrowserKind) {
    let (producer, mut browser) = open_page(kind).await;
    crate::questions::ask(&producer, "rpl_1", "Delete a file.");
    browser.until("!document.getElementById('dialog').hidden").await;
    if browser.eval("performance.now() < 20000").await == true {
        assert_eq!(browser.text("document.activeElement.getAttribute('aria-describedby')").await, "dialog-text");
    }
    browser.assert_clean().await;
}
