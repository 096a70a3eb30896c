//! Keys of AAEP: signed manifests, bearer tokens, key files.
