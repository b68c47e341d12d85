//! The Flex index: all entries kept sorted in a flexible address space. So far only the tree that
//! maps the space to where its bytes stand; nothing uses it yet.

pub(crate) mod tree;
