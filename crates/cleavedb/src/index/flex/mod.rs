//! The Flex index: all entries kept sorted in a flexible address space. So far only the tree that
//! maps the space to where its bytes stand, its pages on disk, and the space itself; nothing uses
//! them yet.

pub(crate) mod pages;
pub(crate) mod space;
pub(crate) mod tree;
