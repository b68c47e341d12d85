//! One batch of reads through one io_uring: awaited at once, or begun and awaited later.
//!
//! A ring serves one batch at a time, and one thread at a time; begun reads may move to another
//! thread.
//!
//! I1: while the kernel may write to a buffer, a [`Flight`] owns it; a flight dropped early, by an
//! error or a panic, leaks buffers and ring rather than freeing what the kernel still writes to.
//! I2: no queue entry outlives the batch it was made for, unless leaked with its ring.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;

use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;

use crate::base::marks::mark;
use crate::io::aligned::{AlignedBuffer, copy_prefix, is_direct_aligned};
use crate::io::disk::{BatchRead, DIRECT_ALIGN};
use crate::io::native::batch::read_alone;
use crate::io::native::file::direct_span;
use crate::io::native::spare;

/// Reads under way at once in one ring: past 32 the device gains little, past 128 nothing.
const DEPTH: u32 = 128;
/// Most bytes of one queue entry; the kernel takes less than 2 GiB.
const ENTRY_BYTES_MAX: usize = 1 << 30;
/// Times in a row that one read may be told to come again before that is an error.
const RETRIES_MAX: u32 = 1_000;

/// A ring, if the kernel gives one that can read.
pub(super) fn build() -> io::Result<IoUring> {
    // Completions need no interrupt of the thread: it waits in the kernel anyway.
    let ring = IoUring::builder()
        .setup_coop_taskrun()
        .build(DEPTH)
        .or_else(|_| IoUring::builder().build(DEPTH))?;
    let mut probe = io_uring::Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    if !probe.is_supported(opcode::Read::CODE) || !ring.params().is_feature_nodrop() {
        return Err(Errno::NOSYS.into());
    }
    Ok(ring)
}

/// One read on its way.
struct Slot {
    descriptor: RawFd,
    /// Where the first byte of `into` lies in the file.
    offset: u64,
    /// What the kernel writes to.
    into: Into,
    /// Bytes of `into` that have arrived.
    filled: usize,
    /// Whether offsets must stay aligned.
    direct: bool,
    retries: u32,
    result: io::Result<()>,
}

enum Into {
    /// The caller's buffer.
    Caller(Vec<u8>),
    /// An aligned buffer; the wanted bytes begin at `skip` and go to `caller`.
    Aligned { buffer: AlignedBuffer, skip: usize, caller: Vec<u8> },
}

/// What to do with a read after a completion.
#[derive(PartialEq, Eq)]
enum Next {
    Done,
    Again,
}

impl Slot {
    fn new(read: &mut BatchRead) -> Self {
        let caller = std::mem::take(&mut read.buffer);
        let direct = read.file.is_direct();
        let (into, offset) = if direct && !is_direct_aligned(&caller, read.offset) {
            let span = direct_span(read.offset, caller.len());
            let buffer = spare::take(span.len);
            (Into::Aligned { buffer, skip: span.skip, caller }, span.start)
        } else {
            (Into::Caller(caller), read.offset)
        };
        let descriptor = read.file.descriptor().unwrap_or(-1);
        Self { descriptor, offset, into, filled: 0, direct, retries: 0, result: Ok(()) }
    }

    /// The bytes still to come.
    fn rest(&mut self) -> &mut [u8] {
        let whole: &mut [u8] = match &mut self.into {
            Into::Caller(buffer) => buffer,
            Into::Aligned { buffer, .. } => buffer,
        };
        whole.get_mut(self.filled..).unwrap_or(&mut [])
    }

    /// Bytes that must arrive.
    fn needed(&self) -> usize {
        match &self.into {
            Into::Caller(buffer) => buffer.len(),
            Into::Aligned { skip, caller, .. } => skip + caller.len(),
        }
    }

    /// Takes a completion's result.
    fn complete(&mut self, result: i32) -> Next {
        match usize::try_from(result) {
            Ok(count) => {
                self.filled += count;
                self.retries = 0;
                if self.filled >= self.needed() {
                    return Next::Done;
                }
                // A direct read that ends inside a page has met the end of the file.
                if count == 0 || (self.direct && !self.filled.is_multiple_of(DIRECT_ALIGN)) {
                    self.result = Err(io::ErrorKind::UnexpectedEof.into());
                    return Next::Done;
                }
                mark!("batched_read_short");
                Next::Again
            }
            Err(_) => {
                let error = io::Error::from_raw_os_error(result.saturating_neg());
                // Cancelled: the thread that began the read has ended since.
                let again =
                    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
                        || error.raw_os_error() == Some(Errno::CANCELED.raw_os_error());
                self.retries += 1;
                if again && self.retries < RETRIES_MAX {
                    return Next::Again;
                }
                self.result = Err(error);
                Next::Done
            }
        }
    }

    /// Hands buffer and result to the caller's read.
    fn deliver(self, read: &mut BatchRead) {
        read.result = self.result;
        read.buffer = match self.into {
            Into::Caller(buffer) => buffer,
            Into::Aligned { buffer, skip, mut caller } => {
                let got = buffer.get(skip..self.filled.max(skip)).unwrap_or(&[]);
                copy_prefix(&mut caller, got);
                spare::give(buffer);
                caller
            }
        };
    }
}

