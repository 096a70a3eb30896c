//! A long text in small tokens, with headings, a table, a list and code, as models write them.

use aaep::{Error, Producer};

use super::{Pace, as_written, tell};

const REPORT: &str = include_str!("report.md");

pub(super) async fn play(producer: &Producer, pace: Pace) -> Result<(), Error> {
    let session = producer.session("Writing a report about water in the garden.").await?;
    pace.step().await;
    let read = session
        .tool("read_meter")
        .summary("Reading the water meter of May.")
        .success_summary("The meter has a reading for every hour.")
        .run(async {
            pace.step().await;
            Ok(())
        });
    as_written(read.await)?;
    tell(&session, pace, "text/markdown", REPORT).await?;
    session.complete("The report about water in the garden is ready.").await
}
