//! The listening side of AAEP: a subscriber over every transport.
