//! The Flex index: all entries kept sorted in a flexible address space. So far only the tree that
//! maps the space to where its bytes stand, and how it is kept on disk; nothing uses it yet.

pub(crate) mod pages;
pub(crate) mod tree;
