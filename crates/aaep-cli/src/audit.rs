//! `aaep audit`: what was decided, by whom, when, and what was shown.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use aaep::AuditRecord;
use aaep_proto::id::SessionId;
use aaep_proto::time::Timestamp;
use aaep_store::{Audit, AuditQuery};
use serde_json::json;

use crate::CommandStatus;
use crate::output::complain;

/// List and export what was decided, the oldest first.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the server keeps its data
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Only decisions of this time and later, such as 2026-05-24T00:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// Only decisions of this session
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,
    /// Print one JSON object per line
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values with a header
    #[arg(long)]
    csv: bool,
}

const COLUMNS: [&str; 13] = [
    "decided_at",
    "verdict",
    "decision",
    "shown",
    "consequence",
    "principal",
    "decided_by",
    "subscription_id",
    "session_id",
    "reply_token",
    "asked_at",
    "call",
    "permit_used",
];

pub(crate) fn run(args: &Args) -> io::Result<CommandStatus> {
    let query = AuditQuery { since: args.since, session: args.session.clone() };
    let audit = match Audit::open(&args.data) {
        Ok(audit) => audit,
        Err(error) => {
            complain(error);
            return Ok(CommandStatus::Failed);
        }
    };
    let mut out = BufWriter::new(io::stdout().lock());
    if args.csv {
        writeln!(out, "{}", COLUMNS.join(","))?;
    }
    let mut written = Ok(());
    let mut count = 0u64;
    let read = audit.read(&query, |record, used| {
        count += 1;
        if written.is_ok() {
            written = match (args.json, args.csv) {
                (true, _) => writeln!(out, "{}", as_json(&record, used)),
                (_, true) => writeln!(out, "{}", as_csv(&record, used)),
                _ => writeln!(out, "{}", as_line(&record, used)),
            };
        }
    });
    written?;
    if count == 0 && !args.json && !args.csv {
        writeln!(out, "No decisions.")?;
    }
    out.flush()?;
    if let Err(error) = read {
        complain(error);
        return Ok(CommandStatus::Failed);
    }
    Ok(CommandStatus::Yes)
}

/// One sentence-like line, without columns that only eyes can follow.
fn as_line(record: &AuditRecord, used: bool) -> String {
    let who = record.principal.as_deref().map(|who| format!(" by {}", plain(who))).unwrap_or_default();
    let used = if used { ", carried out" } else { "" };
    let what = plain(&record.shown);
    format!("{}  {}{who}{used}  {what}  {}", record.decided_at, record.resolution.as_str(), record.session_id)
}

fn as_json(record: &AuditRecord, used: bool) -> serde_json::Value {
    let mut value = serde_json::to_value(record).unwrap_or_default();
    value["permit_used"] = json!(used);
    value
}

fn as_csv(record: &AuditRecord, used: bool) -> String {
    let value = as_json(record, used);
    let cell = |name: &&str| match &value[*name] {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => quoted(text),
        other => other.to_string(),
    };
    COLUMNS.iter().map(cell).collect::<Vec<_>>().join(",")
}

/// Text on one line, without what a terminal would obey.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A cell. What a spreadsheet would take for a formula is made text.
fn quoted(text: &str) -> String {
    let text = plain(text).replace('"', "\"\"");
    let formula = text.starts_with(['=', '+', '-', '@']);
    format!("\"{}{text}\"", if formula { "'" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> AuditRecord {
        serde_json::from_value(json!({"reply_token": "rpl_1", "session_id": "sess_1",
            "asked_at": "2026-05-24T14:00:00Z", "decided_at": "2026-05-24T14:01:00Z", "verdict": "accepted",
            "decision": "accept", "principal": "user", "decided_by": null, "subscription_id": "sub_1",
            "shown": "=Send \"500\",\nnow", "consequence": "It is gone.", "call": null}))
        .unwrap()
    }

    #[test]
    fn each_form_has_one_line_for_one_decision() {
        let line = as_line(&record(), true);
        assert_eq!(line, "2026-05-24T14:01:00Z  accepted by user, carried out  =Send \"500\", now  sess_1");
        assert_eq!(as_json(&record(), false)["permit_used"], json!(false));
        let csv = as_csv(&record(), true);
        assert!(
            csv.starts_with("\"2026-05-24T14:01:00Z\",\"accepted\",\"accept\",\"'=Send \"\"500\"\", now\","),
            "{csv}"
        );
        assert!(csv.ends_with(",true") && csv.lines().count() == 1, "{csv}");
    }
}
