//! Stories over real sockets and pipes in memory.

mod certificates;
mod greeting;
mod hall;
mod order;
mod parts;
mod stopping;
mod strangers;
mod tls;
