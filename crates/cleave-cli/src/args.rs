//! The command line: every command, option and example.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use cleavedb::{Deltas, StrategyKind};

use crate::bytes::{parse_count, parse_size};
use crate::store::DEFAULT_KEYSPACE;

/// An embedded, ordered key-value store.
#[derive(Parser)]
#[command(
    name = "cleave",
    version,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        cleave put /tmp/store hello world\n  \
        cleave get /tmp/store hello\n  \
        cleave demo\n\n\
        Exit codes: 0 done; 1 the answer is no (missing key, damage found) or it failed; 2 wrong \
        call, no store there, or store in use."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Print JSON for programs instead of text for people.
    #[arg(long, global = true)]
    pub json: bool,
    /// Print the engine's events on stderr; RUST_LOG chooses which.
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// Whether a word is the name of a command.
pub fn is_command(word: &str) -> bool {
    Cli::command().get_subcommands().any(|command| command.get_name() == word)
}

/// Every command.
#[derive(Subcommand)]
pub enum Command {
    /// Store a value under a key, durably; creates the store and the keyspace.
    #[command(after_help = "Example:\n  cleave put /tmp/store user:1 Ada\n  \
        cleave put /tmp/store photo --file photo.jpg")]
    Put(Put),
    /// Print the value of a key; exit code 1 if there is none.
    #[command(after_help = "Example:\n  cleave get /tmp/store user:1\n  \
        cleave get /tmp/store visits --as u64")]
    Get(Get),
    /// Delete a key, durably; exit code 1 if there is none.
    #[command(after_help = "Example:\n  cleave del /tmp/store user:1")]
    Del(Del),
    /// Merge an operand into the value of a key, durably; creates the store and the keyspace.
    #[command(after_help = "Example:\n  cleave merge /tmp/store visits 1 --operator u64-add \
        --keyspace counters\n\n\
        Operators: u64-add, i64-add, u64-max, u64-min (OPERAND in decimal), append and \
        append:SEPARATOR, json-merge-patch (OPERAND as it is), set-union (OPERAND is one member), \
        patch (OPERAND is OFFSET:BYTES). With --hex the operand's encoded bytes are given.")]
    Merge(Merge),
    /// Print pairs in key order, as `key TAB value` with escapes (\t \n \r \\ \xHH), or as JSON
    /// lines.
    #[command(after_help = "Example:\n  cleave scan /tmp/store --prefix user: --limit 10\n  \
        cleave scan /tmp/store --from a --to m --reverse --json")]
    Scan(Scan),
    /// Count the keys of a range.
    #[command(after_help = "Example:\n  cleave count /tmp/store --prefix user:")]
    Count(Count),
    /// Load pairs from JSON lines, TSV, or the files of a folder; creates the store.
    #[command(after_help = "Example:\n  cleave load /tmp/store pairs.jsonl\n  \
        cleave load /tmp/store pairs.tsv --keyspace users\n  \
        cleave load /tmp/store ./photos\n\n\
        JSON lines are {\"key\":\"..\",\"value\":\"..\"}, with key_hex and value_hex for bytes \
        that are not UTF-8. TSV lines are key, tab, value with the escapes \\t \\n \\r \\\\ \\xHH. \
        Of lines with the same key the last wins. A folder is stored as relative path -> bytes.")]
    Load(Load),
    /// Write all pairs as JSON lines or TSV, in the form that load reads.
    #[command(after_help = "Example:\n  cleave export /tmp/store pairs.jsonl\n  \
        cleave export /tmp/store --format tsv | gzip > pairs.tsv.gz")]
    Export(Export),
    /// Print sizes, amplification, memory, levels, latencies.
    #[command(after_help = "Example:\n  cleave stats /tmp/store --json")]
    Stats(Directory),
    /// Check every byte of every file and print the findings; exit code 1 if there are any.
    #[command(after_help = "Example:\n  cleave verify /tmp/store")]
    Verify(Directory),
    /// Compact a keyspace, or a range of it, to its bottom level.
    #[command(after_help = "Example:\n  cleave compact /tmp/store\n  \
        cleave compact /tmp/store --from a --to m")]
    Compact(Compact),
    /// Give back the room of values that were overwritten or deleted, now.
    #[command(after_help = "Example:\n  cleave reclaim /tmp/store --seconds 60")]
    Reclaim(Reclaim),
    /// Make a copy that is a store of its own (hard links where possible).
    #[command(after_help = "Example:\n  cleave checkpoint /tmp/store /tmp/copy")]
    Checkpoint(Checkpoint),
    /// List, create or drop keyspaces.
    #[command(after_help = "Example:\n  cleave keyspace list /tmp/store\n  \
        cleave keyspace create /tmp/store counters --operator u64-add\n  \
        cleave keyspace drop /tmp/store counters")]
    Keyspace(Keyspace),
    /// Print a file of a store, or all of them, annotated; read-only, also when damaged.
    #[command(after_help = "Example:\n  cleave dump /tmp/store\n  \
        cleave dump /tmp/store/CURRENT")]
    Dump(Dump),
    /// Measure: fills, reads, scans, deletes, merges, YCSB A to F, the device itself.
    #[command(after_help = "Example:\n  cleave bench /tmp/bench --phases fillrandom,readrandom \
        --num 1M --value-size 1000\n  cleave bench --phases device,fillrandom,ycsb --json\n\n\
        Phases: device, fillseq, fillrandom, overwrite, readrandom, readmissing, multiget, \
        seekrandom, seekreverse, scan, scanreverse, mergerandom, deleterandom, ycsb-a to ycsb-f; \
        all, usual and ycsb stand for several.")]
    Bench(Bench),
    /// Store a folder of real files, read it back and compare, change it, kill a writer, recover,
    /// verify; prints a table of speed and space. Exit code 1 on any difference.
    #[command(after_help = "Example:\n  cleave demo\n  \
        cleave demo ~/photos --max-bytes 200MiB --dir /tmp/demo-store")]
    Demo(Demo),
    /// Part of demo: writes until it is killed.
    #[command(hide = true)]
    DemoWriter(DemoWriter),
}

