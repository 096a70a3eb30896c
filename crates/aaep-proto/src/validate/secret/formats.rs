//! The formats of secrets: prefixes of keys, names of fields that hold a secret, PEM markers.

/// Prefixes of keys that services issue, each with the minimum number of characters after it. `sk-` is handled
/// separately.
pub(super) const KEY_FORMATS: &[(&str, usize)] = &[
    // Amazon Web Services, Google.
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("ya29.", 20),
    ("GOCSPX-", 20),
    // Code hosts and package registries.
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("glrt-", 16),
    ("gldt-", 16),
    ("glft-", 16),
    ("glcbt-", 16),
    ("glptt-", 16),
    ("glsoat-", 16),
    ("glagent-", 16),
    ("npm_", 30),
    ("pypi-", 32),
    ("rubygems_", 20),
    ("dckr_pat_", 16),
    // Payment and shops.
    ("sk_live_", 8),
    ("sk_test_", 8),
    ("rk_live_", 8),
    ("rk_test_", 8),
    ("whsec_", 16),
    ("sq0atp-", 16),
    ("sq0csp-", 16),
    ("shpat_", 20),
    ("shpca_", 20),
    ("shppa_", 20),
    ("shpss_", 20),
    // Chat and mail.
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxa-", 10),
    ("xoxs-", 10),
    ("xoxr-", 10),
    ("xoxe-", 10),
    ("xoxe.xoxp-", 10),
    ("xoxc-", 10),
    ("xoxd-", 10),
    ("xapp-", 10),
    ("SG.", 16),
    // Hosting and operations.
    ("dop_v1_", 32),
    ("doo_v1_", 32),
    ("dor_v1_", 32),
    ("dp.pt.", 30),
    ("dp.st.", 30),
    ("dp.ct.", 30),
    ("dp.sa.", 30),
    ("dapi", 32),
    ("glsa_", 20),
    ("glc_", 20),
    ("hvs.", 20),
    ("hvb.", 20),
    ("pscale_tkn_", 20),
    ("pscale_pw_", 20),
    ("pul-", 32),
    ("sbp_", 20),
    ("sntrys_", 20),
    ("tskey-", 16),
    ("HRKU-", 20),
    ("NRAK-", 20),
    ("PMAK-", 20),
    ("ATATT3", 20),
    // Models and tools.
    ("hf_", 20),
    ("gsk_", 20),
    ("r8_", 20),
    ("xai-", 20),
    ("pplx-", 20),
    ("lin_api_", 20),
    ("lin_oauth_", 20),
    ("figd_", 20),
    ("ntn_", 20),
    // Encryption.
    ("AGE-SECRET-KEY-", 30),
];

/// The maximum length of a prefix, in bytes.
pub(super) const LONGEST_PREFIX: usize = 16;

/// Whether a prefix in [`KEY_FORMATS`] begins with two bytes, by a hash of them. Most words are ruled out by this.
const FIRST_PAIRS: [bool; 1024] = {
    let mut pairs = [false; 1024];
    let mut i = 0;
    while i < KEY_FORMATS.len() {
        let prefix = KEY_FORMATS[i].0.as_bytes();
        pairs[pair_index(prefix[0], prefix[1])] = true;
        i += 1;
    }
    pairs
};

/// The lower five bits of two bytes: letters of different case have the same.
const fn pair_index(first: u8, second: u8) -> usize {
    ((first & 31) as usize) << 5 | (second & 31) as usize
}

/// Returns false if a text begins with none of the prefixes in [`KEY_FORMATS`].
pub(super) fn may_begin_key(text: &[u8]) -> bool {
    matches!(text, [first, second, ..] if FIRST_PAIRS[pair_index(*first, *second)])
}

/// The scheme before a bearer token, in lower case.
pub(super) const BEARER: &[u8] = b"bearer ";

/// Names of fields that hold a secret, as lists of words.
pub(super) const SECRET_NAMES: &[&[&[u8]]] = &[
    &[b"password"],
    &[b"passwd"],
    &[b"passphrase"],
    &[b"secret"],
    &[b"token"],
    &[b"api", b"key"],
    &[b"access", b"key"],
    &[b"secret", b"key"],
    &[b"private", b"key"],
];

/// The beginning of a PEM block.
pub(super) const PEM_BEGIN: &str = "-----BEGIN ";
