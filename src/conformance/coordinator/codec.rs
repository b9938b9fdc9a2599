//! How frames go over the wire: those of the worker as the protocol has them, ours as bytes, so that a script can send what
//! no version of the protocol knows.

use bytes::{BufMut as _, Bytes};
use rosterd_wire::proto::v1::SessionRequest;
use tonic::Status;
use tonic::codec::{Codec, EncodeBuf, Encoder};
use tonic_prost::ProstDecoder;

pub(super) struct FramesInBytesOut;

impl Codec for FramesInBytesOut {
    type Encode = Bytes;
    type Decode = SessionRequest;
    type Encoder = AsTheyAre;
    type Decoder = ProstDecoder<SessionRequest>;

    fn encoder(&mut self) -> Self::Encoder {
        AsTheyAre
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::default()
    }
}

pub(super) struct AsTheyAre;

impl Encoder for AsTheyAre {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}