/// A store and nothing else.
#[derive(Args)]
pub struct Directory {
    /// Directory of the store.
    pub dir: PathBuf,
}

/// A keyspace of a store.
#[derive(Args)]
pub struct Place {
    /// Directory of the store.
    pub dir: PathBuf,
    /// Keyspace to use.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_KEYSPACE)]
    pub keyspace: String,
    /// Take and print keys and values as hexadecimal digits.
    #[arg(long)]
    pub hex: bool,
}

/// What is fixed when a store is created.
#[derive(Args)]
pub struct Creation {
    /// How the store keeps, finds and collects values in value files; for a new store `unified` if
    /// not given, and an existing one must have been created with it.
    #[arg(long, value_name = "NAME", value_parser = strategies())]
    pub strategy: Option<StrategyKind>,
}

/// Takes the names of strategies, and no other ones.
fn strategies() -> impl TypedValueParser<Value = StrategyKind> {
    let names = StrategyKind::ALL.map(StrategyKind::name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<StrategyKind>())
}

/// Takes `inline` and `buckets`.
fn delta_places() -> impl TypedValueParser<Value = Deltas> {
    PossibleValuesParser::new(["inline", "buckets"]).map(|place| match place.as_str() {
        "buckets" => Deltas::Buckets,
        _ => Deltas::Inline,
    })
}

/// A range of keys; everything if no bound is given.
#[derive(Args)]
pub struct Bounds {
    /// Only keys that begin with this.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
    #[arg(allow_negative_numbers = true)]
    pub prefix: Option<OsString>,
    /// Only keys from this one on.
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub from: Option<OsString>,
    /// Only keys below this one.
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub to: Option<OsString>,
}

/// `put`
#[derive(Args)]
pub struct Put {
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub creation: Creation,
    /// Key. After `--` it may begin with a dash.
    #[arg(allow_negative_numbers = true)]
    pub key: OsString,
    /// Value.
    #[arg(allow_negative_numbers = true, required_unless_present = "file")]
    pub value: Option<OsString>,
    /// Take the value from a file, `-` for standard input.
    #[arg(long, conflicts_with = "value", value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// How `get` prints a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ValueForm {
    /// The bytes as they are.
    Bytes,
    /// Eight bytes, little-endian, as an unsigned number.
    U64,
    /// Eight bytes, little-endian, as a signed number.
    I64,
    /// A set of the set-union operator, one member a line, escaped.
    Set,
}

