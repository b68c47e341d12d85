//! One entry in the arena: header, tower of links, key and value, one after the other.
//!
//! A [`Node`] borrows the list it belongs to. N1: a `Node<'a>` points to a node that was written in
//! full into an arena which lives at least for `'a`. Whoever makes one from an address promises
//! N1; everything else here follows from it.

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::base::entry::{Kind, Seq};
use crate::base::sync::atomic::{AtomicPtr, Ordering};
use crate::memory::arena::{ALIGNMENT, Arena};

/// What every node begins with. The tower (`height` links), the key and the value follow.
///
/// What a search looks at (`keyspace`, `height`, `prefix`) stands last, next to the links: so most
/// visits touch one cache line, and it is the one that [`Node::prefetch_next`] asks for.
#[repr(C)]
pub(crate) struct Header {
    /// A node somewhere before this one, usually the one right before; null for the head.
    before: AtomicPtr<Header>,
    seq: Seq,
    value_bytes: u32,
    /// Holds what follows together, where the compiler would leave the hole within it.
    _hole: u32,
    keyspace: u32,
    key_bytes: u16,
    height: u8,
    kind: Kind,
    /// The key's first bytes as an integer.
    prefix: u64,
}

type Link = AtomicPtr<Header>;

const _: () = assert!(align_of::<Header>() <= ALIGNMENT && align_of::<Link>() <= ALIGNMENT);
const _: () = assert!(size_of::<Header>().is_multiple_of(align_of::<Link>()));

/// What a new node is made of.
pub(super) struct NodeParts<'a> {
    pub(super) keyspace: u32,
    pub(super) prefix: u64,
    pub(super) seq: Seq,
    pub(super) kind: Kind,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

impl NodeParts<'_> {
    /// The head's: nothing of it is ever compared.
    pub(super) fn head() -> Self {
        Self { keyspace: 0, prefix: 0, seq: 0, kind: Kind::Delete, key: &[], value: &[] }
    }
}

/// A node of a list that is alive for `'a` (N1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node<'a>(NonNull<Header>, PhantomData<&'a Header>);

impl<'a> Node<'a> {
    /// Writes a node, with all links null; not linked anywhere yet.
    #[expect(unsafe_code, reason = "writes a node into fresh memory of the arena")]
    pub(super) fn write(arena: &'a Arena, parts: &NodeParts<'_>, height: usize) -> Self {
        assert!(parts.key.len() <= u16::MAX as usize && parts.value.len() <= u32::MAX as usize);
        assert!(height >= 1 && height <= u8::MAX as usize);
        let data = size_of::<Header>() + height * size_of::<Link>();
        let address = arena.allocate(data + parts.key.len() + parts.value.len());
        let header = Header {
            before: AtomicPtr::new(std::ptr::null_mut()),
            seq: parts.seq,
            value_bytes: parts.value.len() as u32,
            _hole: 0,
            keyspace: parts.keyspace,
            key_bytes: parts.key.len() as u16,
            height: height as u8,
            kind: parts.kind,
            prefix: parts.prefix,
        };
        let node = Self(address.cast(), PhantomData);
        // SAFETY: the arena gave `data + key + value` bytes to us alone, aligned for header and
        // links (A1 and the assertions above); the parts are written one after the other within,
        // which makes N1 true before the node is handed out.
        unsafe {
            node.0.write(header);
            for level in 0..height {
                node.link(level).write(Link::new(std::ptr::null_mut()));
            }
            let key = address.as_ptr().add(data);
            key.copy_from_nonoverlapping(parts.key.as_ptr(), parts.key.len());
            key.add(parts.key.len())
                .copy_from_nonoverlapping(parts.value.as_ptr(), parts.value.len());
        }
        node
    }

    /// The node at an address taken by [`Node::as_ptr`]; `None` for null.
    ///
    /// # Safety
    /// The arena that the node was written into must live for `'a` (N1).
    #[expect(unsafe_code, reason = "the caller chooses the lifetime")]
    #[inline]
    pub(crate) unsafe fn from_ptr(pointer: *mut Header) -> Option<Self> {
        NonNull::new(pointer).map(|pointer| Self(pointer, PhantomData))
    }

    /// As [`Node::from_ptr`], for what is never null.
    ///
    /// # Safety
    /// The arena that the node was written into must live for `'a` (N1).
    #[expect(unsafe_code, reason = "the caller chooses the lifetime")]
    #[inline]
    pub(crate) unsafe fn from_non_null(pointer: NonNull<Header>) -> Self {
        Self(pointer, PhantomData)
    }

    /// The node's address.
    pub(crate) fn as_non_null(self) -> NonNull<Header> {
        self.0
    }

    /// The node's address.
    pub(crate) fn as_ptr(self) -> *mut Header {
        self.0.as_ptr()
    }

