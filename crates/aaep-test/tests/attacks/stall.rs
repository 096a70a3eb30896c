//! Events that are expensive to process must not delay replies.
