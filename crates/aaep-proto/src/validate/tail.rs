//! The end of a secret: once it is recognized, all text that belongs to it is consumed, whatever its length and however
//! many pieces it arrives in.

use super::secret::{is_bearer, is_token, is_value, leading_run};

/// The kind of text that may still belong to a recognized secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tail {
    /// No text: the secret has ended.
    #[default]
    Nothing,
    /// Letters, digits, `_` and `-`.
    Token,
    /// Letters, digits, `_` and `-`, with dots between them.
    Dotted,
    /// The characters of a bearer token.
    Bearer,
    /// The value of a password, up to white space or a delimiter.
    Value,
    /// The body of a PEM block.
    Pem {
        /// Whether the position is at the beginning of a line.
        line_start: bool,
    },
    /// A header line inside of a PEM block.
    PemHeader,
}

/// The part of a text that belongs to a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Consumed {
    /// The number of bytes that belong to the secret.
    pub(super) length: usize,
    /// Whether the secret ends there. If not, more text is needed to decide.
    pub(super) ended: bool,
}

/// The beginning of the last line of a PEM block.
const PEM_END: &[u8] = b"-----END ";

/// The names of header lines in encrypted PEM blocks.
const PEM_HEADERS: [&[u8]; 2] = [b"Proc-Type:", b"DEK-Info:"];

/// The minimum length of a word that continues a PEM body after a space, in bytes.
const MIN_PEM_WORD_BYTES: usize = 20;

impl Tail {
    /// Consumes the text that belongs to the secret. `last` is true if no text follows `rest`.
    pub(super) fn consume(&mut self, rest: &[u8], last: bool) -> Consumed {
        match self {
            Tail::Nothing => Consumed { length: 0, ended: true },
            Tail::Token => consume_run(rest, last, is_token),
            Tail::Dotted => consume_run(rest, last, |b| is_token(b) || b == b'.'),
            Tail::Bearer => consume_run(rest, last, is_bearer),
            Tail::Value => consume_run(rest, last, is_value),
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

/// The meaning of the next bytes of a PEM block.
enum Step {
    /// This many bytes belong to the block.
    Part(usize),
    /// This many bytes belong to the block, which ends after them.
    End(usize),
    /// More text is needed to decide.
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
        // A space continues a block that was joined into one line.
        b' ' => {
            let word = leading_run(&rest[1..], is_body, last);
            let goes_on = word.bytes.len() >= MIN_PEM_WORD_BYTES || rest[1..].starts_with(PEM_END);
            let may_go_on = word.open || (!last && PEM_END.starts_with(&rest[1..]));
            match (goes_on, may_go_on) {
                (true, _) => (Step::Part(1), IN_LINE),
                (false, true) => (Step::Wait, IN_LINE),
                (false, false) => (Step::End(0), Tail::Nothing),
            }
        }
        b if is_body(b) => (Step::Part(1), IN_LINE),
        b'-' if rest.starts_with(PEM_END) => {
            let label = leading_run(&rest[PEM_END.len()..], |b| b.is_ascii_uppercase() || b == b' ', last);
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

/// Consumes bytes for which `is_part` holds. A dot belongs to them only if another one follows; otherwise it ends a
/// sentence.
fn consume_run(rest: &[u8], last: bool, is_part: impl Fn(u8) -> bool) -> Consumed {
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
