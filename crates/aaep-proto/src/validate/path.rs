//! Where in a document the validator is. Costs nothing until a problem has to be written down.

use std::fmt::Write as _;

/// A step on the way down, linked to the steps before it.
#[derive(Clone, Copy)]
pub(crate) enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl<'p> Path<'p> {
    pub(crate) fn field(&'p self, name: &'p str) -> Path<'p> {
        Path::Field(self, name)
    }

    pub(crate) fn item(&'p self, index: usize) -> Path<'p> {
        Path::Item(self, index)
    }

    /// The last step in words: the name of a field.
    pub(crate) fn name(&self) -> &str {
        match self {
            Path::Root => "The document",
            Path::Field(_, name) => name,
            Path::Item(parent, _) => parent.name(),
        }
    }

    /// The way as a JSON pointer (RFC 6901).
    pub(crate) fn pointer(&self) -> String {
        match self {
            Path::Root => String::new(),
            Path::Field(parent, name) => {
                let mut text = parent.pointer();
                text.push('/');
                text.push_str(&name.replace('~', "~0").replace('/', "~1"));
                text
            }
            Path::Item(parent, index) => {
                let mut text = parent.pointer();
                // Writing to a string cannot fail.
                let _ = write!(text, "/{index}");
                text
            }
        }
    }
}
