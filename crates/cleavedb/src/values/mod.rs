//! Value files: where separated values live. The seam stands here from the start (record kinds,
//! the death listener of flush and compaction, sections of the manifest); the files themselves
//! come with the value log.
