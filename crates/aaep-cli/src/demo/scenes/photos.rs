//! A long task that tells how far it is, and that the user may stop.

use aaep::message::{CancelledBy, Localized, SessionCancelled};
use aaep::{Error, Producer, Session};

use super::Pace;

/// How many photos are sorted, and in how many steps.
const PHOTOS: u32 = 400;
const STEPS: u32 = 4;

pub(super) async fn play(producer: &Producer, pace: Pace) -> Result<(), Error> {
    let session = producer.session(format!("Sorting {PHOTOS} photos by place.")).await?;
    for step in 1..STEPS {
        pace.step().await;
        let sorted = PHOTOS * step / STEPS;
        let percent = 100 * step / STEPS;
        session.report_progress(percent, &format!("{sorted} of {PHOTOS} photos are sorted.")).await?;
        if step == STEPS / 2 {
            // A question overtakes what waits to be said; how far it is should be heard first.
            pace.step().await;
            if session.ask_yes_no("Half is done. Shall I stop here?").await? == Some(true) {
                return stop(session, sorted).await;
            }
        }
    }
    pace.step().await;
    session.complete(format!("All {PHOTOS} photos are sorted.")).await
}

async fn stop(session: Session, sorted: u32) -> Result<(), Error> {
    let cancelled = SessionCancelled {
        cancellation_reason: Some("user_asked_to_stop".to_owned()),
        summary_terse: Some("Stopped.".to_owned()),
        partial_result: Some(format!("{sorted} of {PHOTOS} photos are sorted.")),
        ..SessionCancelled::new(CancelledBy::User, "The other photos stay where they are.")
    };
    session.end_with(Localized::new(cancelled).into_payload()).await
}
