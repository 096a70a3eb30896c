//! The pictures of the page in the documentation. `scripts/screenshots` makes them.

use serde_json::{Value, json};

use crate::browser::{Browser, BrowserKind};
use crate::producer::FakeProducer;

/// Sends a session like that of the banking scene, up to its question.
fn play(producer: &FakeProducer) {
    let send = |kind: &str, fields: Value| producer.send(kind, fields);
    send("session.started", json!({"summary_normal": "Looking after your transfer to savings."}));
    send("tool.invoked", json!({"tool": "fetch_balance", "summary_normal": "Looking up your checking balance."}));
    send(
        "tool.completed",
        json!({"tool": "fetch_balance", "status": "success", "summary_normal": "Your checking account holds 12,500 dollars."}),
    );
    let text = "Here is what I found.\n\n```\nchecking  12,500\nsavings    3,000\n```\n\nThere is enough money for the transfer.";
    send("output.streaming", json!({"chunk": text, "position": 0, "complete": true, "content_type": "text/markdown"}));
    send(
        "state.changed",
        json!({"from_state": "thinking", "to_state": "deciding", "summary_normal": "Checking that there is enough money."}),
    );
}

fn ask(producer: &FakeProducer) {
    producer.send("awaiting.confirmation", json!({"urgency": "critical",
        "reply_token": "rpl_1", "timeout_seconds": 300, "default_decision": "reject", "risk_level": "high", "irreversible": true,
        "action": "Transfer 500 dollars from checking to savings.",
        "consequence": "The money moves at once and the bank cannot take it back."}));
}

async fn take(browser: &mut Browser, name: &str) {
    // What moves comes to rest first.
    browser.eval("Promise.all(document.getAnimations().map((one) => one.finished))").await;
    let answer = browser.bidi.call("browsingContext.captureScreenshot", json!({"context": browser.context})).await;
    let decoded = base64(answer["data"].as_str().unwrap());
    let directory = aaep_test::root().join("docs/images");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join(format!("page-{name}.png")), decoded).unwrap();
}

/// Decodes base64.
fn base64(text: &str) -> Vec<u8> {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let values = text.bytes().filter_map(|byte| digits.iter().position(|digit| *digit == byte));
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for value in values {
        bits = (bits << 6) | u32::try_from(value).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    bytes
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes the pictures of the documentation; run scripts/screenshots"]
async fn pictures_of_the_documentation() {
    for scheme in ["light", "dark"] {
        let producer = FakeProducer::start().await;
        let mut browser = Browser::start(BrowserKind::Chromium).await;
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        browser.devtools("Emulation.setEmulatedMedia", json!({"features": features})).await;
        browser.resize(960, 720).await;
        browser.open(&producer.url()).await;
        browser.until("document.getElementById('connection').textContent.startsWith('Connected')").await;
        play(&producer);
        browser.until("document.getElementById('transcript-list').textContent.includes('Checking that there is enough money.')").await;
        take(&mut browser, &format!("transcript-{scheme}")).await;
        browser.eval("document.getElementById('tab-inspector').click()").await;
        browser.until("document.querySelectorAll('#inspector-list li').length >= 5").await;
        browser.eval("(() => { document.querySelector('#inspector-list details').open = true; document.getElementById('inspector-count').scrollIntoView(); })()").await;
        browser.until("document.querySelector('#inspector-list pre') !== null").await;
        take(&mut browser, &format!("inspector-{scheme}")).await;
        browser.eval("(() => { scrollTo(0, 0); document.getElementById('tab-captions').click(); })()").await;
        browser
            .until("document.getElementById('caption-lines').textContent.includes('enough money for the transfer.')")
            .await;
        browser.eval("document.getElementById('tabs').scrollIntoView()").await;
        take(&mut browser, &format!("captions-{scheme}")).await;
        browser.eval("(() => { scrollTo(0, 0); document.getElementById('tab-live').click(); })()").await;
        ask(&producer);
        browser.until_question("Transfer 500 dollars").await;
        take(&mut browser, &format!("question-{scheme}")).await;
        browser.assert_clean().await;
    }
}
