//! The names of the states that this implementation uses. The specification leaves the list open.

/// Before the agent does anything.
pub const IDLE: &str = "idle";

/// The agent works on the task without a tool.
pub const THINKING: &str = "thinking";

/// The agent chooses what to do next.
pub const DECIDING: &str = "deciding";

/// At least one tool call runs.
pub const CALLING_TOOL: &str = "calling_tool";

/// A question waits for the user's answer.
pub const AWAITING_INPUT: &str = "awaiting_input";

/// The agent writes output.
pub const WRITING_OUTPUT: &str = "writing_output";

/// The agent asks someone else to take over.
pub const HANDING_OFF: &str = "handing_off";
