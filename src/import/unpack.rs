//! Packed files, read up to where they are damaged: what was packed before that is whole.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::{Arc, OnceLock};

const BUFFER_BYTES: usize = 128 << 10;

/// Where a reader notes why it has ended early.
#[derive(Clone, Debug, Default)]
pub(super) struct Damage(Arc<OnceLock<String>>);

impl Damage {
    /// Why, if it has.
    pub(super) fn reason(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

/// The content of a packed file. It ends where the file is damaged; a file of which nothing can be read is an error.
pub(super) struct Unpacked {
    inner: BufReader<zstd::Decoder<'static, BufReader<File>>>,
    has_begun: bool,
    damage: Damage,
}

impl Unpacked {
    pub(super) fn of(packed: File, damage: Damage) -> io::Result<Unpacked> {
        let inner = BufReader::with_capacity(BUFFER_BYTES, zstd::Decoder::new(packed)?);
        Ok(Unpacked { inner, has_begun: false, damage })
    }
}

impl BufRead for Unpacked {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.damage.reason().is_some() {
            return Ok(&[]);
        }
        match self.inner.fill_buf() {
            Ok(bytes) => self.has_begun |= !bytes.is_empty(),
            Err(error) if self.has_begun && error.kind() != io::ErrorKind::Interrupted => {
                let _ = self.damage.0.set(error.to_string());
                return Ok(&[]);
            }
            Err(error) => return Err(error),
        }
        Ok(self.inner.buffer())
    }

    fn consume(&mut self, count: usize) {
        self.inner.consume(count);
    }
}

impl Read for Unpacked {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?;
        let count = bytes.len().min(into.len());
        into[..count].copy_from_slice(&bytes[..count]);
        self.consume(count);
        Ok(count)
    }
}
