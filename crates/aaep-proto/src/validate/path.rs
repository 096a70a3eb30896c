//! The position of the validator in a document. It is formatted only when a problem is reported.

use std::fmt::{self, Write as _};

use crate::limits;

/// A path to a value, linked to the path of its parent.
#[derive(Clone, Copy)]
pub(crate) enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl<'p> Path<'p> {
    /// Returns the path of a top-level field.
    pub(crate) fn top(name: &'p str) -> Path<'p> {
        Path::Field(&Path::Root, name)
    }

    pub(crate) fn field(&'p self, name: &'p str) -> Path<'p> {
        Path::Field(self, name)
    }

    pub(crate) fn item(&'p self, index: usize) -> Path<'p> {
        Path::Item(self, index)
    }

    /// Returns the name of the innermost field, for messages: `label`, or `choices[2]` for an item of a list.
    pub(crate) fn name(self) -> PathName<'p> {
        PathName(self)
    }

    /// Returns the path as a JSON pointer (RFC 6901). Very long names are truncated.
    pub(crate) fn pointer(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) {
        // Writing to a string cannot fail.
        let _ = match self {
            Path::Root => Ok(()),
            Path::Field(parent, name) => {
                parent.write(text);
                let name = Brief(name).to_string();
                write!(text, "/{}", name.replace('~', "~0").replace('/', "~1"))
            }
            Path::Item(parent, index) => {
                parent.write(text);
                write!(text, "/{index}")
            }
        };
    }
}

/// The name of the innermost field of a path.
#[derive(Clone, Copy)]
pub(crate) struct PathName<'p>(Path<'p>);

impl fmt::Display for PathName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Path::Root => f.write_str("The document"),
            Path::Field(_, name) => write!(f, "{}", Brief(name)),
            Path::Item(parent, index) => write!(f, "{}[{index}]", parent.name()),
        }
    }
}

/// Text of the document for use in messages, truncated if it is very long.
#[derive(Clone, Copy)]
pub(crate) struct Brief<'p>(pub(crate) &'p str);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(limits::NAME_CHARACTERS) {
            Some((cut, _)) => write!(f, "{}\u{2026}", &self.0[..cut]),
            None => f.write_str(self.0),
        }
    }
}
