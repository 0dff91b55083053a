//! Gzip, unpacked as it comes, with a guard: what unpacks to hundreds of times its size is no log of requests. Memory is not at stake, since
//! nothing is kept of what was unpacked; time is.

use super::problem::TraceError;
use super::reader::Body;
use flate2::write::MultiGzDecoder;
use std::io::{Error, Write};

/// Bytes that may come of any file.
const FREE: u64 = 64 << 20;

/// Beyond them, how many times as long as its packed form it may be. Logs of requests are packed to a tenth or a twentieth; a bomb to a thousandth.
const RATIO: u64 = 200;

/// A gzip file being unpacked.
pub(super) struct Gunzip {
    decoder: MultiGzDecoder<Counting>,
}

struct Counting {
    body: Body,
    packed: u64,
    unpacked: u64,
    error: Option<TraceError>,
}

impl Gunzip {
    pub(super) fn new(body: Body) -> Self {
        Gunzip { decoder: MultiGzDecoder::new(Counting { body, packed: 0, unpacked: 0, error: None }) }
    }

    pub(super) fn body(&self) -> &Body {
        &self.decoder.get_ref().body
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        self.decoder.get_mut().packed += bytes.len() as u64;
        let written = self.decoder.write_all(bytes);
        self.said(written)
    }

    pub(super) fn finish(mut self) -> Result<Body, TraceError> {
        let finished = self.decoder.try_finish();
        self.said(finished)?;
        self.decoder.finish().map(|counting| counting.body).map_err(|error| TraceError::Gzip(error.to_string()))
    }

    /// Our own reason where there is one, else that of the decoder.
    fn said(&mut self, result: Result<(), Error>) -> Result<(), TraceError> {
        match result {
            Ok(()) => Ok(()),
            Err(error) => {
                let own = self.decoder.get_mut().error.take();
                Err(own.unwrap_or_else(|| TraceError::Gzip(error.to_string())))
            }
        }
    }
}

impl Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.unpacked += bytes.len() as u64;
        let bomb = self.unpacked > FREE && self.unpacked > RATIO.saturating_mul(self.packed);
        let taken = match bomb {
            true => Err(TraceError::Bomb { packed: self.packed, unpacked: self.unpacked }),
            false => self.body.push(bytes),
        };
        match taken {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                self.error = Some(error);
                Err(Error::other("stopped"))
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
