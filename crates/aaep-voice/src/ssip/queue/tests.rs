use super::*;

fn utterance(text: &str, priority: Priority, about: Option<&str>) -> Utterance {
    Utterance { about: about.map(Into::into), ..Utterance::new(text, "en", priority) }
}

fn say(queue: &mut Queue, text: &str, priority: Priority) -> SpeechId {
    queue.push(utterance(text, priority, None)).unwrap()
}

/// Hands over what is next, under this number.
fn hand(queue: &mut Queue, message: u64) -> Option<String> {
    let text = queue.next()?.text;
    queue.set_message(Some(message));
    Some(text)
}

fn waiting(queue: &Queue) -> Vec<&str> {
    queue.waiting.iter().map(|item| item.utterance.text.as_str()).collect()
}

fn canceled(queue: &mut Queue) -> Vec<SpeechId> {
    let canceled = |event| match event {
        VoiceEvent::Canceled { id, .. } => Some(id),
        _ => None,
    };
    queue.take_events().into_iter().filter_map(canceled).collect()
}

#[test]
fn what_is_urgent_comes_first_and_each_kind_in_order() {
    let mut queue = Queue::new(9);
    for (text, priority) in [
        ("progress", Priority::Progress),
        ("message 1", Priority::Message),
        ("important 1", Priority::Important),
        ("message 2", Priority::Message),
        ("important 2", Priority::Important),
    ] {
        say(&mut queue, text, priority);
    }
    assert_eq!(waiting(&queue), ["important 1", "important 2", "message 1", "message 2", "progress"]);
}

#[test]
fn one_message_at_a_time_is_handed_over() {
    let mut queue = Queue::new(9);
    let first = say(&mut queue, "1", Priority::Message);
    say(&mut queue, "2", Priority::Message);
    assert_eq!(hand(&mut queue, 10).as_deref(), Some("1"));
    assert_eq!(hand(&mut queue, 11), None);
    assert!(!queue.handle_event(10, SpeechEvent::Begun));
    assert!(!queue.handle_event(10, SpeechEvent::Ended));
    let about = None;
    assert_eq!(
        queue.take_events(),
        [VoiceEvent::Begun { id: first, about: about.clone() }, VoiceEvent::Ended { id: first, about }]
    );
    assert_eq!(hand(&mut queue, 11).as_deref(), Some("2"));
}

#[test]
fn all_that_is_stale_goes_and_nothing_else() {
    let mut queue = Queue::new(9);
    let ids: Vec<SpeechId> = ["old", "new", "old", "old"]
        .map(|about| queue.push(utterance("text", Priority::Message, Some(about))).unwrap())
        .into();
    hand(&mut queue, 1);
    queue.handle_event(1, SpeechEvent::Begun);
    queue.cancel_about("old");
    assert!(queue.take_cancel_request());
    assert!(!queue.take_cancel_request(), "one question is enough");
    assert_eq!(hand(&mut queue, 2), None, "the stale one leaves first");
    queue.handle_event(1, SpeechEvent::Canceled);
    assert_eq!(canceled(&mut queue), [ids[2], ids[3], ids[0]]);
    assert!(hand(&mut queue, 2).is_some());
    assert!(!queue.take_cancel_request());
}

#[test]
fn a_stale_message_that_slips_through_is_asked_back_again() {
    let mut queue = Queue::new(9);
    queue.push(utterance("text", Priority::Message, Some("old"))).unwrap();
    hand(&mut queue, 1);
    queue.cancel_about("old");
    assert!(queue.take_cancel_request());
    queue.handle_event(1, SpeechEvent::Begun);
    assert!(queue.take_cancel_request());
    queue.overdue();
    assert!(queue.is_idle());
    assert!(queue.handle_event(1, SpeechEvent::Begun), "given up, so it must be stopped if it speaks");
}

#[test]
fn stale_while_it_is_handed_over() {
    let mut queue = Queue::new(9);
    queue.push(utterance("text", Priority::Message, Some("old"))).unwrap();
    queue.next().unwrap();
    queue.cancel_about("old");
    assert!(!queue.take_cancel_request(), "the server does not have it yet");
    queue.set_message(Some(5));
    assert!(queue.take_cancel_request());
}

#[test]
fn an_important_one_passes() {
    let mut queue = Queue::new(9);
    say(&mut queue, "not begun", Priority::Message);
    say(&mut queue, "other", Priority::Message);
    hand(&mut queue, 1);
    say(&mut queue, "important", Priority::Important);
    assert!(queue.take_cancel_request());
    queue.handle_event(1, SpeechEvent::Canceled);
    assert_eq!(waiting(&queue), ["important", "not begun", "other"]);
    assert_eq!(canceled(&mut queue), [], "it was only put off");
    hand(&mut queue, 2);
    queue.handle_event(2, SpeechEvent::Begun);
    say(&mut queue, "more important", Priority::Important);
    assert!(!queue.take_cancel_request(), "important ones are said to their end");
}

