//! The banking session, followed and answered by keyboard alone.

use super::agents::Demo;
use super::tmux::Tmux;

const ASKED: &str = "Answer yes or no.";

/// Returns the index of a text, or panics with everything that is shown.
fn place(text: &str, part: &str) -> usize {
    text.find(part).unwrap_or_else(|| panic!("no {part:?} in:\n{}", text.trim_end()))
}

#[test]
fn demo_is_followed_and_answered_yes() {
    let tmux = Tmux::start(&["demo", "banking", "--listen", "127.0.0.1:0", "--no-unix", "--no-pauses"], &[]);
    tmux.is_asked(1, ASKED);
    let before = tmux.text();
    place(&before, "Serving the demo at http://127.0.0.1:");
    place(&before, "Question 1: Demo asks: Transfer 500 dollars from checking to savings.");
    place(&before, "Question 1: The money moves at once and the bank cannot take it back.");
    place(&before, "Question 1: This cannot be undone. High risk.");
    assert!(!before.contains("Transferring"), "nothing happens before the answer:\n{before}");
    tmux.enter("yes");
    let after = tmux.sees("exit code: 0");
    let order = ["Answer 1: Sent: yes.", "Tool: Transferring 500 dollars", "End: Done.", "exit code: 0"];
    assert!(order.map(|part| place(&after, part)).is_sorted(), "{after}");
}

#[test]
fn demo_answered_no_does_nothing() {
    let tmux = Tmux::start(&["demo", "banking", "--listen", "127.0.0.1:0", "--no-unix", "--no-pauses"], &[]);
    tmux.is_asked(1, ASKED);
    tmux.enter("n");
    let after = tmux.sees("exit code: 0");
    place(&after, "Nothing was transferred, as you wished.");
    assert!(!after.contains("Transferring"), "{after}");
}

#[test]
fn single_letter_does_not_accept_a_transfer() {
    let tmux = Tmux::start(&["demo", "banking", "--listen", "127.0.0.1:0", "--no-unix", "--no-pauses"], &[]);
    tmux.is_asked(1, ASKED);
    tmux.enter("y");
    tmux.sees("Question 1 needs the whole word. Type yes to accept. Nothing was sent.");
    tmux.enter("details");
    tmux.sees("Reply: Action: Transfer 500 dollars from checking to savings.");
    tmux.enter("repeat");
    tmux.is_asked(1, "left to answer. Without an answer it will not be done.");
    tmux.enter("no");
    let after = tmux.sees("exit code: 0");
    assert!(!after.contains("Transferring"), "{after}");
}

#[test]
fn listens_at_an_address() {
    let demo = Demo::start(&["banking", "--once", "--no-pauses"]);
    let tmux = Tmux::start(&["listen", &demo.url], &[]);
    tmux.sees("Note: Listening to Demo at http://127.0.0.1:");
    tmux.is_asked(1, ASKED);
    assert!(!tmux.text().contains("Transferring"));
    tmux.enter("yes");
    let after = tmux.sees("End: Done. 500 dollars are in savings now.");
    assert!(place(&after, "Answer 1: Sent: yes.") < place(&after, "Transferring 500 dollars"), "{after}");
    tmux.enter("previous question");
    tmux.enter("close");
    tmux.sees("exit code: 0");
}

#[test]
fn ctrl_c_ends_cleanly() {
    let demo = Demo::start(&["banking"]);
    let tmux = Tmux::start(&["listen", &demo.url], &[]);
    tmux.sees("Listening to Demo");
    tmux.press("C-c");
    let text = tmux.sees("exit code: ");
    assert!(text.contains("exit code: 0") && !text.contains("panic"), "{text}");
}
