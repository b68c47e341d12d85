//! Allocations do not overlap, are aligned, and are counted.

use super::*;

#[expect(unsafe_code, reason = "writes through addresses of the arena")]
fn fill(address: NonNull<u8>, bytes: usize, with: u8) {
    // SAFETY: the arena gave this caller `bytes` bytes at `address`.
    unsafe { address.as_ptr().write_bytes(with, bytes) };
}

#[expect(unsafe_code, reason = "reads through addresses of the arena")]
fn holds(address: NonNull<u8>, bytes: usize, what: u8) -> bool {
    // SAFETY: filled by `fill` before, and the arena is alive.
    unsafe { std::slice::from_raw_parts(address.as_ptr(), bytes) }.iter().all(|b| *b == what)
}

#[test]
fn allocations_keep_apart() {
    let arena = Arena::new();
    let sizes = [1usize, 7, 8, 40, 200, 300, 5000, 64, 1, 20_000, 3];
    let mut all = Vec::new();
    let rounds = if cfg!(miri) { 1 } else { 20 };
    for round in 0..rounds {
        for (i, bytes) in sizes.iter().enumerate() {
            let with = (round * sizes.len() + i) as u8;
            let address = arena.allocate(*bytes);
            assert_eq!(address.as_ptr() as usize % ALIGNMENT, 0);
            fill(address, *bytes, with);
            all.push((address, *bytes, with));
        }
    }
    assert!(all.iter().all(|(address, bytes, with)| holds(*address, *bytes, *with)));
}

#[test]
fn a_small_arena_stays_small_and_a_large_one_wastes_little() {
    let arena = Arena::new();
    assert_eq!(arena.memory_bytes(), 0);
    arena.allocate(100);
    assert!(arena.memory_bytes() <= BLOCK_BYTES_MIN + 128, "{}", arena.memory_bytes());
    let mut asked = 104;
    let enough = if cfg!(miri) { 1 << 16 } else { 3 << 20 };
    while asked < enough {
        arena.allocate(104);
        asked += 104;
    }
    let held = arena.memory_bytes();
    assert!(held >= asked && held < asked + asked / 4 + 2048, "{held} for {asked}");
}

#[test]
fn a_large_value_does_not_cost_the_current_block() {
    let arena = Arena::new();
    let first = arena.allocate(8);
    arena.allocate(1 << 16);
    let second = arena.allocate(8);
    assert_eq!(second.as_ptr() as usize - first.as_ptr() as usize, 8);
}

#[test]
fn threads_get_memory_of_their_own() {
    let arena = Arena::new();
    let rounds = if cfg!(miri) { 50 } else { 5000 };
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let arena = &arena;
            scope.spawn(move || {
                let all: Vec<_> = (0..rounds)
                    .map(|i| {
                        let bytes = 1 + i % 90;
                        let address = arena.allocate(bytes);
                        fill(address, bytes, thread);
                        (address, bytes)
                    })
                    .collect();
                assert!(all.iter().all(|(address, bytes)| holds(*address, *bytes, thread)));
            });
        }
    });
}
