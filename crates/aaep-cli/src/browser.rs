//! Opens an address in the user's browser.

use std::process::{Command, Stdio};

use crate::output::print_error;

/// Opens an address in the default browser. If that fails, says so and goes on: the address was printed.
pub(crate) fn open_browser(url: &str) {
    let mut command = if cfg!(target_os = "macos") {
        Command::new("open")
    } else if cfg!(windows) {
        let mut command = Command::new("rundll32");
        command.arg("url.dll,FileProtocolHandler");
        command
    } else {
        Command::new("xdg-open")
    };
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        // The browser may run for as long as it likes, so another thread waits for it.
        Ok(mut browser) => drop(std::thread::spawn(move || browser.wait())),
        Err(error) => print_error(format_args!("cannot open a browser: {error}; open {url} yourself")),
    }
}
