//! Subscribers that stop reading must not delay agents or other subscribers.
