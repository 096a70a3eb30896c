//! Reading and damaging the data directory from outside.
