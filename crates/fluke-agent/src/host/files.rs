//! Files that survive a power cut: written beside, synced, renamed.
