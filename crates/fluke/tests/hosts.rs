//! Stories on real hosts: systemd, addresses, power cuts. They need root, and say so if they
//! have to be skipped; CONTRIBUTING.md tells of the bed.

mod hosts {
    mod autonomy;
    mod faults;
    mod joining;
    mod packaging;
    mod resources;
    mod services;
    mod support;
    mod systemd;
}
