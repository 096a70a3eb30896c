//! A long task that tells how far it is, and that the user may stop: by the answer to a question, or by a request at any
//! time.

use aaep::message::{CancelledBy, Localized, SessionCancelled};
use aaep::{Error, Producer, Session};

use super::Pace;

/// How many photos are sorted, and in how many steps.
const PHOTOS: u32 = 400;
const STEPS: u32 = 4;

pub(super) async fn play(producer: &Producer, pace: Pace) -> Result<(), Error> {
    let session = producer.session(format!("Sorting {PHOTOS} photos by place.")).await?;
    let mut sorted = 0;
    let finished = tokio::select! {
        finished = sort(&session, pace, &mut sorted) => finished?,
        request = session.cancel_requested() => request.map(|_| false)?,
    };
    if !finished {
        return stop(session, sorted).await;
    }
    session.complete(format!("All {PHOTOS} photos are sorted.")).await
}

/// Returns whether all photos are sorted: not if the user said, when half was done, that this is enough.
async fn sort(session: &Session, pace: Pace, sorted: &mut u32) -> Result<bool, Error> {
    for step in 1..STEPS {
        pace.step().await;
        *sorted = PHOTOS * step / STEPS;
        let percent = 100 * step / STEPS;
        session.report_progress(percent, &format!("{sorted} of {PHOTOS} photos are sorted.")).await?;
        if step == STEPS / 2 {
            // A question overtakes what waits to be said; how far it is should be heard first.
            pace.step().await;
            if session.ask_yes_no("Half is done. Shall I stop here?").await? == Some(true) {
                return Ok(false);
            }
        }
    }
    pace.step().await;
    Ok(true)
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
