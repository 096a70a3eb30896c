//! Which replies count.

use aaep_proto::confirm::{Confirmation, Verdict};
use aaep_proto::engine::ReplyFault;

use crate::harness::World;

#[test]
fn a_yes_counts_if_it_is_listed_and_a_no_always() {
    let mut world = World::new();
    let (reader, session) = (world.join_reader(), world.start());
    let ask = |listed: &str| Confirmation::new("Dig.", "A hole.").allowed_replies(vec![listed.to_owned()]);
    let token = world.act(|engine, cx| engine.ask(cx, &session, ask("reject"))).unwrap();
    world.reply(reader, &token, "accept");
    assert_eq!((world.ignored.as_slice(), world.decided.len()), (&[ReplyFault::NotAllowed][..], 0));
    world.reply(reader, &token, "reject");
    assert_eq!(world.decided[0].1.verdict, Verdict::Rejected);
    let harmless = ask("accept").accept_on_timeout().unwrap();
    let token = world.act(|engine, cx| engine.ask(cx, &session, harmless)).unwrap();
    world.reply(reader, &token, "reject");
    assert_eq!(world.decided[1].1.verdict, Verdict::Rejected);
}
