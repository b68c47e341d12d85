//! What other processes take of the processors, from the kernel's accounts: everything that ran
//! on the machine less what this process, the children it waited for, and threads of the kernel
//! ran. Those write back what the engines wrote; who else writes shows by a process of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// How many of the others are named.
const NAMED_MAX: usize = 3;

/// Watches the machine.
#[derive(Debug)]
pub struct Others {
    since: Instant,
    ticks: Ticks,
    busiest: Vec<(String, f64)>,
}

impl Others {
    /// Starts to watch.
    #[must_use]
    pub fn watch() -> Self {
        Self { since: Instant::now(), ticks: Ticks::now(), busiest: Vec::new() }
    }

    /// The share of one processor since the last call.
    pub fn share(&mut self) -> f64 {
        let (now, ticks) = (Instant::now(), Ticks::now());
        let busy = ticks.busy.saturating_sub(self.ticks.busy);
        let others = busy.saturating_sub(ticks.own.saturating_sub(self.ticks.own));
        let seconds = now.duration_since(self.since).as_secs_f64().max(1e-9);
        let in_a_second = rustix::param::clock_ticks_per_second() as f64 * seconds;
        let grown = ticks.grown(&self.ticks).into_iter();
        self.busiest = grown.map(|(name, ticks)| (name, ticks as f64 / in_a_second)).collect();
        self.busiest.truncate(NAMED_MAX);
        (self.since, self.ticks) = (now, ticks);
        others as f64 / in_a_second
    }

    /// Who took most of it, in words.
    #[must_use]
    pub fn busiest(&self) -> String {
        let named = self.busiest.iter().map(|(name, share)| format!("{name} {share:.2}"));
        let named: Vec<_> = named.collect();
        if named.is_empty() { "nobody who is still there".to_owned() } else { named.join(", ") }
    }
}

/// Accounts of the kernel at one moment.
#[derive(Debug, Default)]
struct Ticks {
    /// All processors.
    busy: u64,
    /// This process, its dead children and the kernel's threads.
    own: u64,
    /// Taken from this machine by its host.
    stolen: u64,
    /// Other processes by number, with their dead children.
    others: BTreeMap<u32, (String, u64)>,
}

impl Ticks {
    fn now() -> Self {
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let all = read(Path::new("/proc/stat"));
        let mut ticks = Self {
            busy: busy_ticks(&all, &[0, 1, 2, 5, 6, 7]),
            own: own_ticks(&read(Path::new("/proc/self/stat"))),
            stolen: busy_ticks(&all, &[7]),
            others: BTreeMap::new(),
        };
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            let Some(number) = number else { continue };
            let text = read(&entry.path().join("stat"));
            ticks.own += kernel_ticks(&text);
            if number != std::process::id() && !is_of_kernel(&text) {
                ticks.others.insert(number, (name_of(&text), own_ticks(&text)));
            }
        }
        ticks
    }

    /// Who has more than before, the most first.
    fn grown(&self, before: &Self) -> Vec<(String, u64)> {
        let mut grown: Vec<_> = self
            .others
            .iter()
            .map(|(number, (name, ticks))| {
                let earlier = before.others.get(number).map_or(0, |(_, ticks)| *ticks);
                (format!("{name} ({number})"), ticks.saturating_sub(earlier))
            })
            .chain([("the machine's host".to_owned(), self.stolen.saturating_sub(before.stolen))])
            .filter(|(_, ticks)| *ticks > 0)
            .collect();
        grown.sort_by_key(|(_, ticks)| std::cmp::Reverse(*ticks));
        grown
    }
}

/// From `/proc/stat`: the sum of some fields of the line of all processors: user, nice, system,
/// idle, waiting, irq, softirq and steal.
fn busy_ticks(text: &str, fields: &[usize]) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let all: Vec<u64> = line.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    fields.iter().filter_map(|&place| all.get(place)).sum()
}

/// From `/proc/N/stat`: user and system ticks, own and of children.
fn own_ticks(text: &str) -> u64 {
    let fields = fields_after_name(text);
    [11, 12, 13, 14].into_iter().filter_map(|place| fields.get(place)?.parse::<u64>().ok()).sum()
}

/// The flag of a process that is a thread of the kernel (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// From `/proc/N/stat`: whether this is a thread of the kernel, or nothing at all.
fn is_of_kernel(text: &str) -> bool {
    let flags = fields_after_name(text).get(6).and_then(|field| field.parse::<u64>().ok());
    flags.is_none_or(|flags| flags & KERNEL_THREAD != 0)
}

/// From `/proc/N/stat`: ticks of a thread of the kernel, none of any other process.
fn kernel_ticks(text: &str) -> u64 {
    if is_of_kernel(text) { own_ticks(text) } else { 0 }
}

/// The fields from the state on; the name in brackets before may hold anything.
fn fields_after_name(text: &str) -> Vec<&str> {
    text.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default().split_whitespace().collect()
}

fn name_of(text: &str) -> String {
    let name = text.rsplit_once(')').and_then(|(front, _)| front.split_once('('));
    name.map(|(_, name)| name).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
