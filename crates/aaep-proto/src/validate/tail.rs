//! Where a secret ends: once it is recognized, everything that belongs to it is dropped, however long it is and in
//! however many pieces it arrives.

use super::secret::{is_bearer, is_token, is_value, near};

/// What may still belong to a secret that was recognized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tail {
    /// Nothing.
    #[default]
    Nothing,
    /// Letters, digits, `_` and `-`.
    Token,
    /// The same and dots between them.
    Dotted,
    /// What a bearer token is made of.
    Bearer,
    /// The value of a password, up to white space or a delimiter.
    Value,
    /// The body of a PEM block.
    Pem {
        /// Whether a new line has begun.
        line_start: bool,
    },
    /// A header line inside of a PEM block.
    PemHeader,
}

/// How much of a text belongs to a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Consumed {
    /// Bytes that do.
    pub(super) length: usize,
    /// Whether the secret ends there; otherwise more text is needed to tell.
    pub(super) ended: bool,
}

/// How a PEM block ends.
const PEM_END: &[u8] = b"-----END ";

/// Header lines that stand in encrypted PEM blocks.
const PEM_HEADERS: [&[u8]; 2] = [b"Proc-Type:", b"DEK-Info:"];

/// Characters without a space that continue a PEM body after one.
const PEM_WORD: usize = 20;

impl Tail {
    /// Consumes what belongs to the secret. `last` says that no text follows after `rest`.
    pub(super) fn consume(&mut self, rest: &[u8], last: bool) -> Consumed {
        match self {
            Tail::Nothing => Consumed { length: 0, ended: true },
            Tail::Token => run(rest, last, is_token),
            Tail::Dotted => run(rest, last, |b| is_token(b) || b == b'.'),
            Tail::Bearer => run(rest, last, is_bearer),
            Tail::Value => run(rest, last, is_value),
            Tail::Pem { .. } | Tail::PemHeader => self.consume_pem(rest, last),
        }
    }

    fn consume_pem(&mut self, rest: &[u8], last: bool) -> Consumed {
        let mut at = 0;
        while let Some(&b) = rest.get(at) {
            let (step, next) = match *self {
                Tail::PemHeader => (Step::Part(1), if b == b'\n' { NEW_LINE } else { Tail::PemHeader }),
                _ => pem_step(&rest[at..], *self == NEW_LINE, last),
            };
            match step {
                Step::Part(length) => at += length,
                Step::End(length) => return Consumed { length: at + length, ended: true },
                Step::Wait => return Consumed { length: at, ended: false },
            }
            *self = next;
        }
        Consumed { length: at, ended: last }
    }
}

const NEW_LINE: Tail = Tail::Pem { line_start: true };
const IN_LINE: Tail = Tail::Pem { line_start: false };

/// What the next bytes of a PEM block are.
enum Step {
    /// So many belong to it.
    Part(usize),
    /// So many belong to it, and it ends after them.
    End(usize),
    /// More text is needed to tell.
    Wait,
}

fn pem_step(rest: &[u8], line_start: bool, last: bool) -> (Step, Tail) {
    let is_body = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'\\');
    let cut = |prefix: &[u8]| !last && rest.len() < prefix.len() && prefix.starts_with(rest);
    if line_start && PEM_HEADERS.iter().any(|header| rest.starts_with(header)) {
        return (Step::Part(1), Tail::PemHeader);
    }
    if cut(PEM_END) || (line_start && PEM_HEADERS.iter().any(|header| cut(header))) {
        return (Step::Wait, IN_LINE);
    }
    match rest[0] {
        b'\n' | b'\r' => (Step::Part(1), NEW_LINE),
        b' ' | b'\t' if line_start => (Step::Part(1), NEW_LINE),
        // A block that was put on one line.
        b' ' => {
            let word = near(&rest[1..], is_body, last);
            let goes_on = word.bytes.len() >= PEM_WORD || rest[1..].starts_with(PEM_END);
            let may_go_on = word.open || (!last && PEM_END.starts_with(&rest[1..]));
            match (goes_on, may_go_on) {
                (true, _) => (Step::Part(1), IN_LINE),
                (false, true) => (Step::Wait, IN_LINE),
                (false, false) => (Step::End(0), Tail::Nothing),
            }
        }
        b if is_body(b) => (Step::Part(1), IN_LINE),
        b'-' if rest.starts_with(PEM_END) => {
            let label = near(&rest[PEM_END.len()..], |b| b.is_ascii_uppercase() || b == b' ', last);
            let at = PEM_END.len() + label.bytes.len();
            if label.open || (!last && rest.len() < at + 5 && b"-----".starts_with(&rest[at..])) {
                return (Step::Wait, IN_LINE);
            }
            let dashes = rest[at..].iter().take(5).take_while(|b| **b == b'-').count();
            (Step::End(at + dashes), Tail::Nothing)
        }
        _ => (Step::End(0), Tail::Nothing),
    }
}

/// Bytes that belong together. A dot belongs to them only if more of them follow: otherwise it ends a sentence.
fn run(rest: &[u8], last: bool, is_part: impl Fn(u8) -> bool) -> Consumed {
    let mut length = 0;
    while let Some(&b) = rest.get(length).filter(|b| is_part(**b)) {
        if b == b'.' {
            match rest.get(length + 1) {
                Some(next) if is_part(*next) => {}
                None if !last => return Consumed { length, ended: false },
                _ => return Consumed { length, ended: true },
            }
        }
        length += 1;
    }
    Consumed { length, ended: last || length < rest.len() }
}
