//! Peers that try to exhaust connections, memory or quotas.
