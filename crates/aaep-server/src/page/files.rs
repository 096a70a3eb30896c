//! The files of the page, as they are in `page/`.

/// A file that is part of the program.
pub(super) struct PageFile {
    /// Where it is served.
    pub(super) path: &'static str,
    pub(super) bytes: &'static [u8],
}

impl PageFile {
    /// Returns its media type, by its name.
    pub(super) fn media_type(&self) -> &'static str {
        match self.path.rsplit('.').next() {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/html; charset=utf-8",
        }
    }
}

/// Embeds files of `page/` that are served below `/page/`.
macro_rules! page_files {
    ($($name:literal),* $(,)?) => {
        &[
            PageFile { path: "/", bytes: include_bytes!("../../page/index.html") },
            $(PageFile {
                path: concat!("/page/", $name),
                bytes: include_bytes!(concat!("../../page/", $name)),
            }),*
        ]
    };
}

/// All files of the page.
pub(super) const FILES: &[PageFile] = page_files![
    "style.css",
    "icon.svg",
    "app.js",
    "announcer.js",
    "captions.js",
    "deception.js",
    "demo.js",
    "dom.js",
    "inspector.js",
    "operator.js",
    "phrases.js",
    "plot.js",
    "question_dialog.js",
    "question_form.js",
    "question_list.js",
    "question_text.js",
    "schema.js",
    "settings.js",
    "settings_view.js",
    "sign_in.js",
    "speakable.js",
    "tabs.js",
    "texts.js",
    "transcript.js",
    "transcript_store.js",
    "utterances.js",
    "client/client.js",
    "client/index.js",
    "client/messages.js",
    "client/order.js",
    "client/prompts.js",
    "client/sse.js",
    "client/transports.js",
    "generated/look_alikes.js",
    "generated/phrases_ar.js",
    "generated/phrases_de.js",
    "generated/phrases_en.js",
    "generated/phrases_es.js",
    "generated/phrases_fr.js",
    "generated/phrases_yo.js",
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn names(directory: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            match entry.file_type().unwrap().is_dir() {
                true => names(&entry.path(), &format!("{name}/"), found),
                false => found.push(name),
            }
        }
    }

    #[test]
    fn every_file_of_the_directory_is_served() {
        let mut found = Vec::new();
        names(&Path::new(env!("CARGO_MANIFEST_DIR")).join("page"), "/page/", &mut found);
        // For the type checker alone.
        found.retain(|name| name != "/page/tsconfig.json" && name != "/page/globals.d.ts");
        let mut served: Vec<&str> =
            FILES.iter().map(|file| if file.path == "/" { "/page/index.html" } else { file.path }).collect();
        found.sort();
        served.sort_unstable();
        assert_eq!(found, served);
    }
}
