//! The newest messages, rendered, for every listener to read at its own pace. Pure.

use std::collections::VecDeque;

use bytes::Bytes;

use super::frame::Frame;

/// Messages by their number; the oldest make room for new ones.
#[derive(Debug)]
pub struct Ring {
    frames: VecDeque<Frame>,
    /// The number of the oldest one that is kept.
    first: u64,
    bytes: usize,
    bound: usize,
}

/// What is at a number.
#[derive(Debug, PartialEq, Eq)]
pub enum At {
    /// This.
    Frame(Frame),
    /// Nothing yet.
    End,
    /// It was there, and had to make room.
    Gone,
}

impl Ring {
    /// Keeps about `bound` bytes, and the newest message whatever its size.
    pub fn new(bound: usize) -> Self {
        Self { frames: VecDeque::new(), first: 0, bytes: 0, bound }
    }

    /// The number that the next message will have.
    pub fn head(&self) -> u64 {
        self.first + self.frames.len() as u64
    }

    /// Adds one at the end.
    pub fn push(&mut self, frame: Frame) {
        self.bytes += cost(&frame);
        self.frames.push_back(frame);
        while self.bytes > self.bound && self.frames.len() > 1 {
            self.drop_first();
        }
    }

    /// What is at `number`.
    pub fn at(&self, number: u64) -> At {
        let Some(index) = number.checked_sub(self.first) else { return At::Gone };
        match usize::try_from(index).ok().and_then(|index| self.frames.get(index)) {
            Some(frame) => At::Frame(frame.clone()),
            None => At::End,
        }
    }

    /// Lets everything go that is kept, and one number with it: whoever reads has missed something.
    pub fn break_off(&mut self) {
        self.push(Bytes::new().into());
        self.clear();
    }

    /// Lets everything go that is kept: nobody reads.
    pub fn clear(&mut self) {
        while !self.frames.is_empty() {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(frame) = self.frames.pop_front() {
            self.bytes -= cost(&frame);
            self.first += 1;
        }
    }
}

/// With what it takes to keep it.
fn cost(frame: &Frame) -> usize {
    frame.plain().len() + size_of::<Bytes>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: u8) -> Frame {
        Bytes::from(vec![number; 1000]).into()
    }

    #[test]
    fn the_oldest_make_room() {
        let mut ring = Ring::new(3 * 1100);
        for number in 0..5u8 {
            ring.push(frame(number));
        }
        assert_eq!((ring.at(1), ring.head()), (At::Gone, 5));
        assert_eq!(ring.at(2), At::Frame(frame(2)));
        assert_eq!((ring.at(5), ring.at(99)), (At::End, At::End));
    }

    #[test]
    fn the_newest_is_kept_whatever_its_size() {
        let mut ring = Ring::new(10);
        ring.push(frame(1));
        ring.push(frame(2));
        assert_eq!((ring.at(0), ring.at(1)), (At::Gone, At::Frame(frame(2))));
    }

    #[test]
    fn a_reader_notices_a_break_wherever_it_was() {
        let mut ring = Ring::new(1000);
        ring.push(frame(1));
        let (behind, ahead) = (0, ring.head());
        ring.break_off();
        assert_eq!(
            (ring.at(behind), ring.at(ahead), ring.at(ring.head())),
            (At::Gone, At::Gone, At::End)
        );
    }
}
