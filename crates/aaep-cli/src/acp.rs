//! `aaep acp`: a proxy between an editor and an agent of the Agent Client Protocol.

use std::ffi::OsString;
use std::process::ExitCode;

use aaep_bridge::acp::{AcpConfig, AcpProxy, AnswerFrom};
use aaep_server::Layer;

use crate::CommandStatus;
use crate::agent_name::{agent_name, to_agent_id};
use crate::bridge::{BridgeRoute, BridgeStart, PeerKind, UnheardQuestions, serve_bridge};
use crate::logging::start_logging;
use crate::output::fail;
use crate::runtime::runtime;
use crate::server_flags::ServerFlags;

/// Hear an agent of the Agent Client Protocol, and answer its permissions.
///
/// Stands between an editor and an agent: put it before the agent's command in the settings of the editor. Each prompt is a
/// session with its text, tools and plan. Permissions are answered in aaep listen; if nobody listens, the editor asks. What
/// the agent does without asking is only announced. See docs/bridges.md.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  aaep acp -- opencode acp
  aaep acp --answer both -- npx -y @agentclientprotocol/claude-agent-acp")]
pub(crate) struct AcpArgs {
    #[command(flatten)]
    server: ServerFlags,
    /// Name of the agent, as users hear it [default: the name of its script or program]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Who answers permissions: at (aaep listen, or the editor if nobody listens), editor, or both (the first answer counts)
    #[arg(long, value_name = "WHO", default_value = "at", value_parser = ["at", "editor", "both"])]
    answer: String,
    /// Seconds that you have for an answer [default: 60 to 300, by the risk]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    timeout: Option<u32>,
    /// Command that starts the agent, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: AcpArgs) -> ExitCode {
    match start(args) {
        Ok(code) => code,
        Err(error) => ExitCode::from(fail(error) as u8),
    }
}

fn start(args: AcpArgs) -> Result<ExitCode, String> {
    let name = args.name.clone().unwrap_or_else(|| agent_name(&args.command));
    let mut config = AcpConfig::new(&name);
    config.answer = match args.answer.as_str() {
        "editor" => AnswerFrom::Editor,
        "both" => AnswerFrom::Both,
        _ => AnswerFrom::Listener,
    };
    config.timeout_seconds = args.timeout;
    let mut base = Layer::default();
    base.set("log.filter", "warn");
    base.set("agent_id", to_agent_id(&name));
    let effective = args.server.effective_over(base).map_err(|error| error.to_string())?.with_name(Some(name));
    start_logging(&effective.config.log);
    let runtime = runtime().map_err(|error| format!("cannot start the runtime: {error}"))?;
    let start = BridgeStart {
        bridge: AcpProxy::new(config),
        peer: PeerKind::Command(args.command),
        unheard: UnheardQuestions::Resolve,
        meta: BridgeRoute::Acp.meta(),
        remember: Box::new(|_| ()),
    };
    // Spawned, so that it runs on the worker threads like the driver task of the producer.
    let serving = runtime.spawn(serve_bridge(effective, start));
    let ended = runtime.block_on(serving).unwrap_or_else(|_| Ok(ExitCode::from(CommandStatus::Failed as u8)));
    // The thread that reads standard input cannot be interrupted.
    runtime.shutdown_background();
    ended.map_err(|error| error.to_string())
}
