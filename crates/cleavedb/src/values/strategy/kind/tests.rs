//! How the strategy of a store is recorded.

use super::*;

#[test]
fn what_is_recorded_is_read_again_and_nothing_else() {
    for kind in StrategyKind::ALL {
        let section = kind.encode();
        assert_eq!(StrategyKind::decode(&section.payload).unwrap(), kind);
        assert_eq!(kind.name().parse::<StrategyKind>().unwrap(), kind);
        assert_eq!(kind.strategy().name(), kind.to_string());
    }
    let error = |payload: &[u8]| StrategyKind::decode(payload).unwrap_err().kind();
    assert_eq!(error(&[2, 1]), ErrorKind::Unsupported);
    assert_eq!(error(&[1, 0]), ErrorKind::Unsupported);
    assert_eq!(error(&[1, 9]), ErrorKind::Unsupported);
    assert_eq!(error(&[1, 1, 0]), ErrorKind::Corruption);
    assert_eq!(error(&[1]), ErrorKind::Corruption);
    assert_eq!("lsm".parse::<StrategyKind>().unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn numbers_on_disk_stay() {
    assert_eq!(StrategyKind::Wisckey.encode().payload, [1, 1]);
    assert_eq!(StrategyKind::Novkv.encode().payload, [1, 2]);
}
