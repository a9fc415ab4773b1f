//! The one integration binary: the program as people and machines use it.

mod stories {
    mod api_contract;
    mod applying;
    mod architecture;
    mod command_line;
    mod commands;
    mod convergence;
    mod dev;
    mod documentation;
    mod faults;
    mod history;
    mod manifests;
    mod policy;
    mod remotes;
    mod restarts;
    mod succession;
    mod support;
    mod swarm;
    mod terminal;
}
