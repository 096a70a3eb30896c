//! Every view and state: no violation that axe-core can find, the roles, names and focus that a screen reader gets, and a
//! layout that fits small and forced-colour screens.

use serde_json::{Value, json};

use crate::browser::{Browser, BrowserKind};
use crate::in_both_browsers;
use crate::injection::open_page;
use crate::npm::modules;
use crate::producer::FakeProducer;
use crate::questions::ask;

in_both_browsers!(
    every_state_passes_axe_and_fits_small_screens,
    transcript_is_browsed_by_keyboard,
    tree_has_roles_and_names
);

/// Runs axe-core and asserts that it finds nothing.
async fn assert_accessible(browser: &mut Browser, state: &str) {
    if browser.eval("typeof window.axe").await == "undefined" {
        let script = std::fs::read_to_string(modules().join("axe-core/axe.min.js")).unwrap();
        let target = json!({"context": browser.context});
        browser
            .bidi
            .call("script.evaluate", json!({"expression": script, "target": target, "awaitPromise": false}))
            .await;
    }
    let tags = json!({"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]});
    let found = browser
        .eval(&format!(
            "axe.run(document, {tags}).then(({{ violations, passes }}) => ({{ passes: passes.length, \
             violations: violations.map(({{ id, nodes }}) => [id, nodes.map((node) => [node.html.slice(0, 200), node.failureSummary])]) }}))"
        ))
        .await;
    assert!(found["passes"].as_u64().unwrap() > 10, "{state}: {found}");
    assert_eq!(found["violations"], json!([]), "{state} in {:?}: {:#}", browser.kind, found["violations"]);
}

/// Asserts that nothing needs to be scrolled sideways, except tables in their own boxes.
async fn assert_fits(browser: &mut Browser, state: &str) {
    let width = browser.eval("[document.documentElement.scrollWidth, innerWidth]").await;
    assert!(width[0].as_f64() <= width[1].as_f64(), "{state} is wider than the screen: {width}");
}

/// Sends one of each event.
pub(crate) fn fill(producer: &FakeProducer) {
    producer.send("session.started", json!({"summary_normal": "Writing a report."}));
    producer.send("tool.invoked", json!({"tool": "look_up", "summary_normal": "Looking up the numbers."}));
    producer.send(
        "tool.completed",
        json!({"tool": "look_up", "status": "success", "summary_normal": "The numbers are there."}),
    );
    producer.send("progress.updated", json!({"progress": {"percent": 40}}));
    let text = "# Report\n\nAll is **well**.\n\n```rust\nfn main() {}\n```\n";
    producer.send(
        "output.streaming",
        json!({"chunk": text, "position": 0, "complete": true, "content_type": "text/markdown"}),
    );
    producer.send("output.streaming", json!({"chunk": "كل شيء على ما يرام.", "position": 0, "complete": true, "output_id": "out_2", "language": "ar"}));
    producer.send(
        "session.errored",
        json!({"session_id": "sess_2", "error_category": "permanent", "summary_normal": "The printer is on fire."}),
    );
    producer.send("session.completed", json!({"session_id": "sess_3", "summary_normal": "Everything is tidy."}));
}

async fn every_state_passes_axe_and_fits_small_screens(kind: BrowserKind) {
    let (producer, mut browser) = open_page(kind).await;
    assert_accessible(&mut browser, "nothing has happened").await;
    fill(&producer);
    browser.until("document.getElementById('transcript-list').textContent.includes('Everything is tidy.')").await;
    for size in [(1280, 900), (320, 256)] {
        browser.resize(size.0, size.1).await;
        for view in ["live", "captions", "inspector", "operator", "settings"] {
            browser.eval(&format!("document.getElementById('tab-{view}').click()")).await;
            if view == "inspector" {
                browser.until("document.querySelectorAll('#inspector-list li').length >= 8").await;
                browser
                    .eval("document.querySelectorAll('#inspector-list details').forEach((one) => { one.open = true; })")
                    .await;
            }
            let state = format!("{view} at {} pixels", size.0);
            assert_accessible(&mut browser, &state).await;
            assert_fits(&mut browser, &state).await;
        }
    }
    ask(&producer, "rpl_1", "Delete a file.");
    producer.send(
        "awaiting.clarification",
        json!({"urgency": "critical", "reply_token": "rpl_2", "timeout_seconds": 600,
        "question": "Which one?", "accepted_response_kinds": ["multiple_choice"],
        "choices": [{"value": "a", "label": "The first"}, {"value": "b", "label": "The second"}]}),
    );
    browser.until_question("Delete a file.").await;
    assert_accessible(&mut browser, "a confirmation").await;
    assert_fits(&mut browser, "a confirmation").await;
    browser.press("Enter").await;
    browser.until_question("Which one?").await;
    assert_accessible(&mut browser, "a clarification").await;
    assert_fits(&mut browser, "a clarification").await;
    browser.press("Escape").await;
    browser.until_closed().await;
    assert_accessible(&mut browser, "a list of questions").await;
    if kind == BrowserKind::Chromium {
        assert_accessible_in_all_colours(&mut browser).await;
    }
    browser.assert_clean().await;
}

/// Asserts the same with forced colours, without motion, and in the dark. Only Chromium can be told to.
async fn assert_accessible_in_all_colours(browser: &mut Browser) {
    let features = json!([{"name": "forced-colors", "value": "active"}, {"name": "prefers-color-scheme", "value": "dark"},
        {"name": "prefers-reduced-motion", "value": "reduce"}]);
    browser.devtools("Emulation.setEmulatedMedia", json!({"features": features})).await;
    assert_eq!(browser.eval("matchMedia('(forced-colors: active)').matches").await, true);
    assert_accessible(browser, "forced colours").await;
    let selected = "getComputedStyle(document.querySelector('[aria-selected=true]'))";
    let other = "getComputedStyle(document.querySelector('[aria-selected=false]'))";
    assert_eq!(browser.eval(&format!("{selected}.textDecorationLine")).await, "underline", "not by colour alone");
    assert_ne!(
        browser.eval(&format!("{selected}.backgroundColor")).await,
        browser.eval(&format!("{other}.backgroundColor")).await
    );
    assert_eq!(browser.eval(&format!("{other}.transitionDuration")).await, "0s", "nothing moves");
    let dark = json!([{"name": "forced-colors", "value": "none"}, {"name": "prefers-color-scheme", "value": "dark"}]);
    browser.devtools("Emulation.setEmulatedMedia", json!({"features": dark})).await;
    for view in ["live", "captions", "inspector", "settings"] {
        browser.eval(&format!("document.getElementById('tab-{view}').click()")).await;
        assert_accessible(browser, &format!("{view}, dark")).await;
    }
}

async fn transcript_is_browsed_by_keyboard(kind: BrowserKind) {
    let (producer, mut browser) = open_page(kind).await;
    fill(&producer);
    browser.until("document.getElementById('transcript-list').textContent.includes('Everything is tidy.')").await;
    let headings =
        browser.eval("[...document.querySelectorAll('#transcript-list h3')].map((one) => one.textContent)").await;
    assert_eq!(headings, json!(["Helper: Writing a report.", "Helper", "Helper"]));
    // Few stops: one for all entries.
    assert_eq!(browser.eval("document.querySelectorAll('#transcript-list li[tabindex=\"0\"]').length").await, 1);
    browser.tab_to("Next unread").await;
    browser.press("Enter").await;
    assert_eq!(browser.focused().await, "Session: Writing a report.");
    browser.press("ArrowDown").await;
    assert_eq!(browser.focused().await, "Tool: Looking up the numbers.");
    browser.press("k").await;
    assert_eq!(browser.focused().await, "Tool: The numbers are there.");
    browser.press("PageDown").await;
    assert_eq!(browser.focused().await, "Failure: The printer is on fire.");
    browser.press("PageDown").await;
    assert_eq!(browser.focused().await, "Result: Everything is tidy.");
    browser.press("PageUp").await;
    browser.press("PageUp").await;
    browser.press("u").await;
    assert!(browser.eval("document.activeElement.matches('li[data-entry]')").await == true);
    let code = browser.eval("(() => { const code = document.querySelector('#transcript-list pre code'); return [code.textContent, code.closest('figure').querySelector('figcaption').textContent]; })()").await;
    assert_eq!(code, json!(["fn main() {}", "rust code, 1 line."]));
    let arabic = browser.eval("(() => { const one = document.querySelector('#transcript-list [lang=ar]'); return [one.dir, one.textContent]; })()").await;
    assert_eq!(arabic, json!(["rtl", "كل شيء على ما يرام."]));
    // New entries do not move what is read.
    let before = browser.focused().await;
    for i in 0..50 {
        producer.send("state.changed", json!({"session_id": "sess_4", "from_state": "a", "to_state": "b", "summary_normal": format!("State {i}.")}));
    }
    browser.until("document.getElementById('transcript-list').textContent.includes('State 49.')").await;
    assert_eq!(browser.focused().await, before);
    browser.eval("(() => { const search = document.querySelector('#transcript-controls input'); search.value = 'printer'; search.dispatchEvent(new Event('change')); })()").await;
    browser.until_heard("1 entry found.").await;
    assert_eq!(browser.eval("document.querySelectorAll('#transcript-list li').length").await, 1);
    browser.assert_clean().await;
}

/// Chromium reports an alertdialog twice to screen readers, so it gets a dialog with the same name, description and focus.
fn role_of_confirmations(kind: BrowserKind) -> &'static str {
    if kind == BrowserKind::Firefox { "alertdialog" } else { "dialog" }
}

/// Returns how many nodes the accessibility tree has with this role and name.
async fn count_nodes(browser: &mut Browser, role: &str, name: &str) -> usize {
    let locator = json!({"type": "accessibility", "value": {"role": role, "name": name}});
    let found =
        browser.bidi.call("browsingContext.locateNodes", json!({"context": browser.context, "locator": locator})).await;
    found["nodes"].as_array().unwrap().len()
}

async fn tree_has_roles_and_names(kind: BrowserKind) {
    let (producer, mut browser) = open_page(kind).await;
    for (role, name) in [
        ("heading", "Follow your agents"),
        ("region", "Questions"),
        ("tablist", "Views"),
        ("tab", "Transcript"),
        ("tab", "Captions"),
        ("tab", "Inspector"),
        ("tab", "Operator"),
        ("tab", "Settings"),
        ("tabpanel", "Transcript"),
        ("combobox", "Show"),
        ("searchbox", "Search"),
        ("button", "Next unread"),
    ] {
        assert_eq!(count_nodes(&mut browser, role, name).await, 1, "{role} {name}");
    }
    ask(&producer, "rpl_1", "Delete a file.");
    browser.until_question("Delete a file.").await;
    for (role, name) in [
        (role_of_confirmations(kind), "Helper asks"),
        ("button", "No, do not do it"),
        ("button", "Yes, do it"),
        ("button", "Repeat"),
        ("button", "Time left"),
        ("button", "More time"),
        ("button", "Later"),
    ] {
        assert_eq!(count_nodes(&mut browser, role, name).await, 1, "{role} {name}");
    }
    let attributes = browser
        .eval("(() => { const dialog = document.getElementById('dialog'); return [dialog.getAttribute('aria-modal'), document.getElementById(dialog.getAttribute('aria-describedby')).innerText.replaceAll(/\\s+/g, ' '), document.activeElement.textContent]; })()")
        .await;
    assert_eq!(attributes[0], "true");
    assert!(
        attributes[1]
            .as_str()
            .unwrap()
            .starts_with("Delete a file. It is done. This can be undone. Low risk. You have 10 minutes"),
        "{attributes}"
    );
    assert_eq!(attributes[2], "No, do not do it");
    // For voice control: what is visible is the name.
    let named = browser
        .eval("[...document.querySelectorAll('button')].filter((one) => one.hasAttribute('aria-label')).length")
        .await;
    assert_eq!(named, 0);
    if kind == BrowserKind::Chromium {
        assert_tree(&mut browser).await;
    }
    browser.assert_clean().await;
}

/// Asserts that the tree of Chromium has the focus on the right button, and describes the dialog.
async fn assert_tree(browser: &mut Browser) {
    let tree = browser.devtools("Accessibility.getFullAXTree", json!({})).await;
    let nodes = tree["nodes"].as_array().unwrap();
    let focused = nodes.iter().find(|node| {
        node["role"]["value"] == "button"
            && node["properties"]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one["name"] == "focused" && one["value"]["value"] == true))
    });
    assert_eq!(focused.map(|node| &node["name"]["value"]), Some(&Value::from("No, do not do it")));
    let dialog = nodes.iter().find(|node| node["role"]["value"] == "dialog").unwrap();
    assert!(dialog["description"]["value"].as_str().unwrap().contains("Delete a file."), "{dialog}");
}