#[test]
fn a_message_passes_what_has_not_begun_and_matters_less() {
    let mut queue = Queue::new(9);
    say(&mut queue, "progress", Priority::Progress);
    hand(&mut queue, 1);
    say(&mut queue, "message", Priority::Message);
    assert!(queue.take_cancel_request());
    queue.handle_event(1, SpeechEvent::Canceled);
    assert_eq!(waiting(&queue), ["message", "progress"]);

    let mut queue = Queue::new(9);
    let note = say(&mut queue, "note", Priority::Notification);
    hand(&mut queue, 1);
    say(&mut queue, "message", Priority::Message);
    assert!(queue.take_cancel_request());
    queue.handle_event(1, SpeechEvent::Canceled);
    assert_eq!(canceled(&mut queue), [note]);

    let mut queue = Queue::new(9);
    say(&mut queue, "progress", Priority::Progress);
    hand(&mut queue, 1);
    queue.handle_event(1, SpeechEvent::Begun);
    say(&mut queue, "message", Priority::Message);
    assert!(!queue.take_cancel_request(), "words that are being said are not cut for it");
}

#[test]
fn an_important_one_cuts_what_is_being_said() {
    for ending in [SpeechEvent::Canceled, SpeechEvent::Ended] {
        let mut queue = Queue::new(9);
        let cut = say(&mut queue, "begun", Priority::Message);
        hand(&mut queue, 1);
        queue.handle_event(1, SpeechEvent::Begun);
        let important = say(&mut queue, "important", Priority::Important);
        assert!(!queue.take_cancel_request(), "the server does it");
        assert_eq!(hand(&mut queue, 2).as_deref(), Some("important"));
        queue.take_events();
        queue.handle_event(1, ending);
        assert_eq!(canceled(&mut queue), if ending == SpeechEvent::Canceled { vec![cut] } else { vec![] });
        queue.handle_event(2, SpeechEvent::Begun);
        queue.handle_event(2, SpeechEvent::Ended);
        assert!(matches!(queue.take_events()[1], VoiceEvent::Ended { id, .. } if id == important));
        assert!(queue.is_idle());
    }
}

#[test]
fn an_important_one_that_is_taken_back_in_time_cuts_nothing() {
    let mut queue = Queue::new(9);
    queue.push(utterance("begun", Priority::Message, Some("a"))).unwrap();
    hand(&mut queue, 1);
    queue.handle_event(1, SpeechEvent::Begun);
    queue.push(utterance("important", Priority::Important, Some("b"))).unwrap();
    queue.cancel_about("b");
    assert_eq!(hand(&mut queue, 2), None);
    queue.cancel_about("a");
    assert!(queue.take_cancel_request(), "what is being said can still be taken back");
}

#[test]
fn what_was_cut_is_gone_even_if_the_server_forgets_to_say_so() {
    let mut queue = Queue::new(9);
    let cut = say(&mut queue, "begun", Priority::Message);
    hand(&mut queue, 1);
    queue.handle_event(1, SpeechEvent::Begun);
    say(&mut queue, "important", Priority::Important);
    hand(&mut queue, 2);
    assert!(!queue.is_idle());
    queue.handle_event(2, SpeechEvent::Ended);
    assert_eq!(canceled(&mut queue), [cut]);
    assert!(queue.is_idle());
}

#[test]
fn one_that_interrupts_is_next_but_never_before_a_more_urgent_one() {
    let mut queue = Queue::new(9);
    say(&mut queue, "not begun", Priority::Message);
    hand(&mut queue, 1);
    say(&mut queue, "later", Priority::Message);
    let interrupting = Utterance { interrupts: true, ..utterance("next", Priority::Message, None) };
    queue.push(interrupting.clone()).unwrap();
    assert!(queue.take_cancel_request());
    queue.handle_event(1, SpeechEvent::Canceled);
    assert_eq!(waiting(&queue), ["next", "not begun", "later"]);

    let mut queue = Queue::new(9);
    let cut = say(&mut queue, "begun", Priority::Message);
    hand(&mut queue, 1);
    queue.handle_event(1, SpeechEvent::Begun);
    queue.push(interrupting.clone()).unwrap();
    assert!(queue.take_cancel_request());
    queue.handle_event(1, SpeechEvent::Canceled);
    assert_eq!(canceled(&mut queue), [cut]);

    let mut queue = Queue::new(9);
    say(&mut queue, "important", Priority::Important);
    hand(&mut queue, 1);
    queue.push(interrupting).unwrap();
    assert!(!queue.take_cancel_request());
}