    /// Address of a link.
    ///
    /// # Safety
    /// `level` must not exceed the node's height; at the height begins the key.
    #[expect(unsafe_code, reason = "address arithmetic within the node")]
    #[inline]
    unsafe fn link(self, level: usize) -> NonNull<Link> {
        // SAFETY: the tower follows the header in the same allocation, and has `height` links.
        unsafe { self.0.add(1).cast::<Link>().add(level) }
    }

    /// The link of a level that the node has.
    #[expect(unsafe_code, reason = "reads a link behind the node's pointer")]
    #[inline]
    fn at_level(self, level: usize) -> &'a Link {
        assert!(level < usize::from(self.header().height));
        // SAFETY: the level is below the height (asserted), so the link was written (N1).
        unsafe { self.link(level).as_ref() }
    }

    /// The header.
    #[expect(unsafe_code, reason = "reads the header behind the node's pointer")]
    #[inline]
    fn header(self) -> &'a Header {
        // SAFETY: N1, and nothing of it changes but through atomics.
        unsafe { self.0.as_ref() }
    }

    /// The next node at a level.
    #[expect(unsafe_code, reason = "follows a link")]
    #[inline]
    pub(super) fn next(self, level: usize) -> Option<Self> {
        let next = self.at_level(level).load(Ordering::Acquire);
        // SAFETY: links lead to nodes of the same list, published with Release after they were
        // written in full, so N1 holds for them as it does for this one.
        unsafe { Self::from_ptr(next) }
    }

    /// Asks the processor to fetch the next node of a level, which may be wanted soon.
    #[inline]
    pub(super) fn prefetch_next(self, level: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        #[expect(unsafe_code, reason = "a prefetch has no effect on memory")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let next = self.at_level(level).load(Ordering::Relaxed);
            let wanted = next.cast::<i8>().wrapping_add(std::mem::offset_of!(Header, prefix));
            // SAFETY: a prefetch reads nothing and never faults, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(wanted) };
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = level;
    }

    /// Sets a link of a node that is not linked at that level yet.
    pub(super) fn prepare_next(self, level: usize, next: Option<Self>) {
        self.at_level(level).store(pointer_of(next), Ordering::Relaxed);
    }

    /// Links `new` behind this node at a level, if `expected` still follows it.
    pub(super) fn link_next(self, level: usize, expected: Option<Self>, new: Self) -> bool {
        let expected = pointer_of(expected);
        self.at_level(level)
            .compare_exchange(expected, new.as_ptr(), Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// A node before this one; `None` for the head (L4).
    #[expect(unsafe_code, reason = "follows a pointer between nodes")]
    pub(super) fn before(self) -> Option<Self> {
        let before = self.header().before.load(Ordering::Acquire);
        // SAFETY: as for links: only nodes of the same list are ever stored, with Release.
        unsafe { Self::from_ptr(before) }
    }

    /// Notes a linked node that stands before this one.
    pub(super) fn set_before(self, before: Option<Self>) {
        self.header().before.store(pointer_of(before), Ordering::Release);
    }

    /// The keyspace's number.
    #[inline]
    pub(crate) fn keyspace(self) -> u32 {
        self.header().keyspace
    }

    /// The key's first bytes as an integer.
    #[inline]
    pub(super) fn prefix(self) -> u64 {
        self.header().prefix
    }

    /// The seq.
    #[inline]
    pub(crate) fn seq(self) -> Seq {
        self.header().seq
    }

    /// The kind.
    #[inline]
    pub(crate) fn kind(self) -> Kind {
        self.header().kind
    }

    /// The key.
    #[inline]
    pub(crate) fn key(self) -> &'a [u8] {
        let header = self.header();
        self.bytes(0, usize::from(header.key_bytes))
    }

    /// The value.
    #[inline]
    pub(crate) fn value(self) -> &'a [u8] {
        let header = self.header();
        self.bytes(usize::from(header.key_bytes), header.value_bytes as usize)
    }

    /// A part of the bytes behind the tower; key or value, as the two callers above ask.
    #[expect(unsafe_code, reason = "reads the bytes behind the tower")]
    #[inline]
    fn bytes(self, from: usize, count: usize) -> &'a [u8] {
        // SAFETY: `from + count` lies within key and value, which follow the tower in the same
        // allocation, were written before the node was handed out (N1) and never change.
        unsafe {
            let data = self.link(usize::from(self.header().height)).cast::<u8>();
            std::slice::from_raw_parts(data.add(from).as_ptr(), count)
        }
    }
}

/// The address in a link.
fn pointer_of(node: Option<Node<'_>>) -> *mut Header {
    node.map_or(std::ptr::null_mut(), Node::as_ptr)
}
