//! The web page, in real browsers.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod accessibility;
mod bidi;
mod browser;
mod endings;
mod generated;
mod injection;
mod load;
mod localization;
mod npm;
mod orca;
mod producer;
mod questions;
mod screenshots;
mod scripts;
mod serving;
mod sign_in;
mod views;

use browser::BrowserKind;

/// Makes two tests of each function: in Chromium and in Firefox.
macro_rules! in_both_browsers {
    ($($name:ident),* $(,)?) => {
        mod chromium {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name($crate::BrowserKind::Chromium).await;
            })*
        }
        mod firefox {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name($crate::BrowserKind::Firefox).await;
            })*
        }
    };
}
pub(crate) use in_both_browsers;
