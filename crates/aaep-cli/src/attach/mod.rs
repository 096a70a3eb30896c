//! `aaep attach` and `aaep detach`: hooks in the settings of an agent, and their removal.

mod record;
mod target;

use std::io::{self, BufRead, IsTerminal, Write};

use aaep_bridge::hooks::{HookAgent, install, installed_file, remove};
use serde_json::json;

use crate::CommandStatus;
use crate::output::fail;
use crate::user_server::UserServer;
use record::AttachRecord;
use target::Target;

/// Make an agent audible by hooks in its settings.
///
/// Shows the change, asks, and makes it; aaep detach undoes it byte for byte. Then events of the agent are heard in aaep
/// listen, and its permissions can be answered there. If nobody listens, the agent asks as always. Restart the agent
/// afterwards, and run aaep up.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep attach claude
  aaep attach copilot --yes
  aaep attach --list")]
pub(crate) struct AttachArgs {
    /// Agent: claude, qwen, copilot, codex, opencode, or gemini (which is only announced)
    #[arg(value_name = "AGENT", required_unless_present = "list")]
    agent: Option<String>,
    /// List the agents, which of them are attached, and whether that works
    #[arg(long, conflicts_with = "agent")]
    list: bool,
    /// Make the change without a question
    #[arg(long)]
    yes: bool,
    /// Print the list as JSON
    #[arg(long, requires = "list")]
    json: bool,
}

/// Remove the hooks of aaep from the settings of an agent.
///
/// Restores the settings byte for byte if nobody has changed them since. Otherwise it removes its own entries only.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  aaep detach claude")]
pub(crate) struct DetachArgs {
    /// Agent: claude, qwen, copilot, codex, opencode or gemini
    #[arg(value_name = "AGENT")]
    agent: String,
}

fn parse(agent: &str) -> Result<HookAgent, String> {
    agent.parse().map_err(|error| format!("{agent}: the agent {error}"))
}

pub(crate) fn attach(args: &AttachArgs) -> io::Result<CommandStatus> {
    let Some(agent) = &args.agent else { return list(args.json) };
    match parse(agent).and_then(|agent| attach_agent(agent, args.yes)) {
        Ok(status) => Ok(status),
        Err(error) => Ok(fail(error)),
    }
}

fn attach_agent(agent: HookAgent, yes: bool) -> Result<CommandStatus, String> {
    let target = Target::of(agent)?;
    if AttachRecord::load(agent)?.is_some() {
        return Err(format!(
            "{} is attached already; to attach it again, run: aaep detach {}",
            agent.title(),
            agent.as_str()
        ));
    }
    let before = target.read()?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = program.to_str().ok_or("the path of this program is not Unicode")?;
    let after = match installed_file(agent, program) {
        Some(_) if before.is_some() => return Err(format!("{} exists already", target.path.display())),
        Some(file) => file,
        None => {
            install(agent, before.as_deref(), program).map_err(|error| format!("{}: {error}", target.path.display()))?
        }
    };
    show_change(agent, &target, before.as_deref(), &after);
    if !yes && !agreed()? {
        println_out("Nothing was changed.");
        return Ok(CommandStatus::No);
    }
    // The record comes first: whatever happens after it, the change can be undone.
    let record = AttachRecord::new(&target, before, after);
    record.save(agent)?;
    if let Err(error) = target.write(record.after()) {
        AttachRecord::delete(agent);
        return Err(error);
    }
    println_out(&format!("{} is attached. {}", agent.title(), advice(agent)));
    Ok(CommandStatus::Yes)
}

/// What the user still has to know or to do.
fn advice(agent: HookAgent) -> &'static str {
    match agent {
        HookAgent::Claude => {
            "Restart it and run: aaep up. In its mode auto it asks nothing; use --permission-mode manual."
        }
        HookAgent::Codex => {
            "Restart it, trust the new hooks in /hooks, and run: aaep up. Hooks that are not trusted do nothing."
        }
        HookAgent::Gemini => "Restart it and run: aaep up. Its questions are announced; answer them in its terminal.",
        HookAgent::Opencode => {
            "Restart it and run: aaep up. It needs its package @opencode-ai/plugin, and asks only if its permission settings say so."
        }
        HookAgent::Qwen | HookAgent::Copilot => "Restart it and run: aaep up.",
    }
}

