//! `aaep listen` behind servers that relay agents: the example programs, through `aaep serve` and under `aaep run`.

use aaep_test::{Process, root};

use crate::home::{Home, sees};

/// Accepts what needs consent, and chooses Savings.
const ANSWER: &str = "grep -q 'From which account' && echo 'answer 2' || echo accept";

/// An example program: how it is started, and what is heard of it.
struct Example {
    words: [&'static str; 2],
    starts: &'static str,
    asks: &'static str,
    ends: &'static str,
}

const EXAMPLES: [Example; 2] = [
    Example {
        words: ["python3", "examples/agents/agent.py"],
        starts: "Start: Mail agent: Tidying your mailbox.",
        asks: "Mail agent asks: Delete 12 letters.",
        ends: "End: Done. Your mailbox is looked after.",
    },
    Example {
        words: ["node", "examples/agents/agent.mjs"],
        starts: "Start: Bill agent: Looking after your bills.",
        asks: "Bill agent asks: Pay 80 dollars to the power company",
        ends: "End: Done. The power bill is paid.",
    },
];

fn listen(home: &Home, url: &str) -> Process {
    let listener = home.start(&["listen", "--on-prompt", ANSWER, url]);
    sees(&listener, "Note: Listening to ");
    listener
}

/// Returns the lines up to the end of the session.
fn lines_until(listener: &Process, end: &str) -> Vec<String> {
    let mut lines = Vec::new();
    listener.find(end, |line| {
        lines.push(line.to_owned());
        line.contains(end).then_some(())
    });
    lines
}

fn check(lines: &[String], example: &Example) {
    let has = |part: &str| lines.iter().any(|line| line.contains(part));
    assert!(has(example.asks), "the agent is named in {lines:#?}");
    let is_remark = |line: &&String| line.starts_with("Note: ") && !line.starts_with("Note: Your command answered ");
    let remarks: Vec<_> = lines.iter().filter(is_remark).collect();
    assert!(remarks.is_empty(), "nothing is wrong with an agent that is relayed: {remarks:#?}");
}

#[test]
fn agents_behind_aaep_serve_are_announced_by_name_and_without_notices() {
    for example in &EXAMPLES {
        let home = Home::new();
        let (_server, url) = home.serve(&["serve", "--listen", "localhost:0"]);
        let listener = listen(&home, &url);
        let [program, file] = example.words;
        let mut agent = home.program(program, &[file, "--url", &url]);
        let mut agent = Process::start(agent.current_dir(root()));
        let lines = lines_until(&listener, example.ends);
        assert!(lines.iter().any(|line| line == example.starts), "{lines:#?}");
        check(&lines, example);
        assert!(agent.wait().success(), "{}", agent.errors());
    }
}

#[test]
fn agents_under_aaep_run_are_announced_by_name_and_without_notices() {
    for example in &EXAMPLES {
        let home = Home::new();
        let [program, file] = example.words;
        let mut command =
            home.command(&["run", "--listen", "localhost:0", "--agent-id", "runner", "--", program, file]);
        let mut running = Process::start(command.current_dir(root()));
        // It prints where it serves on standard error; the socket is there when it serves.
        let socket = home.path().join("aaep/runner.sock");
        let deadline = std::time::Instant::now() + aaep_test::PATIENCE;
        while !socket.exists() {
            assert!(std::time::Instant::now() < deadline, "{}", running.errors());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let listener = home.start(&["listen", "--on-prompt", ANSWER, &format!("unix:{}", socket.display())]);
        sees(&listener, "Note: Listening to ");
        check(&lines_until(&listener, example.ends), example);
        assert!(running.wait().success(), "{}", running.errors());
    }
}
