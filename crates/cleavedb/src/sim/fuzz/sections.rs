//! The sections of a manifest edit, each by its component, on arbitrary bytes.

use crate::base::section::{Section, SectionTag};
use crate::deltas::edit::DeltasEdit;
use crate::engine::catalogue::KeyspaceEdit;
use crate::engine::lane::JournalEdit;
use crate::engine::state::EngineEdit;
use crate::index::lsm::edit::DecodedEdit;
use crate::values::drops::edit::FactsEdit;
use crate::values::edit::ValuesEdit;
use crate::values::strategy::kind::StrategyKind;

/// A section: its tag in the first byte, then its payload. What decodes is encoded and decoded
/// again and must be the same.
pub fn manifest_sections(data: &[u8]) -> bool {
    let Some((&tag, payload)) = data.split_first() else { return false };
    match SectionTag(u16::from(tag)) {
        SectionTag::ENGINE => {
            let Ok(edit) = EngineEdit::decode(payload) else { return false };
            assert_eq!(EngineEdit::decode(&edit.encode().payload).ok(), Some(edit));
        }
        SectionTag::KEYSPACES => {
            let Ok(edits) = KeyspaceEdit::decode(payload) else { return false };
            let encoded = KeyspaceEdit::encode(&edits);
            assert_eq!(KeyspaceEdit::decode(&encoded.payload).ok(), Some(edits));
        }
        SectionTag::JOURNAL => {
            let Ok(edits) = JournalEdit::decode(payload) else { return false };
            let encoded = JournalEdit::encode(&edits);
            assert_eq!(JournalEdit::decode(&encoded.payload).ok(), Some(edits));
        }
        SectionTag::VALUES => {
            let Ok(edits) = ValuesEdit::decode(payload) else { return false };
            assert_eq!(ValuesEdit::encode(&edits).payload, payload, "one encoding only");
            super::values::apply(&edits);
        }
        SectionTag::STORE => {
            let Ok(kind) = StrategyKind::decode(payload) else { return false };
            assert_eq!(kind.encode().payload, payload, "one encoding only");
        }
        SectionTag::FACTS => {
            let Ok(edit) = FactsEdit::decode(payload) else { return false };
            assert_eq!(edit.encode().payload, payload, "one encoding only");
            super::facts::apply(&edit);
        }
        SectionTag::DELTAS => {
            let Ok(edits) = DeltasEdit::decode(payload) else { return false };
            assert_eq!(DeltasEdit::encode(&edits).payload, payload, "one encoding only");
            super::buckets::apply(&edits);
        }
        tag @ SectionTag::LSM => {
            let section = Section { tag, payload: payload.to_vec() };
            let Ok(edit) = DecodedEdit::decode(&section) else { return false };
            assert_eq!(DecodedEdit::decode(&edit.encode()).ok(), Some(edit));
        }
        SectionTag::FLEX => {
            let section = [&[4], payload].concat();
            return super::flex_intervals(&section);
        }
        _ => return false,
    }
    true
}