/// Reads on their way, with the ring and every buffer the kernel may write to.
struct Flight {
    ring: Option<IoUring>,
    slots: Vec<Slot>,
    /// Slots to be given to the ring.
    waiting: VecDeque<usize>,
    /// Entries given to the ring whose completions have not been seen.
    under_way: usize,
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.under_way > 0 {
            // The kernel may still write: memory and ring stay for ever (I1).
            std::mem::forget(std::mem::take(&mut self.slots));
            std::mem::forget(self.ring.take());
        }
    }
}

impl Flight {
    fn new(ring: IoUring, slots: Vec<Slot>) -> Self {
        let waiting = (0..slots.len()).collect();
        Self { ring: Some(ring), slots, waiting, under_way: 0 }
    }

    /// Gives the ring what it has room for.
    fn push_waiting(&mut self) {
        let Some(ring) = self.ring.as_mut() else { return };
        while self.under_way < DEPTH as usize
            && let Some(&number) = self.waiting.front()
            && let Some(slot) = self.slots.get_mut(number)
            && push(ring, slot, number as u64)
        {
            self.under_way += 1;
            self.waiting.pop_front();
        }
    }

    /// Sets out and does not wait. An error shows again at the end.
    fn start(&mut self) {
        self.push_waiting();
        if let Some(ring) = self.ring.as_mut() {
            let _ = ring.submit();
        }
    }

    /// Runs all reads to their end.
    fn run(&mut self) -> io::Result<()> {
        loop {
            self.push_waiting();
            let Some(ring) = self.ring.as_mut() else { return Ok(()) };
            if self.under_way == 0 {
                return Ok(());
            }
            // With more to submit, come back at half to keep the device busy.
            let share = if self.waiting.is_empty() { 1 } else { 2 };
            let wanted = self.under_way.div_ceil(share);
            match ring.submit_and_wait(wanted) {
                Ok(_) => {}
                Err(e) => match Errno::from_io_error(&e) {
                    Some(Errno::INTR | Errno::AGAIN | Errno::BUSY) => {
                        crate::base::sync::thread::yield_now();
                    }
                    _ => return Err(e),
                },
            }
            for completion in ring.completion() {
                self.under_way -= 1;
                let number = completion.user_data() as usize;
                if let Some(slot) = self.slots.get_mut(number)
                    && slot.complete(completion.result()) == Next::Again
                {
                    self.waiting.push_back(number);
                }
            }
        }
    }

    /// Runs to the end and hands out what came; the ring for the next batch, or the error that
    /// ended its use. All reads are done in either case.
    fn conclude<'a>(
        mut self,
        reads: impl Iterator<Item = &'a mut BatchRead>,
        lengths: &[usize],
    ) -> io::Result<IoUring> {
        match self.run() {
            Ok(()) => {
                let slots = std::mem::take(&mut self.slots);
                for (slot, read) in slots.into_iter().zip(reads) {
                    slot.deliver(read);
                }
                self.ring.take().ok_or_else(|| Errno::BADF.into())
            }
            Err(e) => {
                drop(self);
                for (read, &len) in reads.zip(lengths) {
                    read.buffer = vec![0; len];
                    read_alone(read);
                }
                Err(e)
            }
        }
    }
}

/// Puts a read into the submission queue; false where that is full.
#[expect(unsafe_code, reason = "gives the kernel a pointer")]
fn push(ring: &mut IoUring, slot: &mut Slot, number: u64) -> bool {
    let offset = slot.offset + slot.filled as u64;
    let descriptor = types::Fd(slot.descriptor);
    let rest = slot.rest();
    let len = rest.len().min(ENTRY_BYTES_MAX) as u32;
    let entry = opcode::Read::new(descriptor, rest.as_mut_ptr(), len)
        .offset(offset)
        .build()
        .user_data(number);
    // SAFETY: the pointer is good for `len` bytes of a heap buffer that the flight owns and
    // neither touches nor moves until this entry's completion is seen; where that never comes, the
    // buffer is leaked (I1). The file is kept open by the `BatchRead`, borrowed or owned until the
    // batch ends, and from submission on by the kernel itself.
    unsafe { ring.submission().push(&entry).is_ok() }
}

/// Reads everything; gives the ring back for the next batch, or the error that ended its use. All
/// reads are done in either case.
pub(super) fn read_all(ring: IoUring, reads: &mut [&mut BatchRead]) -> io::Result<IoUring> {
    let lengths: Vec<usize> = reads.iter().map(|read| read.buffer.len()).collect();
    let slots = reads.iter_mut().map(|read| Slot::new(read)).collect();
    Flight::new(ring, slots).conclude(reads.iter_mut().map(|read| &mut **read), &lengths)
}

/// Reads that were begun in a ring.
pub(super) struct RingReads {
    flight: Flight,
    /// Without their buffers; they keep the files open.
    reads: Vec<BatchRead>,
    lengths: Vec<usize>,
}

impl RingReads {
    /// Begins the reads.
    pub(super) fn start(ring: IoUring, mut reads: Vec<BatchRead>) -> Self {
        let lengths = reads.iter().map(|read| read.buffer.len()).collect();
        let slots = reads.iter_mut().map(Slot::new).collect();
        let mut flight = Flight::new(ring, slots);
        flight.start();
        Self { flight, reads, lengths }
    }

    /// Waits for all of them; the ring as of [`read_all`].
    pub(super) fn finish(self) -> (Vec<BatchRead>, io::Result<IoUring>) {
        let Self { flight, mut reads, lengths } = self;
        let ring = flight.conclude(reads.iter_mut(), &lengths);
        (reads, ring)
    }
}

#[cfg(test)]
mod tests;