#[test]
fn progress_is_replaced_per_subject_and_notifications_need_silence() {
    let mut queue = Queue::new(9);
    let ids = [("10", "a"), ("50", "b"), ("20", "a")]
        .map(|(text, about)| queue.push(utterance(text, Priority::Progress, Some(about))).unwrap());
    assert_eq!(waiting(&queue), ["50", "20"]);
    assert_eq!(canceled(&mut queue), [ids[0]]);
    let lost = say(&mut queue, "note", Priority::Notification);
    assert_eq!(canceled(&mut queue), [lost]);

    let mut queue = Queue::new(9);
    let note = say(&mut queue, "note", Priority::Notification);
    say(&mut queue, "message", Priority::Message);
    assert_eq!(canceled(&mut queue), [note]);
}

#[test]
fn progress_is_not_said_after_newer_words_about_the_same_thing() {
    let mut queue = Queue::new(9);
    say(&mut queue, "busy", Priority::Message);
    hand(&mut queue, 1);
    let old = queue.push(utterance("Half done.", Priority::Progress, Some("a"))).unwrap();
    queue.push(utterance("Half done too.", Priority::Progress, Some("b"))).unwrap();
    queue.push(utterance("All done.", Priority::Message, Some("a"))).unwrap();
    assert_eq!(canceled(&mut queue), [old]);
    assert_eq!(waiting(&queue), ["All done.", "Half done too."]);
    // The same if the server has it, but others still speak.
    let mut queue = Queue::new(9);
    let old = queue.push(utterance("Half done.", Priority::Progress, Some("a"))).unwrap();
    hand(&mut queue, 1);
    queue.push(utterance("All done.", Priority::Message, Some("a"))).unwrap();
    assert!(queue.take_cancel_request());
    queue.handle_event(1, SpeechEvent::Canceled);
    assert_eq!(canceled(&mut queue), [old]);
    assert_eq!(waiting(&queue), ["All done."]);
}

#[test]
fn progress_that_the_server_says_later_after_all() {
    let mut queue = Queue::new(9);
    let id = queue.push(utterance("100 percent", Priority::Progress, Some("a"))).unwrap();
    hand(&mut queue, 1);
    queue.handle_event(1, SpeechEvent::Canceled);
    assert!(!queue.handle_event(1, SpeechEvent::Begun), "it may speak");
    queue.handle_event(1, SpeechEvent::Ended);
    let about = Some("a".to_owned());
    assert_eq!(
        queue.take_events(),
        [
            VoiceEvent::Canceled { id, about: about.clone() },
            VoiceEvent::Begun { id, about: about.clone() },
            VoiceEvent::Ended { id, about },
        ]
    );
    queue.push(utterance("stale", Priority::Progress, Some("a"))).unwrap();
    hand(&mut queue, 2);
    queue.handle_event(2, SpeechEvent::Canceled);
    queue.cancel_about("a");
    assert!(queue.handle_event(2, SpeechEvent::Begun), "it may not");
}

#[test]
fn a_full_queue_gives_up_what_matters_less() {
    let mut queue = Queue::new(2);
    let progress = say(&mut queue, "progress", Priority::Progress);
    let message = say(&mut queue, "message", Priority::Message);
    say(&mut queue, "message 2", Priority::Message);
    assert_eq!(canceled(&mut queue), [progress]);
    assert_eq!(queue.push(utterance("message 3", Priority::Message, None)), Err(SayError::Full));
    say(&mut queue, "important", Priority::Important);
    assert_eq!(canceled(&mut queue), [message]);
    assert_eq!(waiting(&queue), ["important", "message 2"]);
}

#[test]
fn what_cannot_be_said_is_refused() {
    let mut queue = Queue::new(2);
    assert_eq!(queue.push(utterance(" \n\0\u{7f}", Priority::Message, None)), Err(SayError::Empty));
    assert_eq!(queue.push(utterance(&"a".repeat(MAX_TEXT_BYTES + 1), Priority::Message, None)), Err(SayError::TooLong));
}

#[test]
fn what_a_dead_voice_did_not_say_is_said_again_once() {
    let mut queue = Queue::new(9);
    let first = say(&mut queue, "1", Priority::Message);
    say(&mut queue, "2", Priority::Message);
    let progress = say(&mut queue, "progress", Priority::Progress);
    hand(&mut queue, 1);
    queue.handle_event(1, SpeechEvent::Begun);
    queue.lost();
    assert_eq!(waiting(&queue), ["1", "2"]);
    assert_eq!(canceled(&mut queue), [progress]);
    hand(&mut queue, 1);
    queue.lost();
    assert_eq!(waiting(&queue), ["2"]);
    assert_eq!(canceled(&mut queue), [first]);
}

