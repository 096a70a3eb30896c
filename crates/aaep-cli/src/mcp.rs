//! `aaep mcp`: a proxy in front of a server of the Model Context Protocol.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aaep_bridge::gate::GateMode;
use aaep_bridge::mcp::{McpConfig, McpProxy, NoListenerPolicy};
use aaep_bridge::rules::{ConsentRule, RuleDecision};
use aaep_server::Layer;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::CommandStatus;
use crate::agent_name::{agent_name, to_agent_id};
use crate::bridge::{BridgeRoute, BridgeStart, HttpPeerOptions, PeerKind, UnheardQuestions, serve_bridge};
use crate::logging::start_logging;
use crate::output::{fail, print_error};
use crate::remembered;
use crate::runtime::runtime;
use crate::server_flags::ServerFlags;

/// Ask before the tools of an MCP server act.
///
/// Stands between an MCP client and a server: put it before the server's command in the settings of the client. All messages
/// pass unchanged, except that a tool call waits until you agree to it in aaep listen. Tools that say that they only read
/// are not asked about; tools that say nothing are. Without a listener such calls are refused. See docs/bridges.md.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep mcp -- npx -y @modelcontextprotocol/server-filesystem /home/ada
  aaep mcp --gate destructive --allow move_file -- npx -y @modelcontextprotocol/server-filesystem /home/ada
  aaep mcp --url https://tools.example/mcp --header 'Authorization: Bearer TOKEN'")]
pub(crate) struct McpArgs {
    #[command(flatten)]
    server: ServerFlags,
    /// Name of the server, as users hear it [default: the name of its script, package or host]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Which tool calls to ask about: all, writes (all but those that only read) or destructive
    #[arg(long, value_name = "WHICH", default_value = "writes", value_parser = ["all", "writes", "destructive"])]
    gate: String,
    /// What happens to calls that need a yes while no listener can answer: deny, pass or wait
    #[arg(long, value_name = "POLICY", default_value = "deny", value_parser = ["deny", "pass", "wait"])]
    no_subscriber: String,
    /// Tool that is never asked about, even if it destroys data (repeatable)
    #[arg(long, value_name = "TOOL")]
    allow: Vec<String>,
    /// Tool that is always refused (repeatable)
    #[arg(long, value_name = "TOOL")]
    deny: Vec<String>,
    /// Ask after each decision whether it applies to later calls too
    #[arg(long)]
    remember: bool,
    /// File of remembered decisions [default: remembered.json in the directory aaep of XDG_STATE_HOME]
    #[arg(long, value_name = "FILE")]
    remember_file: Option<PathBuf>,
    /// Seconds that you have for an answer [default: 60 to 300, by the risk]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    timeout: Option<u32>,
    /// Seconds after the last call until a session ends
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    idle: u64,
    /// Change nothing in requests: neither offer your answers to the server's questions nor ask it for progress
    #[arg(long)]
    no_inject: bool,
    /// Address of a server that is reached by streamable HTTP
    #[arg(long, value_name = "URL", conflicts_with = "command", required_unless_present = "command")]
    url: Option<String>,
    /// Header of requests to that server, such as 'Authorization: Bearer TOKEN' (repeatable)
    #[arg(long, value_name = "HEADER", requires = "url")]
    header: Vec<String>,
    /// Command that starts the server, after --
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: McpArgs) -> ExitCode {
    match start(args) {
        Ok(code) => code,
        Err(error) => ExitCode::from(fail(error) as u8),
    }
}

fn start(args: McpArgs) -> Result<ExitCode, String> {
    let name = args.name.clone().unwrap_or_else(|| server_name(&args));
    let peer = match &args.url {
        Some(url) => PeerKind::Http(http_options(url, &args.header)?),
        None => PeerKind::Command(args.command.clone()),
    };
    let file = args.remember_file.clone().or_else(remembered::default_path);
    let config = config(&args, &name, file.as_deref())?;
    let unheard = match config.no_listener {
        NoListenerPolicy::Wait => UnheardQuestions::Wait,
        NoListenerPolicy::Deny | NoListenerPolicy::Pass => UnheardQuestions::Resolve,
    };
    print_policy(config.no_listener);
    let mut base = Layer::default();
    base.set("log.filter", "warn");
    base.set("agent_id", to_agent_id(&name));
    let effective = args.server.effective_over(base).map_err(|error| error.to_string())?.with_name(Some(name));
    start_logging(&effective.config.log);
    let runtime = runtime().map_err(|error| format!("cannot start the runtime: {error}"))?;
    let remember = Box::new(move |rule: ConsentRule| match &file {
        Some(file) => {
            if let Err(error) = remembered::add(file, rule) {
                print_error(format_args!("cannot keep a decision in {}: {error}", file.display()));
            }
        }
        None => print_error("a decision is not kept: there is no home directory"),
    });
    let start = BridgeStart { bridge: McpProxy::new(config), peer, unheard, meta: BridgeRoute::Mcp.meta(), remember };
    // Spawned, so that it runs on the worker threads like the driver task of the producer.
    let serving = runtime.spawn(serve_bridge(effective, start));
    let ended = runtime.block_on(serving).unwrap_or_else(|_| Ok(ExitCode::from(CommandStatus::Failed as u8)));
    // The thread that reads standard input cannot be interrupted.
    runtime.shutdown_background();
    ended.map_err(|error| error.to_string())
}

