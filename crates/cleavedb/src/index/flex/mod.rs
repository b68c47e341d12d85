//! The Flex index: all entries kept sorted in a flexible address space: the tree that maps the
//! space to where its bytes stand, its pages on disk, the space itself, and the intervals of
//! entries in it.

pub(crate) mod intervals;
pub(crate) mod pages;
pub(crate) mod space;
pub(crate) mod tree;
