use std::os::fd::AsFd;

use nix::pty::{OpenptyResult, openpty};

use super::*;

const SIZE: Size = Size { width: 10, height: 3 };

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(ToString::to_string).collect()
}

#[test]
fn only_what_changed_is_written() {
    let mut canvas = Canvas::default();
    let first = canvas.update(&lines(&["one", "two"]), SIZE);
    assert_eq!(
        first,
        "\u{1b}[?2026h\u{1b}[2J\u{1b}[1;1Hone\u{1b}[K\u{1b}[2;1Htwo\u{1b}[K\u{1b}[?2026l"
    );
    assert_eq!(canvas.update(&lines(&["one", "two"]), SIZE), "", "nothing new");
    let second = canvas.update(&lines(&["one", "2", "three"]), SIZE);
    assert_eq!(second, "\u{1b}[?2026h\u{1b}[2;1H2\u{1b}[K\u{1b}[3;1Hthree\u{1b}[K\u{1b}[?2026l");
    let shorter = canvas.update(&lines(&["one"]), SIZE);
    assert_eq!(shorter, "\u{1b}[?2026h\u{1b}[2;1H\u{1b}[K\u{1b}[3;1H\u{1b}[K\u{1b}[?2026l");
}

#[test]
fn a_terminal_of_another_size_is_drawn_anew_and_nothing_goes_beyond_it() {
    let mut canvas = Canvas::default();
    canvas.update(&lines(&["exactly 10"]), SIZE);
    let narrower = Size { width: 6, height: 2 };
    assert_eq!(
        canvas.update(&lines(&["exactly 10", "b", "c"]), narrower),
        "\u{1b}[?2026h\u{1b}[2J\u{1b}[1;1Hexact…\u{1b}[2;1Hb\u{1b}[K\u{1b}[?2026l"
    );
}

/// One test for both ends: there is one terminal in a process.
#[test]
fn the_terminal_is_given_back_at_the_end_and_when_something_panics() {
    let OpenptyResult { master, slave } = openpty(None, None).expect("a terminal");
    let before = termios::tcgetattr(&slave).expect("its settings");
    for panics in [false, true] {
        let end = std::thread::scope(|scope| {
            let body = scope.spawn(|| {
                let terminal = Terminal::take(slave.as_fd(), slave.as_fd()).expect("taken");
                let now = termios::tcgetattr(&slave).expect("its settings");
                assert!(!now.local_flags.contains(LocalFlags::ECHO));
                if panics {
                    panic!("something unforeseen");
                }
                drop(terminal);
            });
            body.join()
        });
        assert_eq!(end.is_err(), panics);
        assert_eq!(termios::tcgetattr(&slave).expect("its settings"), before);
        let written = read_to(&master, GIVE_BACK);
        assert!(written.starts_with(TAKE), "{written:?}");
    }
}

fn read_to(master: &impl AsFd, end: &str) -> String {
    let mut read = String::new();
    while !read.ends_with(end) {
        let mut bytes = [0; 64];
        let count = nix::unistd::read(master.as_fd(), &mut bytes).expect("output");
        read.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    read
}
