//! Which nights are played, what their seeds say, and what is told of each.

use std::ops::Range;
use std::time::Instant;

/// The nights that are played; so many where nobody says.
pub fn seeds(nights: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let first: Option<u64> = number("FLUKE_NIGHT");
    let count = number("FLUKE_NIGHTS").unwrap_or(if first.is_some() { 1 } else { nights });
    let first = first.unwrap_or(1);
    first..first + count
}

/// SplitMix64: the same seed is the same night.
pub struct Dice(u64);

impl Dice {
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than that.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound as u64) as usize
    }

    pub fn one_of<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len())]
    }
}

/// What happened in a night, and when; told when it is over, and how it was.
pub struct Account {
    seed: u64,
    began: Instant,
    lines: Vec<String>,
    is_over: bool,
}

impl Account {
    pub fn of(seed: u64) -> Self {
        Self { seed, began: Instant::now(), lines: Vec::new(), is_over: false }
    }

    pub fn notes(&mut self, what: &str) {
        self.lines.push(format!("{:6.2} s  {what}", self.began.elapsed().as_secs_f32()));
    }

    /// Nothing was too bad.
    pub fn is_over(&mut self) {
        self.is_over = true;
    }
}

impl Drop for Account {
    #[expect(clippy::print_stderr, reason = "a night that was too bad is told")]
    fn drop(&mut self) {
        let how = if self.is_over { "passed" } else { "was too bad" };
        eprintln!("night {} {how}; FLUKE_NIGHT={0} plays it again", self.seed);
        self.lines.iter().for_each(|line| eprintln!("  {line}"));
    }
}
