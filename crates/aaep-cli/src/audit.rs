//! `aaep audit`: lists or exports recorded decisions.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use aaep_keys::Identity;
use aaep_proto::id::SessionId;
use aaep_proto::time::Timestamp;
use aaep_store::{Audit, AuditQuery, Decided, PermitUse};
use serde_json::json;

use crate::CommandStatus;
use crate::output::fail;

/// List or export recorded decisions, oldest first.
///
/// Reads the data directory of a server, also while it runs. Each decision is one line: when, what was decided and by whom,
/// what became of the permission, what was asked, and the session. "carried out" means that the tool completed; "permission
/// used" means that the call began and its result is not recorded.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep audit --data /var/lib/aaep
  aaep audit --data /var/lib/aaep --user ada
  aaep audit --data /var/lib/aaep --since 2026-05-24T00:00:00Z --csv > decisions.csv")]
pub(crate) struct AuditArgs {
    /// Data directory of the server
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Only decisions since this time, such as 2026-05-24T00:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// Only decisions of this session
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,
    /// Only decisions for this user
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Print one JSON object per line
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV with a header line
    #[arg(long)]
    csv: bool,
}

const COLUMNS: [&str; 15] = [
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
    "tool_status",
    "user",
];

pub(crate) fn run(args: &AuditArgs) -> io::Result<CommandStatus> {
    let query = AuditQuery { since: args.since, session: args.session.clone(), user: args.user.clone() };
    let audit = match Audit::open(&args.data) {
        Ok(audit) => audit,
        Err(error) => return Ok(fail(error)),
    };
    let mut out = BufWriter::new(io::stdout().lock());
    if args.csv {
        writeln!(out, "{}", COLUMNS.join(","))?;
    }
    let mut written = Ok(());
    let mut count = 0u64;
    let read = audit.read(&query, |decided| {
        count += 1;
        if written.is_ok() {
            written = match (args.json, args.csv) {
                (true, _) => writeln!(out, "{}", as_json(&decided)),
                (_, true) => writeln!(out, "{}", as_csv(&decided)),
                _ => writeln!(out, "{}", as_line(&decided)),
            };
        }
    });
    written?;
    if count == 0 && !args.json && !args.csv {
        writeln!(out, "No decisions.")?;
    }
    out.flush()?;
    Ok(match read {
        Ok(()) => CommandStatus::Yes,
        Err(error) => fail(error),
    })
}

/// Formats a decision as one line that reads like a sentence; columns are hard to follow with a screen reader.
fn as_line(decided: &Decided<'_>) -> String {
    let Decided { user, record, permit: used } = decided;
    let user = if *user == Identity::LOCAL { String::new() } else { format!(" for {}", without_controls(user)) };
    let who = record.principal.as_deref().map(|who| format!(" by {}", without_controls(who))).unwrap_or_default();
    let used = match used {
        PermitUse::Unused => String::new(),
        PermitUse::Used => ", permission used".to_owned(),
        PermitUse::Completed(status) if status == "success" => ", carried out".to_owned(),
        PermitUse::Completed(status) => format!(", permission used, the tool ended with {}", without_controls(status)),
    };
    let what = without_controls(&record.shown);
    format!("{}  {}{user}{who}{used}  {what}  {}", record.decided_at, record.resolution.as_str(), record.session_id)
}

fn as_json(decided: &Decided<'_>) -> serde_json::Value {
    let Decided { user, record, permit: used } = decided;
    let mut value = serde_json::to_value(record).unwrap_or_default();
    value["user"] = json!(user);
    value["permit_used"] = json!(*used != PermitUse::Unused);
    value["tool_status"] = match used {
        PermitUse::Completed(status) => json!(status),
        PermitUse::Unused | PermitUse::Used => json!(null),
    };
    value
}

fn as_csv(decided: &Decided<'_>) -> String {
    let value = as_json(decided);
    let cell = |name: &&str| match &value[*name] {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => quote_cell(text),
        other => other.to_string(),
    };
    COLUMNS.iter().map(cell).collect::<Vec<_>>().join(",")
}

/// Replaces control characters by spaces.
fn without_controls(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Quotes a cell. Text that a spreadsheet would take for a formula is prefixed with an apostrophe.
fn quote_cell(text: &str) -> String {
    let text = without_controls(text).replace('"', "\"\"");
    let formula = text.starts_with(['=', '+', '-', '@']);
    format!("\"{}{text}\"", if formula { "'" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(user: &str, permit: PermitUse) -> Decided<'_> {
        Decided { user, record: record(), permit }
    }

    fn record() -> aaep::AuditRecord {
        serde_json::from_value(json!({"reply_token": "rpl_1", "session_id": "sess_1",
            "asked_at": "2026-05-24T14:00:00Z", "decided_at": "2026-05-24T14:01:00Z", "verdict": "accepted",
            "decision": "accept", "principal": "user", "decided_by": null, "subscription_id": "sub_1",
            "shown": "=Send \"500\",\nnow", "consequence": "It is gone.", "call": null}))
        .unwrap()
    }

    #[test]
    fn every_format_has_one_line_per_decision() {
        let completed = |status: &str| PermitUse::Completed(status.to_owned());
        for (used, says) in [
            (PermitUse::Unused, ""),
            (PermitUse::Used, ", permission used"),
            (completed("success"), ", carried out"),
            (completed("error"), ", permission used, the tool ended with error"),
        ] {
            let expected = format!("2026-05-24T14:01:00Z  accepted by user{says}  =Send \"500\", now  sess_1");
            assert_eq!(as_line(&decided("local", used)), expected);
        }
        assert_eq!(as_json(&decided("local", PermitUse::Unused))["permit_used"], json!(false));
        let used = as_json(&decided("local", PermitUse::Used));
        assert_eq!((&used["permit_used"], &used["tool_status"]), (&json!(true), &json!(null)));
        let csv = as_csv(&decided("local", completed("success")));
        assert!(
            csv.starts_with("\"2026-05-24T14:01:00Z\",\"accepted\",\"accept\",\"'=Send \"\"500\"\", now\","),
            "{csv}"
        );
        assert!(csv.ends_with(",true,\"success\",\"local\"") && csv.lines().count() == 1, "{csv}");
    }
}
