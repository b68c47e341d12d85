//! `bench`: a thin front of `cleavedb-bench`.

use std::path::PathBuf;

use cleavedb_bench::{Observer, Phase, Plan, Settings, Tuning};
use indicatif::ProgressBar;

use crate::args::Bench;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::progress;

/// `cleave bench`
pub fn bench(args: Bench, json: bool) -> Result<()> {
    let dir = args.dir.clone();
    let plan = plan_of(args)?;
    // Kept until the end of the run, then removed with everything in it.
    let temporary = match &dir {
        Some(_) => None,
        None => Some(tempfile::tempdir().map_err(|error| {
            Failure::usage(format!("no temporary directory ({error}); name one for the store"))
        })?),
    };
    let store: PathBuf = match (&dir, &temporary) {
        (Some(dir), _) => dir.clone(),
        (None, Some(temporary)) => temporary.path().join("store"),
        (None, None) => return Err(Failure::usage("no directory for the store")),
    };
    let report =
        cleavedb_bench::run(&plan, &store, &mut Bars(None)).map_err(|error| match error
            .downcast_ref::<cleavedb::Error>(
        ) {
            Some(engine) => {
                Failure::from(engine.clone()).context(&format!("bench in '{}'", store.display()))
            }
            None => Failure::no(format!("{error:#}")),
        })?;
    let mut out = Output::new();
    if json {
        out.json(&report)?;
    } else {
        out.bytes(report.to_string().as_bytes())?;
    }
    out.finish()
}

fn plan_of(args: Bench) -> Result<Plan> {
    cleavedb_bench::engines::find(&args.engine)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let most = cleavedb::VALUE_BYTES_MAX;
    let value_bytes = usize::try_from(args.value_size).ok().filter(|&size| size <= most);
    let seconds = args.seconds.filter(|seconds| *seconds > 0.0);
    if seconds.is_none() && args.seconds.is_some() {
        return Err(Failure::usage("--seconds takes a number above 0"));
    }
    if args.num == 0 || args.scan_length == 0 {
        return Err(Failure::usage("--num and --scan-length take a number above 0"));
    }
    Ok(Plan {
        engine: args.engine,
        phases: Phase::parse_list(&args.phases).map_err(Failure::usage)?,
        num: args.num,
        operations: args.ops,
        key_bytes: args.key_size,
        value_bytes: value_bytes
            .ok_or_else(|| Failure::usage(format!("--value-size takes at most {most}")))?,
        threads: usize::from(args.threads),
        seconds,
        batch: args.batch as usize,
        multi_get_keys: args.multi as usize,
        seek_pairs: args.seek_next as usize,
        scan_pairs: usize::try_from(args.scan_length).unwrap_or(usize::MAX),
        seed: args.seed,
        device_bytes: args.device_bytes,
        settings: Settings {
            memory_budget: args.memory_budget,
            sync: args.sync,
            direct: args.direct,
            // As users get it.
            compressed: true,
            tuning: Tuning {
                separate_at: args.separate_at,
                strategy: args.creation.strategy,
                prefetch: args.no_prefetch.then_some(false),
                ..Tuning::default()
            },
            ..Settings::default()
        },
        ..Plan::default()
    })
}

/// One progress bar a phase.
struct Bars(Option<ProgressBar>);

impl Observer for Bars {
    fn started(&mut self, phase: Phase, steps: u64) {
        self.0 = Some(progress::steps(phase.name(), steps));
    }

    fn advanced(&mut self, steps: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(steps);
        }
    }

    fn settling(&mut self, phase: Phase) {
        if let Some(bar) = &self.0 {
            bar.set_prefix(format!("{phase} (settling)"));
        }
    }

    fn finished(&mut self, _phase: Phase) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}