/// `get`
#[derive(Args)]
pub struct Get {
    #[command(flatten)]
    pub place: Place,
    /// Key.
    #[arg(allow_negative_numbers = true)]
    pub key: OsString,
    /// What the value is.
    #[arg(long = "as", value_enum, default_value = "bytes", conflicts_with = "hex")]
    pub form: ValueForm,
    /// Print no newline after the value.
    #[arg(long)]
    pub raw: bool,
}

/// `del`
#[derive(Args)]
pub struct Del {
    #[command(flatten)]
    pub place: Place,
    /// Key.
    #[arg(allow_negative_numbers = true)]
    pub key: OsString,
}

/// `merge`
#[derive(Args)]
pub struct Merge {
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub creation: Creation,
    /// Key.
    #[arg(allow_negative_numbers = true)]
    pub key: OsString,
    /// Operand, in the form its operator takes.
    #[arg(allow_negative_numbers = true)]
    pub operand: OsString,
    /// Merge operator; needed when the keyspace is new.
    #[arg(long, value_name = "NAME")]
    pub operator: Option<String>,
    /// Where a new keyspace keeps its merge operands once they are flushed.
    #[arg(long, value_name = "PLACE", value_parser = delta_places())]
    pub deltas: Option<Deltas>,
}

/// `scan`
#[derive(Args)]
pub struct Scan {
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub bounds: Bounds,
    /// From the last key downwards.
    #[arg(long)]
    pub reverse: bool,
    /// Print at most so many pairs.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Print keys only; no value is read.
    #[arg(long)]
    pub keys_only: bool,
}

/// `count`
#[derive(Args)]
pub struct Count {
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub bounds: Bounds,
}

/// What `load` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoadFormat {
    /// A JSON object a line.
    Jsonl,
    /// Key, tab, value.
    Tsv,
    /// The files of a folder.
    Folder,
}

/// `load`
#[derive(Args)]
pub struct Load {
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub creation: Creation,
    /// File or folder; `-` for standard input.
    pub source: PathBuf,
    /// Form of the source; told from its name (.jsonl, .ndjson, .json, .tsv) if not given.
    #[arg(long, value_enum)]
    pub format: Option<LoadFormat>,
}

/// What `export` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// A JSON object a line.
    Jsonl,
    /// Key, tab, value.
    Tsv,
}

/// `export`
#[derive(Args)]
pub struct Export {
    #[command(flatten)]
    pub place: Place,
    /// File to write, whole or not at all; standard output if not given or `-`. A device or pipe
    /// is written into, and of a link the target is replaced.
    pub file: Option<PathBuf>,
    /// Form to write; told from the file's name if not given, else JSON lines.
    #[arg(long, value_enum)]
    pub format: Option<ExportFormat>,
}

/// `compact`
#[derive(Args)]
pub struct Compact {
    /// Directory of the store.
    pub dir: PathBuf,
    /// Keyspace to compact; all of them if not given and no range is named.
    #[arg(long, value_name = "NAME")]
    pub keyspace: Option<String>,
    /// Take keys as hexadecimal digits.
    #[arg(long)]
    pub hex: bool,
    /// Only keys from this one on.
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub from: Option<OsString>,
    /// Only keys below this one.
    #[arg(long, value_name = "KEY", allow_negative_numbers = true)]
    pub to: Option<OsString>,
}

/// `reclaim`
#[derive(Args)]
pub struct Reclaim {
    /// Directory of the store.
    pub dir: PathBuf,
    /// Stop after so many seconds; what is left the store does by and by.
    #[arg(long, value_name = "N")]
    pub seconds: Option<u64>,
}

/// `checkpoint`
#[derive(Args)]
pub struct Checkpoint {
    /// Directory of the store.
    pub dir: PathBuf,
    /// Directory of the copy; must not exist.
    pub target: PathBuf,
}

