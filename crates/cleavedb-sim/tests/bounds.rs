//! Memory, open files and disk space; alone in its process, since it counts every allocation.

use cleavedb_sim::allocator::Counting;
use cleavedb_sim::family;
use cleavedb_sim::harness::Budget;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_load_of_twenty_budgets_stays_within_them() {
    match family::bounds(&Budget::from_environment(0), 8 << 20, 20) {
        Ok(figure) => println!("bounds: {figure}"),
        Err(violation) => panic!("bounds: {violation}"),
    }
}
