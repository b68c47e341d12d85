//! The `cleave` command: one thin layer over the engine's public face. Each command is a module
//! under `commands`; what they share (errors and exit codes, opening, output, bytes as text) has a
//! module each.

mod args;
mod bytes;
mod commands;
mod demo;
mod failure;
mod output;
mod progress;
mod records;
mod store;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::args::Cli;
use crate::failure::{EXIT_USAGE, Failure};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    if cli.verbose {
        trace_to_stderr();
    }
    match commands::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}

/// Prints help and version as they are, and any mistake as one line.
fn explain(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed pipe is no reason to complain.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            report(&Failure::usage("no command given; `cleave --help` lists them"))
        }
        _ => report(&Failure::usage(one_line(error))),
    }
}

/// The first paragraph of clap's message in one line, and where to read on.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let body = text.strip_prefix("error: ").unwrap_or(&text);
    let paragraph: Vec<_> =
        body.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
    let command = std::env::args()
        .skip(1)
        .find(|argument| args::is_command(argument))
        .map_or_else(|| "cleave --help".to_owned(), |name| format!("cleave {name} --help"));
    format!("{}; see `{command}`", paragraph.join(" "))
}

fn report(failure: &Failure) -> ExitCode {
    if let Some(message) = failure.message() {
        // Nothing to be done if stderr is closed; the exit code still tells.
        let _ = writeln!(std::io::stderr(), "cleave: {message}");
    }
    ExitCode::from(failure.code().min(EXIT_USAGE))
}

/// Sends the engine's events to stderr; `RUST_LOG` chooses which.
fn trace_to_stderr() {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("debug"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    tracing::debug!(version = env!("CARGO_PKG_VERSION"), "cleave started");
}
