//! Trees that share nodes: who copies what, who stays as it was, and who frees it.

use std::collections::BTreeSet;
use std::sync::Weak;

use super::*;
use crate::io::seeded::Seeded;

fn nodes(node: &Arc<Node>, found: &mut Vec<Arc<Node>>) {
    found.push(Arc::clone(node));
    if let Node::Inner(inner) = &**node {
        inner.children.iter().for_each(|child| nodes(&child.node, found));
    }
}

/// All nodes of a tree, which have one holder more while this lives.
pub(super) fn all_nodes(tree: &Tree) -> Vec<Arc<Node>> {
    let mut found = Vec::new();
    nodes(&tree.root, &mut found);
    found
}

fn addresses(tree: &Tree) -> BTreeSet<*const Node> {
    all_nodes(tree).iter().map(Arc::as_ptr).collect()
}

#[test]
fn a_tree_can_be_read_by_every_thread() {
    fn is_for_threads<T: Send + Sync + 'static>() {}
    is_for_threads::<Tree>();
}

#[test]
fn nodes_of_one_holder_are_changed_in_place() {
    let mut tree = scattered(TreeWidths::USUAL, 20_000);
    let before = addresses(&tree);
    let mut random = Seeded::new(3);
    for number in 0..200 {
        // As long as what was there: nothing splits.
        tree.overwrite(10 * random.below(20_000), apart(1_000_000 + number)).expect("done");
        tree.set_tag(10 * random.below(20_000), tag(1)).expect("done");
    }
    assert_eq!(addresses(&tree), before);
}

#[test]
fn what_a_view_shares_is_copied_once() {
    let mut tree = scattered(TreeWidths::USUAL, 20_000);
    let shape = tree.check().expect("sound");
    let view = tree.clone();
    let (old, expected) = (addresses(&view), all(&view));
    assert_eq!(addresses(&tree), old, "a clone copies nothing");
    for number in 0..20 {
        tree.overwrite(123_450 + number % 3, Extent::new(1 << 40, 3)).expect("done");
    }
    let new = addresses(&tree);
    assert_eq!(new.difference(&old).count(), shape.height, "one path, however often it is changed");
    assert_eq!((all(&view), addresses(&view)), (expected, old));
    // Alone again, the old path is in nobody's way.
    drop(view);
    tree.overwrite(0, Extent::new(1 << 41, 3)).expect("done");
    assert_eq!(addresses(&tree), new);
}

/// Also where an extent stands at the end of its leaf, whose neighbour has nothing to do with it.
#[test]
fn every_change_copies_one_path() {
    let mut tree = scattered(TINY, 200);
    let height = tree.check().expect("sound").height;
    for number in 0..200 {
        let view = tree.clone();
        let old = addresses(&view);
        tree.overwrite(10 * number, apart(1000 + number)).expect("done");
        assert_eq!(addresses(&tree).difference(&old).count(), height, "extent {number}");
    }
}

#[test]
fn nodes_go_with_their_last_holder() {
    let mut tree = scattered(TINY, 500);
    let mut random = Seeded::new(4);
    let mut known: Vec<Weak<Node>> = Vec::new();
    let mut views = Vec::new();
    for number in 0..300 {
        known.extend(all_nodes(&tree).iter().map(Arc::downgrade));
        views.push(tree.clone());
        let at = random.below(tree.length() / 2);
        tree.collapse(at..at + random.below(30)).expect("collapsed");
        tree.insert(at, apart(1000 + number)).expect("inserted");
        if views.len() > 5 {
            views.swap_remove(random.index(5));
        }
        let live = |weak: &Weak<Node>| weak.strong_count() > 0;
        let trees = views.iter().chain([&tree]).map(addresses);
        let held: BTreeSet<*const Node> = trees.flatten().collect();
        let alive: BTreeSet<*const Node> =
            known.iter().filter(|weak| live(weak)).map(Weak::as_ptr).collect();
        assert!(alive.is_subset(&held), "a node outlives its holders");
    }
    drop((tree, views));
    assert!(known.iter().all(|weak| weak.strong_count() == 0));
}

/// Old roots hold each other's nodes, but not each other: however many there are, letting go of
/// them goes no deeper than a tree is high.
#[test]
fn many_old_states_are_let_go_of_on_a_small_stack() {
    let run = || {
        let mut tree = scattered(TINY, 200);
        let mut views = Vec::new();
        for number in 0..20_000 {
            views.push(tree.clone());
            let at = number * 7 % 1990;
            tree.overwrite(at, Extent::new(1 << 40 | number, 3)).expect("done");
        }
        let last = views.pop();
        drop(tree);
        drop(views);
        last.map_or(0, |view| view.check().expect("sound").extents)
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(run).expect("a thread");
    assert!(thread.join().expect("no overflow") > 0);
}
