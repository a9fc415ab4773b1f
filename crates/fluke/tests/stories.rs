//! The one integration binary: the program as people and machines use it.

mod stories {
    mod command_line;
    mod documentation;
    mod manifests;
}
