//! The names of the metadata of a gRPC `Subscribe` call.

/// Set by a subscriber that resumes its subscription if the stream is lost.
pub const RESUMABLE: &str = "aaep-resumable";

/// The subscription to resume.
pub const SUBSCRIPTION_ID: &str = "aaep-subscription-id";

/// The last event that the subscriber received before its stream was lost.
pub const LAST_EVENT_ID: &str = "aaep-last-event-id";
