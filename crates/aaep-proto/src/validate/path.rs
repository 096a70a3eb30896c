//! Where in a document the validator is. Costs nothing until a problem has to be written down.

use std::fmt::{self, Write as _};

use crate::limits;

/// A step on the way down, linked to the steps before it.
#[derive(Clone, Copy)]
pub(crate) enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl<'p> Path<'p> {
    /// A field of the document itself.
    pub(crate) fn top(name: &'p str) -> Path<'p> {
        Path::Field(&Path::Root, name)
    }

    pub(crate) fn field(&'p self, name: &'p str) -> Path<'p> {
        Path::Field(self, name)
    }

    pub(crate) fn item(&'p self, index: usize) -> Path<'p> {
        Path::Item(self, index)
    }

    /// The last step in words: the name of a field.
    pub(crate) fn name(&self) -> Brief<'p> {
        match self {
            Path::Root => Brief("The document"),
            Path::Field(_, name) => Brief(name),
            Path::Item(parent, _) => parent.name(),
        }
    }

    /// The way as a JSON pointer (RFC 6901). Names of unreasonable length are cut.
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

/// Text of the document inside a sentence for people, cut where it goes on without end.
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
