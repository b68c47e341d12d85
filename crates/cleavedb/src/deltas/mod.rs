//! Delta store: merge operands outside the index. Until it exists, operands stay in the index.
