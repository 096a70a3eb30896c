//! One suite for every transport: what an agent says and what it is answered does not depend on the wire.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod clients;
mod grpc;
mod hostile;
mod rpc;
mod suite;
mod together;
mod world;

use clients::{Grpc, LengthSocket, LineSocket, Sse, Stdio, WebSocket};

/// Runs every part of the suite over every transport.
macro_rules! over {
    ($($wire:ident: $client:ty),+ $(,)? => $parts:tt) => { $( over!(@ $wire: $client => $parts); )+ };
    (@ $wire:ident: $client:ty => [$($part:ident),+ $(,)?]) => {
        mod $wire {
            $(
                #[tokio::test]
                async fn $part() {
                    crate::suite::$part::<$client>().await;
                }
            )+
        }
    };
}

over! {
    sse: crate::Sse,
    websocket: crate::WebSocket,
    socket_with_lengths: crate::LengthSocket,
    socket_with_lines: crate::LineSocket,
    grpc_stream: crate::Grpc,
    stdio: crate::Stdio
    => [
        the_handshake_gives_terms,
        a_request_that_cannot_be_served_is_rejected,
        events_come_in_the_shape_that_was_agreed,
        a_yes_is_heard,
        a_no_is_heard,
        a_forged_reply_does_not_count,
        terms_change,
        an_invalid_request_is_rejected_with_the_field,
        levels_that_need_replies_are_left_out,
        an_invalid_renegotiation_is_rejected_and_ends_the_subscription,
        a_renegotiation_of_another_subscription_is_rejected_and_nothing_ends,
        a_second_request_is_rejected_and_the_subscription_goes_on,
        the_subscriber_closes,
        the_producer_closes,
        messages_of_a_mebibyte_pass_and_larger_ones_do_not,
        who_leaves_without_a_word_holds_nobody_up,
        garbage_is_let_pass_and_counted,
        a_slow_reader_is_bounded_and_closed,
    ]
}
