//! Pieces of the stream, each made once and shared by all who listen: as it is, and compressed for
//! those who ask for that.
//!
//! A piece is deflated on its own, up to a whole byte: whoever joins at any of them can read on.

use std::io::Write;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// Of a file without a name, as gzip begins.
const OPENING: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// The last block, which is empty.
const CLOSING: [u8; 2] = [3, 0];

/// Messages that go out together.
#[derive(Debug, Clone)]
pub struct Frame(Arc<Made>);

#[derive(Debug)]
struct Made {
    plain: Bytes,
    /// With the sum of what it is when it is read.
    squeezed: OnceLock<(Bytes, Crc)>,
}

impl Frame {
    /// As they are.
    pub fn plain(&self) -> &Bytes {
        &self.0.plain
    }

    /// Deflated, when this is first asked for.
    pub fn squeezed(&self) -> &Bytes {
        &self.squeezed_with_sum().0
    }

    fn squeezed_with_sum(&self) -> &(Bytes, Crc) {
        self.0.squeezed.get_or_init(|| {
            let mut sum = Crc::new();
            sum.update(&self.0.plain);
            (deflated(&self.0.plain), sum)
        })
    }
}

impl From<Bytes> for Frame {
    fn from(plain: Bytes) -> Self {
        Self(Arc::new(Made { plain, squeezed: OnceLock::new() }))
    }
}

impl PartialEq for Frame {
    fn eq(&self, other: &Self) -> bool {
        self.plain() == other.plain()
    }
}

impl Eq for Frame {}

fn deflated(plain: &[u8]) -> Bytes {
    // The quickest level, as for lists.
    let mut encoder = DeflateEncoder::new(Vec::with_capacity(plain.len() / 8), Compression::fast());
    // Memory takes everything.
    let written = encoder.write_all(plain).and_then(|()| encoder.flush_finish());
    written.unwrap_or_default().into()
}

/// How one listener is written to.
#[derive(Debug)]
pub enum Coding {
    /// As it is.
    Plain,
    /// In gzip; with the sum of all that was written, once something was.
    Gzip(Option<Crc>),
}

impl Coding {
    /// The bytes of the next frame.
    pub fn next(&mut self, frame: &Frame) -> Bytes {
        let Self::Gzip(sum) = self else { return frame.plain().clone() };
        let is_first = sum.is_none();
        let (squeezed, of_frame) = frame.squeezed_with_sum();
        sum.get_or_insert_default().combine(of_frame);
        match is_first {
            true => [&OPENING, &squeezed[..]].concat().into(),
            false => squeezed.clone(),
        }
    }

    /// The bytes behind the last frame, if there are any.
    pub fn end(&self) -> Option<Bytes> {
        let Self::Gzip(Some(sum)) = self else { return None };
        let (sum, length) = (sum.sum().to_le_bytes(), sum.amount().to_le_bytes());
        Some([&CLOSING[..], &sum, &length].concat().into())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn whoever_joins_reads_from_there_to_the_end() {
        let text = |number| format!("event: agent\ndata: {{\"name\":\"a{number}\"}}\n\n").repeat(9);
        let frames: Vec<Frame> = (0..5).map(|number| Bytes::from(text(number)).into()).collect();
        for joins_at in 0..5 {
            let mut coding = Coding::Gzip(None);
            let written = frames[joins_at..].iter().map(|frame| coding.next(frame));
            let mut bytes = written.collect::<Vec<_>>().concat();
            bytes.extend(coding.end().expect("an end"));
            let mut read = String::new();
            GzDecoder::new(&bytes[..]).read_to_string(&mut read).expect("gzip");
            assert_eq!(read, (joins_at..5).map(text).collect::<String>());
        }
    }

    #[test]
    fn each_piece_can_be_read_when_it_is_there() {
        let mut coding = Coding::Gzip(None);
        let mut bytes = Vec::new();
        for text in ["one", "two", ""] {
            bytes.extend(coding.next(&Bytes::from(text).into()));
        }
        let mut read = [0; 6];
        GzDecoder::new(&bytes[..]).read_exact(&mut read).expect("all of it");
        assert_eq!(&read, b"onetwo");
    }

    #[test]
    fn who_does_not_ask_for_it_gets_the_very_same_bytes() {
        let frame = Frame::from(Bytes::from_static(b"data: {}\n\n"));
        let mut coding = Coding::Plain;
        assert_eq!((coding.next(&frame), coding.end()), (frame.plain().clone(), None));
    }
}
