//! Irreversible tool calls without the consent of a person.
