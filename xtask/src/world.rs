//! The targets of the world tier: regions of real processes around one database.

use crate::instructions::bench_program;
use crate::measured::{Length, Printed};
use crate::report;

/// A package's benchmark, its targets, and about how many seconds each takes.
type Programs = &'static [(&'static str, &'static str, &'static [(u8, u32)])];
const PROGRAMS: Programs = &[
    ("tidegate", "world", &[(1, 250), (2, 60), (3, 45), (4, 420), (5, 100), (7, 115)]),
    ("tidegate-world", "store", &[(6, 150), (9, 30)]),
];
const WITH: &str = "Measured with real processes: three regions of two nodes of the release binary, a \
                    `redis-server` for each region, one `mariadbd`, and a proxy on every way to it, all on one \
                    machine. The proxies delay what passes by 0, 30 and 75 ms in each direction: the database is \
                    0, 60 and 150 ms away. Targets 6 and 9 are the store's alone, without a network between.";

pub(crate) fn measure(length: Length) -> Result<(), String> {
    let mut printed = Printed::default();
    for (package, benchmark, bars) in PROGRAMS {
        let program = bench_program(package, benchmark)?;
        printed.run(&program, bars, length)?;
    }
    let text = printed.table(WITH, length);
    println!("{text}");
    report::write("world", &text)
}
