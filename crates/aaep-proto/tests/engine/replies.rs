//! Which replies count.

use aaep_proto::confirm::{Confirmation, Resolution};
use aaep_proto::engine::{ReplyRejection, SubscriptionKey};
use aaep_proto::id::ReplyToken;
use aaep_proto::message::Message;
use aaep_proto::time::Moment;
use serde_json::json;

use crate::harness::World;

#[test]
fn a_yes_counts_if_it_is_listed_and_a_no_always() {
    let mut world = World::new();
    let (reader, session) = (world.join_reader(), world.start());
    let ask = |listed: &str| Confirmation::new("Dig.", "A hole.").allowed_replies(vec![listed.to_owned()]);
    let token = world.act(|engine, cx| engine.ask(cx, &session, ask("reject"))).unwrap();
    world.reply(reader, &token, "accept");
    assert_eq!((world.ignored.as_slice(), world.decided.len()), (&[ReplyRejection::NotAllowed][..], 0));
    world.reply(reader, &token, "reject");
    assert_eq!(world.decided[0].1.resolution, Resolution::Rejected);
    let harmless = ask("accept").accept_on_timeout().unwrap();
    let token = world.act(|engine, cx| engine.ask(cx, &session, harmless)).unwrap();
    world.reply(reader, &token, "reject");
    assert_eq!(world.decided[1].1.resolution, Resolution::Rejected);
}

/// Handles a no that arrived at this time, in milliseconds, although it is later now.
fn reject_arrived(world: &mut World, from: SubscriptionKey, token: &ReplyToken, arrived: u64, said_at: &str) {
    let id = world.engine.subscription_id(from).unwrap().to_string();
    let reply = json!({"type": "confirmation.reply", "reply_token": token, "decision": "reject",
        "subscription_id": id, "timestamp": said_at});
    let reply = Message::parse(reply.to_string().as_bytes()).unwrap();
    world.act(|engine, cx| engine.handle_arrived(cx, from, &reply, Moment::from_millis(arrived))).unwrap();
}

#[test]
fn a_reply_that_arrived_in_time_counts_although_it_is_handled_late() {
    let mut world = World::new();
    let (reader, session) = (world.join_reader(), world.start());
    let ask = Confirmation::new("Dig.", "A hole.").timeout_seconds(1).accept_on_timeout().unwrap();
    let token = world.act(|engine, cx| engine.ask(cx, &session, ask)).unwrap();
    let said_at = world.wall().to_string();
    // The engine is stalled: nothing is handled for ten seconds, neither the reply nor the deadline.
    world.millis += 10_000;
    reject_arrived(&mut world, reader, &token, 999, &said_at);
    world.act(|engine, cx| engine.handle_timeout(cx));
    assert_eq!((world.decided.len(), world.decided[0].1.resolution), (1, Resolution::Rejected));
}

#[test]
fn a_reply_that_arrived_late_does_not_count_even_if_it_is_handled_before_the_timer() {
    let mut world = World::new();
    let (reader, session) = (world.join_reader(), world.start());
    let ask = Confirmation::new("Dig.", "A hole.").timeout_seconds(1);
    let token = world.act(|engine, cx| engine.ask(cx, &session, ask)).unwrap();
    let said_at = world.wall().to_string();
    world.millis += 10_000;
    reject_arrived(&mut world, reader, &token, 1000, &said_at);
    assert_eq!((world.ignored.as_slice(), world.decided.len()), (&[ReplyRejection::Late][..], 0));
    // Nobody can claim to have arrived in the future either.
    reject_arrived(&mut world, reader, &token, u64::MAX / 2000, &said_at);
    assert_eq!(world.ignored.len(), 2);
    world.act(|engine, cx| engine.handle_timeout(cx));
    assert_eq!(world.decided[0].1.resolution, Resolution::TimedOut);
}
