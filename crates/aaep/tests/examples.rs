//! Runs the example programs. Each checks its own result.

#[path = "../examples/agent.rs"]
pub mod agent;
#[path = "../examples/custom_journal.rs"]
pub mod custom_journal;
#[path = "../examples/custom_transport.rs"]
pub mod custom_transport;
#[path = "../examples/smallest_agent.rs"]
pub mod smallest_agent;

#[test]
fn agent_runs_to_its_end() {
    agent::main().unwrap();
}

#[test]
fn custom_journal_runs_to_its_end() {
    custom_journal::main().unwrap();
}

#[test]
fn custom_transport_runs_to_its_end() {
    custom_transport::main().unwrap();
}

#[test]
fn smallest_agent_runs_to_its_end() {
    smallest_agent::main().unwrap();
}
