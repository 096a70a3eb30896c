//! Keys of braille displays.

/// The kind of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyKind {
    /// The enter key.
    Enter,
    /// The escape key.
    Escape,
    /// The tab key.
    Tab,
    /// The backspace key.
    Backspace,
    /// The delete key.
    Delete,
    /// The insert key.
    Insert,
    /// The left arrow key.
    Left,
    /// The right arrow key.
    Right,
    /// The up arrow key.
    Up,
    /// The down arrow key.
    Down,
    /// The page-up key.
    PageUp,
    /// The page-down key.
    PageDown,
    /// The home key.
    Home,
    /// The end key.
    End,
    /// A function key, counted from 1.
    Function(u8),
    /// A typed character.
    Character(char),
    /// The routing key above this cell, counted from 0.
    Route(u16),
    /// Pans one window to the left.
    PanLeft,
    /// Pans one window to the right.
    PanRight,
    /// Moves one line up.
    LineUp,
    /// Moves one line down.
    LineDown,
    /// Moves to the first line.
    Top,
    /// Moves to the last line.
    Bottom,
    /// Returns to the cursor.
    ToCursor,
    /// Any other key, with the lower 32 bits of its code.
    Other(u32),
}

/// A key that was pressed on the display.
///
/// ```
/// use aaep_voice::BrailleKey;
/// use aaep_voice::brlapi::KeyKind;
/// let key = BrailleKey::from_code(0x2001_0005);
/// assert_eq!(key.kind, KeyKind::Route(5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BrailleKey {
    /// The kind of the key.
    pub kind: KeyKind,
    /// The flags of the protocol. The lowest eight bits are the modifiers of X (1 shift, 4 control, 8 meta).
    pub flags: u32,
}

/// The bits of a key code that hold its type.
const TYPE: u32 = 0xe000_0000;

/// The type of BRLTTY commands; other keys are X keysyms.
const COMMAND: u32 = 0x2000_0000;

impl BrailleKey {
    /// Decodes a key code of the protocol.
    pub fn from_code(code: u64) -> BrailleKey {
        let low = (code & 0xffff_ffff) as u32;
        let kind = match low & TYPE {
            COMMAND => command(low),
            0 => symbol(low),
            _ => KeyKind::Other(low),
        };
        BrailleKey { kind, flags: (code >> 32) as u32 }
    }
}

fn command(low: u32) -> KeyKind {
    let argument = (low & 0xffff) as u16;
    match (low & !TYPE) >> 16 {
        0 => match argument {
            0x01 => KeyKind::LineUp,
            0x02 => KeyKind::LineDown,
            0x09 | 0x0b => KeyKind::Top,
            0x0a | 0x0c => KeyKind::Bottom,
            0x17 | 0x19 => KeyKind::PanLeft,
            0x18 | 0x1a => KeyKind::PanRight,
            0x1d | 0x1f => KeyKind::ToCursor,
            _ => KeyKind::Other(low),
        },
        1 => KeyKind::Route(argument),
        _ => KeyKind::Other(low),
    }
}

/// Decodes an X keysym. A Latin-1 character is its own keysym; other characters have a prefix.
fn symbol(low: u32) -> KeyKind {
    match low {
        0xff08 => KeyKind::Backspace,
        0xff09 => KeyKind::Tab,
        0xff0d => KeyKind::Enter,
        0xff1b => KeyKind::Escape,
        0xff50 => KeyKind::Home,
        0xff51 => KeyKind::Left,
        0xff52 => KeyKind::Up,
        0xff53 => KeyKind::Right,
        0xff54 => KeyKind::Down,
        0xff55 => KeyKind::PageUp,
        0xff56 => KeyKind::PageDown,
        0xff57 => KeyKind::End,
        0xff63 => KeyKind::Insert,
        0xffff => KeyKind::Delete,
        0xffbe..=0xffe0 => KeyKind::Function((low - 0xffbd) as u8),
        0x20..=0x7e | 0xa0..=0xff => character(low, low),
        0x0100_0000..=0x0110_ffff => character(low - 0x0100_0000, low),
        _ => KeyKind::Other(low),
    }
}

fn character(code: u32, low: u32) -> KeyKind {
    char::from_u32(code).filter(|c| !c.is_control()).map_or(KeyKind::Other(low), KeyKind::Character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_codes_are_decoded() {
        for (code, kind) in [
            (0xff0d, KeyKind::Enter),
            (0xff1b, KeyKind::Escape),
            (0xffbe, KeyKind::Function(1)),
            (0xffc1, KeyKind::Function(4)),
            (0x61, KeyKind::Character('a')),
            (0xe9, KeyKind::Character('é')),
            (0x0100_20ac, KeyKind::Character('€')),
            (0x0100_d800, KeyKind::Other(0x0100_d800)),
            (0x0100_000a, KeyKind::Other(0x0100_000a)),
            (0x2000_0017, KeyKind::PanLeft),
            (0x2000_0018, KeyKind::PanRight),
            (0x2000_0001, KeyKind::LineUp),
            (0x2000_0002, KeyKind::LineDown),
            (0x2001_0027, KeyKind::Route(39)),
            (0x2002_0000, KeyKind::Other(0x2002_0000)),
            (0xffff_ffff, KeyKind::Other(0xffff_ffff)),
        ] {
            assert_eq!(BrailleKey::from_code(code), BrailleKey { kind, flags: 0 }, "{code:#x}");
        }
        assert_eq!(BrailleKey::from_code(0x1_0000_ff09), BrailleKey { kind: KeyKind::Tab, flags: 1 });
    }
}
