//! Validators of others accept the OpenAPI and AsyncAPI documents.

use std::path::Path;
use std::process::Command;

use aaep_test::{prepare_once, python, root};
use serde_json::Value;

const OPENAPI_VALIDATOR: &str = "openapi-spec-validator==0.9.0";

/// The package of the official schemas of AsyncAPI.
const ASYNCAPI_SCHEMAS: &str = "https://registry.npmjs.org/@asyncapi/specs/-/specs-6.11.1.tgz";

#[test]
fn openapi_document_is_valid() {
    let python = python(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi"), &[OPENAPI_VALIDATOR]);
    let validate = |path: &Path| {
        let mut command = Command::new(&python);
        let output = command.args(["-m", "openapi_spec_validator", "--schema", "3.1"]).arg(path).output().unwrap();
        (output.status.success(), format!("{output:?}"))
    };
    let path = root().join("schemas/openapi.json");
    let (is_valid, output) = validate(&path);
    assert!(is_valid, "{output}");

    let broken = std::fs::read_to_string(&path).unwrap().replace("\"operationId\": \"reply\"", "\"operationId\": 7");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("broken.json");
    std::fs::write(&path, broken).unwrap();
    assert!(!validate(&path).0, "the validator finds mistakes");
}

#[test]
fn asyncapi_document_is_valid() {
    let below = Path::new(env!("CARGO_TARGET_TMPDIR")).join("asyncapi");
    prepare_once(&below, ASYNCAPI_SCHEMAS, || {
        let archive = below.join("specs.tgz");
        let fetch = ["--silent", "--show-error", "--fail", "--location", "--retry", "3", "--output"];
        let fetched = Command::new("curl").args(fetch).arg(&archive).arg(ASYNCAPI_SCHEMAS).status().unwrap();
        assert!(fetched.success(), "this test needs the npm registry");
        let unpacked = Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(&below).status().unwrap();
        assert!(unpacked.success());
    });
    let read = |path: &Path| serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap();
    let schema = jsonschema::draft7::new(&read(&below.join("package/schemas/3.0.0-without-$id.json"))).unwrap();
    let document = read(&root().join("schemas/asyncapi.json"));
    let errors: Vec<String> =
        schema.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");

    let mut broken = document;
    broken["operations"]["streamEvents"]["action"] = "whisper".into();
    assert!(!schema.is_valid(&broken), "the schema finds mistakes");
}
