//! Totals over all seeds.

/// Counts over all seeds, to assert that the simulation covers enough.
#[derive(Debug, Default)]
pub struct Totals {
    pub events: usize,
    pub accepted: usize,
    pub rejected: usize,
    pub timed_out: usize,
    pub left: usize,
    pub nobody: usize,
    pub ignored: usize,
    pub irreversible: usize,
    /// Accepted questions without consent to an irreversible call.
    pub harmless: usize,
    pub closed: usize,
    pub outputs: usize,
}

impl Totals {
    pub fn add(&mut self, other: &Totals) {
        self.events += other.events;
        self.accepted += other.accepted;
        self.rejected += other.rejected;
        self.timed_out += other.timed_out;
        self.left += other.left;
        self.nobody += other.nobody;
        self.ignored += other.ignored;
        self.irreversible += other.irreversible;
        self.harmless += other.harmless;
        self.closed += other.closed;
        self.outputs += other.outputs;
    }

    pub fn assert_interesting(&self) {
        let all = [
            self.accepted,
            self.rejected,
            self.timed_out,
            self.left,
            self.nobody,
            self.ignored,
            self.irreversible,
            self.harmless,
            self.closed,
            self.outputs,
        ];
        assert!(all.iter().all(|n| *n > 20), "{self:?}");
    }
}
