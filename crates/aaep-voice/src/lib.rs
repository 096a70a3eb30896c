//! Saying it: speech-dispatcher, braille displays, sounds.
