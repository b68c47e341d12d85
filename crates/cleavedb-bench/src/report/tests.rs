//! Figures as people read them.

use super::*;

#[test]
fn bytes_read_well() {
    let shown: Vec<_> = [0, 1023, 1024, 1536, 256 << 20, 3 << 40].map(bytes).into();
    assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "256.0 MiB", "3.0 TiB"]);
}
