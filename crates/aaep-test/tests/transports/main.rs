//! One suite for every transport: behaviour does not depend on the transport.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]
#![cfg_attr(not(unix), allow(dead_code, reason = "elsewhere only the suite is built"))]

mod clients;
#[cfg(unix)]
mod grpc;
mod harness;
#[cfg(unix)]
mod hostile;
#[cfg(unix)]
mod rpc;
mod suite;
#[cfg(unix)]
mod together;
mod users;

#[cfg(unix)]
use clients::Grpc;
use clients::{LengthSocket, LineSocket, Sse, Stdio, WebSocket};

/// Runs every part of the suite over every transport.
macro_rules! over {
    ($($(#[$when:meta])? $wire:ident: $client:ty),+ $(,)? => $parts:tt) => {
        $( over!(@ $(#[$when])? $wire: $client => $parts); )+
    };
    (@ $(#[$when:meta])? $wire:ident: $client:ty => [$($part:ident),+ $(,)?]) => {
        $(#[$when])?
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
    #[cfg(unix)]
    grpc_stream: crate::Grpc,
    stdio: crate::Stdio
    => [
        handshake_returns_the_terms,
        unsupported_version_is_rejected,
        events_fit_the_negotiated_terms,
        accept_reply_is_delivered_to_the_agent,
        reject_reply_is_delivered_to_the_agent,
        forged_reply_is_ignored,
        renegotiation_changes_the_terms,
        invalid_request_is_rejected_with_the_field,
        conformance_levels_that_need_replies_are_not_honored,
        invalid_renegotiation_is_rejected_and_ends_the_subscription,
        renegotiation_of_another_subscription_is_rejected_without_closing,
        second_request_is_rejected_and_the_subscription_continues,
        close_by_the_subscriber_ends_the_subscription,
        shutdown_of_the_producer_closes_the_subscription,
        request_to_stop_reaches_the_agent_or_is_refused,
        messages_over_one_mebibyte_are_refused,
        disconnected_subscriber_does_not_delay_the_agent,
        malformed_messages_are_tolerated_up_to_a_limit,
        slow_reader_is_bounded_and_closed,
    ]
}

/// Runs the tests of isolation over every transport that has credentials.
macro_rules! between_users {
    ($($(#[$when:meta])? $wire:ident: $client:ty),+ $(,)? => $parts:tt) => {
        $( between_users!(@ $(#[$when])? $wire: $client => $parts); )+
    };
    (@ $(#[$when:meta])? $wire:ident: $client:ty => [$($part:ident),+ $(,)?]) => {
        $(#[$when])?
        mod $wire {
            $(
                #[tokio::test]
                async fn $part() {
                    crate::users::$part::<$client>().await;
                }
            )+
        }
    };
}

between_users! {
    users_over_sse: crate::Sse,
    users_over_websocket: crate::WebSocket,
    #[cfg(unix)]
    users_over_grpc: crate::Grpc
    => [
        users_receive_only_their_own_sessions,
        reply_of_another_user_does_nothing,
        question_defaults_although_another_user_could_answer,
        delegate_receives_for_the_user_that_it_names,
        delegate_without_the_role_cannot_reply,
        stranger_is_refused_like_a_user_that_does_not_exist,
        renegotiation_cannot_change_the_user,
        local_socket_has_a_user_of_its_own,
    ]
}
