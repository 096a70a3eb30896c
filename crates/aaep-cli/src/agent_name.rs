//! The name of an agent that `aaep run` starts, from its command.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Name endings of scripts.
const SCRIPT_EXTENSIONS: [&str; 17] =
    ["py", "pyz", "js", "mjs", "cjs", "ts", "mts", "tsx", "rb", "pl", "php", "sh", "bash", "lua", "jl", "exs", "jar"];

/// Programs that run others, so that their own names say nothing. Versions such as `python3.12` are recognized too.
const INTERPRETERS: [&str; 19] = [
    "python", "pypy", "uv", "uvx", "pipx", "node", "nodejs", "npx", "npm", "pnpm", "yarn", "bun", "deno", "ruby",
    "perl", "php", "java", "bash", "sh",
];

/// The name of an agent whose command does not show one.
const DEFAULT_NAME: &str = "agent";

/// Returns the name of the agent that a command starts: that of its script or its module, otherwise that of the program.
/// `python3 tools/mail_agent.py` starts `mail_agent`.
pub(crate) fn agent_name(command: &[OsString]) -> String {
    let Some((program, arguments)) = command.split_first() else { return DEFAULT_NAME.to_owned() };
    let name = script_of(program).or_else(|| {
        if !is_interpreter(program) {
            return Path::new(program).file_name().and_then(to_name);
        }
        arguments.iter().find_map(|argument| script_of(argument)).or_else(|| module_of(arguments))
    });
    name.unwrap_or_else(|| DEFAULT_NAME.to_owned())
}

/// Returns a name in a form that is valid as a part of a file name.
pub(crate) fn to_agent_id(name: &str) -> String {
    let valid = |c: char| if c.is_alphanumeric() || "-._".contains(c) { c } else { '-' };
    name.chars().map(valid).collect()
}

/// Returns the name of a script without its ending, or `None` if it is no script.
fn script_of(argument: &OsStr) -> Option<String> {
    let path = Path::new(argument);
    let extension = path.extension()?.to_str()?;
    // Code on the command line can end in anything.
    let is_script = SCRIPT_EXTENSIONS.contains(&extension) && !argument.to_string_lossy().contains(char::is_whitespace);
    if is_script { path.file_stem().and_then(to_name) } else { None }
}

/// Returns the name of a Python module that is run by `-m`.
fn module_of(arguments: &[OsString]) -> Option<String> {
    let at = arguments.iter().position(|argument| argument == "-m")?;
    let module = arguments.get(at + 1)?.to_str()?;
    module.rsplit('.').find(|part| *part != "__main__").map(str::to_owned)
}

fn is_interpreter(program: &OsStr) -> bool {
    let Some(name) = Path::new(program).file_name().and_then(OsStr::to_str) else { return false };
    let name = name.trim_end_matches(".exe").trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.contains(&name)
}

fn to_name(text: &OsStr) -> Option<String> {
    let name = text.to_string_lossy().trim_end_matches(".exe").to_owned();
    if name.is_empty() { None } else { Some(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_that_of_the_script_or_the_program() {
        for (command, expected) in [
            (&["python3", "mail_agent.py"][..], "mail_agent"),
            (&["/usr/bin/python3.12", "-u", "tools/mail_agent.py", "--input", "notes.txt"], "mail_agent"),
            (&["node", "--no-warnings", "./agents/garden.mjs"], "garden"),
            (&["deno", "run", "--allow-net", "garden.ts"], "garden"),
            (&["uv", "run", "mail_agent.py"], "mail_agent"),
            (&["python3", "-m", "mail.agent"], "agent"),
            (&["python3", "-m", "mail"], "mail"),
            (&["./mail_agent.py"], "mail_agent"),
            (&["./target/release/mail-agent", "run.py"], "mail-agent"),
            (&["java", "-jar", "garden.jar"], "garden"),
            (&["python3", "-c", "print('see x.py')"], "agent"),
            (&["python3"], "agent"),
            (&["node", "-e", "emit(1)"], "agent"),
        ] {
            let command: Vec<OsString> = command.iter().map(OsString::from).collect();
            assert_eq!(agent_name(&command), expected, "{command:?}");
        }
    }

    #[test]
    fn agent_id_is_valid_as_a_file_name() {
        assert_eq!(to_agent_id("Mail agent/2"), "Mail-agent-2");
        assert_eq!(to_agent_id("mail_agent"), "mail_agent");
    }
}