fn config(args: &McpArgs, name: &str, file: Option<&Path>) -> Result<McpConfig, String> {
    let mut config = McpConfig::new(name);
    config.gate = args.gate.parse::<GateMode>().map_err(|error| format!("--gate {error}"))?;
    config.no_listener = match args.no_subscriber.as_str() {
        "pass" => NoListenerPolicy::Pass,
        "wait" => NoListenerPolicy::Wait,
        _ => NoListenerPolicy::Deny,
    };
    config.rules = match file {
        Some(file) => remembered::load(file)?,
        None => Vec::new(),
    };
    config.rules.extend(args.allow.iter().map(|tool| ConsentRule::for_tool(tool, RuleDecision::AllowAlways)));
    config.rules.extend(args.deny.iter().map(|tool| ConsentRule::for_tool(tool, RuleDecision::Deny)));
    config.offers_to_remember = args.remember;
    config.timeout_seconds = args.timeout;
    config.idle_millis = args.idle * 1000;
    config.injects = !args.no_inject;
    Ok(config)
}

fn print_policy(policy: NoListenerPolicy) {
    let text = match policy {
        NoListenerPolicy::Deny => "While nobody listens, calls that need your yes are refused (--no-subscriber).",
        NoListenerPolicy::Pass => "While nobody listens, calls pass WITHOUT a question (--no-subscriber pass).",
        NoListenerPolicy::Wait => "While nobody listens, calls that need your yes wait (--no-subscriber wait).",
    };
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{text}\n").as_bytes());
}

/// Returns the name of the server: the host of its address, the name of its package, or that of its script or program.
fn server_name(args: &McpArgs) -> String {
    if let Some(host) = args.url.as_ref().and_then(|url| url.parse::<http::Uri>().ok()?.host().map(str::to_owned)) {
        return host;
    }
    let package = args.command.iter().skip(1).filter_map(|argument| argument.to_str());
    let package = package.filter(|argument| argument.starts_with('@') && argument.contains('/')).find_map(|argument| {
        let name = argument.rsplit('/').next()?.split('@').next()?;
        Some(name.to_owned()).filter(|name| !name.is_empty())
    });
    package.unwrap_or_else(|| agent_name(&args.command))
}

fn http_options(url: &str, headers: &[String]) -> Result<HttpPeerOptions, String> {
    let uri: http::Uri = url.parse().map_err(|_| format!("--url {url} is not an address"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
        return Err(format!("--url {url} must start with http:// or https://"));
    }
    let mut map = HeaderMap::new();
    for header in headers {
        // The value may be a credential, so no error quotes it.
        let (name, value) = header.split_once(':').ok_or("--header must be NAME: VALUE")?;
        let name: HeaderName =
            name.trim().parse().map_err(|_| format!("--header: {name} is not the name of a header"))?;
        let value =
            HeaderValue::from_str(value.trim()).map_err(|_| format!("--header: the value of {name} is not valid"))?;
        map.append(name, value);
    }
    Ok(HttpPeerOptions { url: uri, headers: map })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_and_errors_do_not_quote_their_values() {
        let options = http_options("http://localhost:1/mcp", &["Authorization: Bearer a:b".to_owned()]).unwrap();
        assert_eq!(options.headers["authorization"], "Bearer a:b");
        let error = http_options("http://localhost", &["X: top\nsecret".to_owned()]).err().unwrap();
        assert!(!error.contains("secret"), "{error}");
        assert!(http_options("ftp://localhost", &[]).is_err());
    }
}
