//! Files with secrets.

use aaep_keys::file::{FILE_BYTES, read_public, read_secret, write_public};
use aaep_keys::{Algorithm, KeyError, KeyFileError, KeySet, SigningKey, StaticTokens, TokenFileError};

use crate::key;

#[test]
fn key_file_is_never_overwritten_and_loads_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.pem");
    let (first, second) = (key(Algorithm::Es256), key(Algorithm::EdDsa));
    first.write_new(&path).unwrap();
    assert_eq!(second.write_new(&path), Err(KeyError::File(KeyFileError::Exists)));
    assert_eq!(SigningKey::load(&path).unwrap().kid(), first.kid());
    let nowhere = dir.path().join("no/such/key.pem");
    assert_eq!(first.write_new(&nowhere), Err(KeyError::File(KeyFileError::NotFound)));
}

#[test]
fn unusable_files_have_a_specific_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    assert_eq!(read_public(&dir.path().join("nowhere")), Err(KeyFileError::NotFound));
    assert_eq!(read_public(dir.path()), Err(KeyFileError::Directory));
    assert_eq!(read_public(&file("binary", b"\xff\xfe")), Err(KeyFileError::NotText));
    let most = usize::try_from(FILE_BYTES).unwrap();
    assert_eq!(read_public(&file("large", &vec![b' '; most + 1])), Err(KeyFileError::TooLarge));
    assert_eq!(read_public(&file("most", &vec![b' '; most])).map(|text| text.len()), Ok(most));
    assert_eq!(KeySet::load(&dir.path().join("nowhere")), Err(KeyError::File(KeyFileError::NotFound)));
    let set = dir.path().join("set.json");
    let jwks = KeySet::from_iter([key(Algorithm::EdDsa).public().clone()]).to_jwks();
    write_public(&set, &jwks).unwrap();
    assert_eq!(KeySet::load(&set).unwrap().to_jwks(), jwks);
    assert_eq!(write_public(&set, "{}"), Err(KeyFileError::Exists));
}

#[cfg(unix)]
#[test]
fn secret_files_open_to_others_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.pem");
    key(Algorithm::Es256).write_new(&path).unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    for (bits, allowed) in
        [(0o600, true), (0o400, true), (0o440, true), (0o640, true), (0o644, false), (0o604, false), (0o660, false)]
    {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(bits)).unwrap();
        let expected = if allowed { Ok(()) } else { Err(KeyFileError::TooOpen(bits)) };
        assert_eq!(read_secret(&path).map(|_| ()), expected, "{bits:o}");
        assert_eq!(SigningKey::load(&path).is_ok(), allowed);
    }
    let tokens = dir.path().join("tokens");
    std::fs::write(&tokens, "a-plain-token-that-is-long hall reply\n").unwrap();
    std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o644)).unwrap();
    let fault = StaticTokens::load(&tokens).unwrap_err();
    assert_eq!(fault, TokenFileError::File(KeyFileError::TooOpen(0o644)));
    assert_eq!(fault.to_string(), "is open to other users (mode 644); close it with chmod 600");
    std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(StaticTokens::load(&tokens).unwrap().len(), 1);
}