/// `keyspace`
#[derive(Args)]
pub struct Keyspace {
    /// `list DIR`, `create DIR NAME` or `drop DIR NAME` (the directory may also come first).
    #[arg(required = true, num_args = 2..=3, value_name = "ACTION DIR NAME")]
    pub words: Vec<OsString>,
    /// Merge operator of a keyspace to create.
    #[arg(long, value_name = "NAME")]
    pub operator: Option<String>,
    /// Where a keyspace to create keeps its merge operands once they are flushed.
    #[arg(long, value_name = "PLACE", value_parser = delta_places())]
    pub deltas: Option<Deltas>,
}

/// `dump`
#[derive(Args)]
pub struct Dump {
    /// File of a store, or the store's directory.
    pub path: PathBuf,
}

/// `bench`
#[derive(Args)]
pub struct Bench {
    /// Directory of the store, kept afterwards; a temporary one if not given.
    pub dir: Option<PathBuf>,
    /// Phases in order, separated by commas.
    #[arg(long, default_value = "usual")]
    pub phases: String,
    /// Pairs that the fill phases store.
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    pub num: u64,
    /// Operations of each other phase; one a pair if not given (a tenth for seeks).
    #[arg(long, value_parser = parse_count)]
    pub ops: Option<u64>,
    /// Bytes of each key: 16 to 48.
    #[arg(long, default_value = "16", value_parser = cleavedb_bench::data::parse_key_bytes)]
    pub key_size: usize,
    /// Bytes of each value.
    #[arg(long, default_value = "100", value_parser = parse_size)]
    pub value_size: u64,
    /// Threads that work at the same time.
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: u16,
    /// Longest time of one phase; loads run to their end.
    #[arg(long, allow_negative_numbers = true)]
    pub seconds: Option<f64>,
    /// Writes committed together.
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: u32,
    /// Every write is on the device before it is acknowledged.
    #[arg(long)]
    pub sync: bool,
    /// Seed of keys, values and choices.
    #[arg(long, default_value = "1")]
    pub seed: u64,
    /// Memory of the engine, caches included.
    #[arg(long, visible_alias = "cache", default_value = "256MiB", value_parser = parse_size)]
    pub memory_budget: u64,
    /// Read and write data files past the page cache.
    #[arg(long)]
    pub direct: bool,
    /// Keep values of so many bytes and more in value files.
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub separate_at: Option<u64>,
    #[command(flatten)]
    pub creation: Creation,
    /// Let scans read values in value files one at a time.
    #[arg(long)]
    pub no_prefetch: bool,
    /// Keys fetched together by multiget.
    #[arg(long, default_value = "32", value_parser = clap::value_parser!(u32).range(1..))]
    pub multi: u32,
    /// Pairs read after each seek of seekrandom and seekreverse.
    #[arg(long, default_value = "50", value_parser = clap::value_parser!(u32).range(1..))]
    pub seek_next: u32,
    /// Pairs in one run of scan and scanreverse.
    #[arg(long, default_value = "10k", value_parser = parse_count)]
    pub scan_length: u64,
    /// Size of the device probe's file.
    #[arg(long, default_value = "512MiB", value_parser = parse_size)]
    pub device_bytes: u64,
    /// Engine to measure.
    #[arg(long, default_value = "cleavedb")]
    pub engine: String,
}

/// `demo`
#[derive(Args)]
pub struct Demo {
    /// Folder of files to store; the repository around the current directory if not given.
    pub folder: Option<PathBuf>,
    /// Directory of the last store, kept afterwards and not there before; a temporary one if not
    /// given. Its strategy is the one of --strategy; the stores before show the others.
    #[arg(long, value_name = "STORE")]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub creation: Creation,
    /// Take files until they have so many bytes.
    #[arg(long, default_value = "1GiB", value_parser = parse_size)]
    pub max_bytes: u64,
    /// Memory of the engine, caches included.
    #[arg(long, default_value = "256MiB", value_parser = parse_size)]
    pub memory_budget: u64,
    /// Times that a writing process is killed.
    #[arg(long, default_value = "3")]
    pub kills: u32,
}

/// `demo-writer`
#[derive(Args)]
pub struct DemoWriter {
    /// Directory of the store.
    pub dir: PathBuf,
    /// Number of the first batch.
    pub first: u64,
    /// Seed of the values' sizes.
    pub seed: u64,
}
