//! The scripts of the page: their types, their size, and what they may import.

use std::io::Write;
use std::process::{Command, Stdio};

use aaep_test::root;

use crate::generated::sources;
use crate::npm::modules;

/// The most bytes that a browser loads, compressed.
const MAX_COMPRESSED_BYTES: usize = 60 * 1024;

#[test]
fn types_are_correct() {
    let checker = modules().join("typescript/bin/tsc");
    let output = Command::new("node")
        .arg(checker)
        .arg("-p")
        .arg(root().join("crates/aaep-server/page/tsconfig.json"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn compressed(text: &[u8]) -> usize {
    let mut gzip =
        Command::new("gzip").args(["-9", "-c"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = gzip.stdin.take().unwrap();
    let text = text.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&text).unwrap());
    let size = gzip.wait_with_output().unwrap().stdout.len();
    writer.join().unwrap();
    size
}

#[test]
fn scripts_are_small() {
    let scripts = sources().into_iter().filter(|(name, _)| name.ends_with(".js"));
    let own: usize = scripts.map(|(_, text)| compressed(text.as_bytes())).sum();
    let generated = root().join("crates/aaep-server/page/generated");
    let size = |name: &str| compressed(&std::fs::read(generated.join(name)).unwrap());
    let languages = ["en", "es", "fr", "de", "ar", "yo"].map(|language| size(&format!("phrases_{language}.js")));
    let total = own + size("look_alikes.js") + languages.iter().max().unwrap();
    println!("{total} bytes, compressed file by file");
    assert!(total < MAX_COMPRESSED_BYTES, "{total}");
}

#[test]
fn client_imports_nothing_of_the_page() {
    let directory = root().join("crates/aaep-server/page/client");
    let mut imports = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for rest in text.split(" from \"").skip(1).chain(text.split("import(\"").skip(1)) {
            let module = rest.split('"').next().unwrap();
            assert!(module.starts_with("./"), "{module}");
            imports += 1;
        }
    }
    assert!(imports > 8, "{imports}");
}