#[test]
fn what_was_taken_back_does_not_come_again_from_a_dead_voice() {
    let mut queue = Queue::new(9);
    let id = queue.push(utterance("text", Priority::Important, Some("old"))).unwrap();
    hand(&mut queue, 1);
    queue.cancel_about("old");
    queue.lost();
    assert!(queue.is_idle());
    assert_eq!(canceled(&mut queue), [id]);
}

#[test]
fn stop_takes_everything() {
    let mut queue = Queue::new(9);
    let now = say(&mut queue, "1", Priority::Important);
    let later = say(&mut queue, "2", Priority::Message);
    hand(&mut queue, 1);
    queue.stop();
    assert!(queue.take_cancel_request());
    queue.handle_event(1, SpeechEvent::Canceled);
    assert!(queue.is_idle());
    assert_eq!(canceled(&mut queue), [later, now]);
}

#[test]
fn events_of_strangers_change_nothing() {
    let mut queue = Queue::new(9);
    say(&mut queue, "1", Priority::Message);
    hand(&mut queue, 1);
    for happened in [SpeechEvent::Ended, SpeechEvent::Canceled, SpeechEvent::Paused, SpeechEvent::Resumed] {
        assert!(!queue.handle_event(u64::MAX, happened));
    }
    assert!(!queue.is_idle());
    assert_eq!(queue.take_events(), []);
}

fn in_turn(queue: &mut Queue, text: &str, priority: Priority, turn: Turn) -> SpeechId {
    let interrupts = priority == Priority::Important;
    queue.push(Utterance { turn, interrupts, ..utterance(text, priority, Some(text)) }).unwrap()
}

#[test]
fn question_goes_before_all_that_waits_and_the_next_one_after_it() {
    let mut queue = Queue::new(20);
    for (text, turn) in [("spoken", Turn::Normal), ("text", Turn::Normal), ("news", Turn::Passing)] {
        in_turn(&mut queue, text, Priority::Message, turn);
    }
    assert_eq!(hand(&mut queue, 1).as_deref(), Some("spoken"));
    queue.handle_event(1, SpeechEvent::Begun);
    in_turn(&mut queue, "outcome", Priority::Message, Turn::First);
    in_turn(&mut queue, "headline", Priority::Important, Turn::First);
    in_turn(&mut queue, "details", Priority::Message, Turn::First);
    assert!(queue.take_cancel_request(), "what is spoken makes way, also for the outcome");
    queue.handle_event(1, SpeechEvent::Canceled);
    assert_eq!(waiting(&queue), ["outcome", "headline", "details", "spoken", "text"]);
    assert_eq!(hand(&mut queue, 2).as_deref(), Some("outcome"));
    queue.handle_event(2, SpeechEvent::Begun);
    in_turn(&mut queue, "next headline", Priority::Important, Turn::First);
    assert!(!queue.take_cancel_request(), "an outcome is not interrupted");
    assert_eq!(waiting(&queue), ["headline", "details", "next headline", "spoken", "text"]);
}

#[test]
fn text_that_the_server_interrupts_for_a_question_is_spoken_again() {
    let mut queue = Queue::new(20);
    in_turn(&mut queue, "text", Priority::Message, Turn::Normal);
    hand(&mut queue, 1);
    queue.handle_event(1, SpeechEvent::Begun);
    in_turn(&mut queue, "headline", Priority::Important, Turn::First);
    assert_eq!(hand(&mut queue, 2).as_deref(), Some("headline"));
    queue.handle_event(1, SpeechEvent::Canceled);
    assert_eq!(waiting(&queue), ["text"]);
    assert_eq!(canceled(&mut queue), []);
}

#[test]
fn response_stops_speech_and_text_comes_after_it() {
    let mut queue = Queue::new(20);
    in_turn(&mut queue, "text", Priority::Message, Turn::Normal);
    hand(&mut queue, 1);
    queue.handle_event(1, SpeechEvent::Begun);
    let rest = in_turn(&mut queue, "rest of a question", Priority::Message, Turn::First);
    queue.take_events();
    in_turn(&mut queue, "new question", Priority::Important, Turn::First);
    queue.hush();
    assert_eq!(canceled(&mut queue), [rest]);
    in_turn(&mut queue, "response", Priority::Message, Turn::First);
    queue.handle_event(1, SpeechEvent::Canceled);
    assert_eq!(waiting(&queue), ["new question", "response", "text"], "a question that was not begun stays");
}
