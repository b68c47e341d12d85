//! The commands, one module for each family.

mod bench;
mod dump;
mod export;
mod keyspace;
mod load;
mod maintain;
mod operands;
mod point;
mod scan;
mod stats;

use crate::args::{Cli, Command};
use crate::failure::Result;

/// Runs the command that was given.
pub fn run(cli: Cli) -> Result<()> {
    let json = cli.json;
    match cli.command {
        Command::Put(args) => point::put(args, json),
        Command::Get(args) => point::get(&args, json),
        Command::Del(args) => point::del(&args, json),
        Command::Merge(args) => point::merge(&args, json),
        Command::Scan(args) => scan::scan(&args, json),
        Command::Count(args) => scan::count(&args, json),
        Command::Load(args) => load::load(&args, json),
        Command::Export(args) => export::export(&args, json),
        Command::Stats(args) => stats::stats(&args.dir, json),
        Command::Verify(args) => maintain::verify(&args.dir, json),
        Command::Compact(args) => maintain::compact(&args, json),
        Command::Reclaim(args) => maintain::reclaim(&args, json),
        Command::Checkpoint(args) => maintain::checkpoint(&args, json),
        Command::Keyspace(args) => keyspace::keyspace(&args, json),
        Command::Dump(args) => dump::dump(&args.path),
        Command::Bench(args) => bench::bench(args, json),
        Command::Demo(args) => crate::demo::demo(args, json),
        Command::DemoWriter(args) => crate::demo::write_until_killed(&args),
    }
}
