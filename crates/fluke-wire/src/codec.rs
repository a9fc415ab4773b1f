//! Protobuf over gRPC, with buffers that fit what is said.
//!
//! Each stream has one buffer for either direction, and a server has as many streams as agents. Most
//! of what is said is a few dozen bytes; what is larger gets the room that it needs.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstDecoder, ProstEncoder};

use crate::PART;

/// What a buffer holds, and what it grows by, in bytes.
const BUFFER: usize = 256;
/// So many bytes of messages that wait go to the network together: no more than one part, for the
/// buffer that they wait in stays as large as it ever was.
const TOGETHER: usize = PART;

/// Encodes `T` and decodes `U`.
#[derive(Debug, Clone)]
pub(crate) struct LeanCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for LeanCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for LeanCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> ProstEncoder<T> {
        ProstEncoder::new(BufferSettings::new(BUFFER, TOGETHER))
    }

    fn decoder(&mut self) -> ProstDecoder<U> {
        ProstDecoder::new(BufferSettings::new(BUFFER, TOGETHER))
    }
}
