//! Ten thousand events at once: the page stays small and keeps responding.

use serde_json::json;

use crate::browser::BrowserKind;
use crate::in_both_browsers;
use crate::injection::open_page;

in_both_browsers!(ten_thousand_events_stay_bounded);

const EVENTS: usize = 10_000;

/// The longest time that the page may not respond, in milliseconds.
const MAX_TASK_MILLIS: f64 = 200.0;

/// The memory that the page may use afterwards. 5,000 entries and 10,000 captured events are kept.
const MAX_HEAP_BYTES: u64 = 48 << 20;

async fn ten_thousand_events_stay_bounded(kind: BrowserKind) {
    let (producer, mut browser) = open_page(kind).await;
    // The gaps of a timer show long tasks in every browser.
    browser
        .eval("(() => { let last = performance.now(); setInterval(() => { const now = performance.now(); observed.gap = Math.max(observed.gap ?? 0, now - last - 20); last = now; }, 20); })()")
        .await;
    browser.eval("document.getElementById('tab-live').click()").await;
    for i in 0..EVENTS {
        let session = format!("sess_{}", i / 500);
        match i % 4 {
            0 => producer.send("tool.invoked", json!({"session_id": session, "tool": "look_up", "summary_normal": format!("Looking up number {i}.")})),
            1 => producer.send("output.streaming", json!({"session_id": session, "chunk": format!("Sentence number {i}. "), "position": 0, "complete": false, "output_id": format!("out_{}", i / 100)})),
            2 => producer.send("state.changed", json!({"session_id": session, "from_state": "thinking", "to_state": "deciding", "summary_normal": format!("State {i}.")})),
            _ => producer.send("tool.completed", json!({"session_id": session, "tool": "look_up", "status": "success", "summary_normal": format!("Found number {i}.")})),
        }
        // As fast as the page takes them, not as fast as memory does.
        if i % 200 == 199 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    producer.send("session.completed", json!({"session_id": "sess_end", "summary_normal": "All of it."}));
    browser.until("document.getElementById('transcript-list').textContent.includes('All of it.')").await;
    let items = browser.eval("document.querySelectorAll('#transcript-list li').length").await.as_u64().unwrap();
    assert!((100..=400).contains(&items), "{items} entries in the page");
    let elements = browser.eval("document.querySelectorAll('*').length").await.as_u64().unwrap();
    assert!(elements < 4000, "{elements} elements");
    assert!(browser.text("document.getElementById('transcript-removed').textContent").await.contains("were removed"));
    let heard = browser.heard().await;
    assert!(heard.len() < 100, "{} announcements", heard.len());
    // What cannot be said in time is left out, and the user is told.
    browser.until_heard("messages were left out, because too many came at once.").await;
    let (task, gap) = (browser.eval("observed.longest").await, browser.eval("observed.gap ?? 0").await);
    println!("{kind:?}: longest task {task} ms, longest gap {gap} ms");
    assert!(task.as_f64().unwrap() < MAX_TASK_MILLIS, "a task took {task} ms");
    if kind == BrowserKind::Chromium {
        browser.devtools("HeapProfiler.collectGarbage", json!({})).await;
        let bytes = browser.eval("performance.memory.usedJSHeapSize").await.as_u64().unwrap();
        println!("{bytes} bytes");
        assert!(bytes < MAX_HEAP_BYTES, "{bytes} bytes are kept");
    }
    browser.assert_clean().await;
}
