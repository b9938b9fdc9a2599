//! How messages get into and out of the bytes of a stream: as tonic does it, with smaller buffers. Each stream has two for
//! as long as it is open, and that of an idle worker carries a few bytes at a time.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::ProstCodec;

/// The size of a buffer, in bytes; a larger message makes it grow. Below this size, `BytesMut` would replace a buffer that
/// is used up by one for the next message alone.
const BUFFER: usize = 1024;
/// From how many bytes on messages are passed on, even if more follow at once (as in tonic).
const PASSED_ON: usize = 32 << 10;

/// The codec of all services.
#[derive(Debug)]
pub struct SmallBuffers<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for SmallBuffers<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for SmallBuffers<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as Codec>::Encoder;
    type Decoder = <ProstCodec<T, U> as Codec>::Decoder;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(BUFFER, PASSED_ON))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(BufferSettings::new(BUFFER, PASSED_ON))
    }
}