fn show_change(agent: HookAgent, target: &Target, before: Option<&str>, after: &str) {
    let kind = if before.is_some() { "Changes the file" } else { "Creates the file" };
    println_out(&format!("{kind} {}", target.path.display()));
    // What is added is one or several pieces; all of them are commands of ours.
    let command = format!("hook {} ", agent.as_str());
    let count = after.matches(&command).count().max(1);
    println_out(&format!("Adds {count} commands that run: aaep hook {} EVENT", agent.as_str()));
    let size = before.map_or(0, str::len);
    println_out(&format!("Its size grows from {size} to {} bytes. Everything else in it stays as it is.", after.len()));
}

fn agreed() -> Result<bool, String> {
    if !io::stdin().is_terminal() {
        return Err("there is no terminal to ask in; add --yes to agree to the change".to_owned());
    }
    let _ = write!(io::stdout(), "Make this change? Type yes or no: ").and_then(|()| io::stdout().flush());
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|error| error.to_string())?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn println_out(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

pub(crate) fn detach(args: &DetachArgs) -> io::Result<CommandStatus> {
    match parse(&args.agent).and_then(detach_agent) {
        Ok(status) => Ok(status),
        Err(error) => Ok(fail(error)),
    }
}

fn detach_agent(agent: HookAgent) -> Result<CommandStatus, String> {
    let Some(record) = AttachRecord::load(agent)? else {
        println_out(&format!("{} is not attached.", agent.title()));
        return Ok(CommandStatus::No);
    };
    let target = Target::at(record.path());
    let now = target.read()?;
    let how = match now.as_deref() {
        Some(now) if now == record.after() => {
            match record.before() {
                Some(before) => target.write(before)?,
                None => target.delete(&record)?,
            }
            "Its settings are as before, byte for byte."
        }
        now if now == record.before() => "Its settings had no hooks of aaep.",
        None => "Its settings do not exist any more.",
        Some(_) if installed_file(agent, "").is_some() => {
            return Err(format!("{} was changed by someone else; delete it yourself", target.path.display()));
        }
        Some(now) => {
            let without = remove(agent, now).map_err(|error| format!("{}: {error}", target.path.display()))?;
            target.write(&without)?;
            "Its settings were changed meanwhile, so only the hooks of aaep were removed."
        }
    };
    AttachRecord::delete(agent);
    println_out(&format!("{} is detached. {how} Restart it.", agent.title()));
    Ok(CommandStatus::Yes)
}

fn list(as_json: bool) -> io::Result<CommandStatus> {
    let runtime = crate::runtime::runtime()?;
    let listeners = UserServer::find().and_then(|server| runtime.block_on(server.listeners()));
    let mut rows = Vec::new();
    for agent in HookAgent::ALL {
        let record = AttachRecord::load(agent).ok().flatten();
        let now = record.as_ref().and_then(|record| Target::at(record.path()).read().ok().flatten());
        let state = match (&record, now) {
            (None, _) => "not attached",
            (Some(record), Some(now)) if now == record.after() => "attached",
            (Some(_), Some(now)) if now.contains(&format!("hook {} ", agent.as_str())) => {
                "attached, settings changed since"
            }
            (Some(_), _) => "attached, but its hooks are gone; run aaep detach and aaep attach again",
        };
        rows.push((agent, state, record.map(|record| record.path().display().to_string())));
    }
    let server = match listeners {
        None => "does not run; start it with: aaep up",
        Some(0) => "runs, but nobody listens; run: aaep listen",
        Some(_) => "runs, and somebody listens",
    };
    let mut out = io::stdout().lock();
    if as_json {
        let agents = rows.iter().map(|(agent, state, path)| {
            json!({"agent": agent.as_str(), "state": state, "file": path, "can_decide": agent.can_decide()})
        });
        let agents: Vec<_> = agents.collect();
        writeln!(out, "{}", json!({"agents": agents, "server": server, "listeners": listeners}))?;
        return Ok(CommandStatus::Yes);
    }
    for (agent, state, path) in rows {
        let path = path.map(|path| format!(" ({path})")).unwrap_or_default();
        writeln!(out, "{}: {state}{path}", agent.as_str())?;
    }
    writeln!(out, "Server: {server}")?;
    Ok(CommandStatus::Yes)
}
