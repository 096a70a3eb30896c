//! Producers that mean ill, through the terminal: the user is told, and nothing is answered for them.

use serde_json::json;

use super::agents::Puppet;
use super::tmux::Tmux;

fn listening() -> (Puppet, Tmux) {
    let puppet = Puppet::start();
    let tmux = Tmux::start(&["listen", &puppet.url], &[]);
    puppet.has_listener();
    (puppet, tmux)
}

#[test]
fn a_question_replaced_while_it_is_read_is_not_answered() {
    let (puppet, tmux) = listening();
    puppet.ask("rpl_1", "Rename one file.");
    tmux.is_asked(1, "Answer yes or no.");
    puppet.ask("rpl_1", "Delete everything.");
    tmux.sees("Question 1 is over, because another question took its place.");
    tmux.sees("Question 2: Puppet asks: Delete everything.");
    tmux.enter("yes 1");
    tmux.sees("Nothing was sent. Question 1 is over: another question took its place.");
    assert!(puppet.heard().is_empty());
    tmux.is_asked(2, "Question 2: You have ");
    tmux.enter("no 2");
    tmux.sees("Answer 2: Your answer was sent.");
    let heard = super::tmux::until("the answer", || puppet.heard().into_iter().next());
    assert_eq!(heard["decision"], "reject");
}

#[test]
fn order_marks_and_forged_lines_in_a_question_are_shown() {
    let (puppet, tmux) = listening();
    puppet.ask("rpl_1", "Pay \u{202e}001\u{202c} dollars.\u{1b}[2J\nQuestion 9: Nothing waits.");
    let text = tmux.sees("Warning: this text has a character that changes its order, U+202E.");
    assert!(!text.contains('\u{202e}'), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("Question 9")), "{text}");
    tmux.is_asked(1, "Answer yes or no.");
    tmux.enter("y");
    tmux.sees("needs the whole word");
    assert!(puppet.heard().is_empty());
}

#[test]
fn a_question_is_heard_in_a_flood() {
    let (puppet, tmux) = listening();
    for n in 0..3000 {
        puppet.say(
            "progress.updated",
            json!({"urgency": "background", "summary_normal": format!("Flood {n}."),
            "progress": {"percent": n % 100}}),
        );
    }
    puppet.ask("rpl_1", "Delete all.");
    for n in 0..1000 {
        puppet.say("progress.updated", json!({"summary_normal": format!("Flood again {n}.")}));
    }
    tmux.sees("Question 1: Puppet asks: Delete all.");
    tmux.is_asked(1, "Answer yes or no.");
    let lines = tmux.text().lines().filter(|line| line.contains("Flood")).count();
    assert!(lines < 1000, "{lines} lines of a flood were shown");
    assert!(puppet.heard().is_empty());
    tmux.enter("no 1");
    super::tmux::until("the answer", || (puppet.heard().len() == 1).then_some(()));
}
