//! Payloads of rows: texts and lines as they are stored, most of them as one zstd frame.
//!
//! A large payload is packed into a file and written from there into its row in place, so that a line of any size is in
//! memory once and not five times: a statement would copy it for sqlx, for SQLite's parameter and for its record.

use std::ffi::{CStr, c_int};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;
use std::ptr;
use std::sync::Arc;

use libsqlite3_sys as ffi;
use sqlx::query_builder::Separated;
use sqlx::sqlite::LockedSqliteHandle;
use sqlx::{Sqlite, SqliteConnection};

use super::error::{Result, StoreError};

/// Below this, compressing does not pay.
const COMPRESS_FROM_BYTES: usize = 1024;

/// Where the ratio on JSON lines flattens.
const ZSTD_LEVEL: i32 = 3;

/// For much at once: half the time for a tenth more bytes.
const ZSTD_LEVEL_BULK: i32 = 1;

/// From this on, a payload goes through a file.
const LARGE_BYTES: usize = 8 << 20;

/// What is in memory of a large payload while it is written.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes as they will be stored.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    /// 0: the bytes themselves; 1: one zstd frame.
    pub(super) encoding: i64,
    /// The bytes.
    pub(super) payload: Payload,
}

/// The payload of a row.
#[derive(Clone, Debug)]
pub(super) enum Payload {
    /// Bound as a parameter.
    Bound(Vec<u8>),
    /// In a file without a name, of this size.
    Spooled(Arc<File>, i64),
}

/// The place of a payload in the database.
#[derive(Clone, Copy, Debug)]
pub(super) enum Blob {
    /// Of the run with this key.
    OfRun(i64),
    /// Of the item with this key.
    OfItem(i64),
}

impl Payload {
    /// Bind it, or zeroes of its size that [`Payload::fill`] is to overwrite.
    pub(super) fn bind(&self, values: &mut Separated<'_, Sqlite, &'static str>) {
        match self {
            Payload::Bound(bytes) => values.push_bind(&bytes[..]),
            Payload::Spooled(_, size) => {
                values.push("zeroblob(").push_bind_unseparated(*size).push_unseparated(")")
            }
        };
    }

    /// Write what was not bound into the row, which is there by now.
    pub(super) async fn fill(&self, db: &mut SqliteConnection, blob: Blob) -> Result<()> {
        let Payload::Spooled(file, _) = self else { return Ok(()) };
        let mut handle = db.lock_handle().await?;
        OpenBlob::open(&mut handle, blob)?.fill(file)
    }

    /// Whether a row with it is to be filled.
    pub(super) fn is_spooled(&self) -> bool {
        matches!(self, Payload::Spooled(..))
    }
}

/// A blob that is open for writing in place (<https://www.sqlite.org/c3ref/blob_open.html>).
struct OpenBlob<'a> {
    blob: *mut ffi::sqlite3_blob,
    connection: *mut ffi::sqlite3,
    /// Nobody else uses the connection meanwhile.
    _locked: PhantomData<&'a mut ()>,
}

impl<'a> OpenBlob<'a> {
    fn open(locked: &'a mut LockedSqliteHandle<'_>, place: Blob) -> Result<OpenBlob<'a>> {
        let connection = locked.as_raw_handle().as_ptr();
        let (table, row) = match place {
            Blob::OfRun(key) => (c"journal", key),
            Blob::OfItem(key) => (c"items", key),
        };
        let mut blob = ptr::null_mut();
        // SAFETY: the connection is open, and locked for as long as `locked` is borrowed; the names are C strings.
        let code = unsafe {
            ffi::sqlite3_blob_open(
                connection,
                c"main".as_ptr(),
                table.as_ptr(),
                c"payload".as_ptr(),
                row,
                1,
                &raw mut blob,
            )
        };
        let opened = OpenBlob { blob, connection, _locked: PhantomData };
        opened.check(code, "opening a large payload")?;
        Ok(opened)
    }

    /// Write the bytes of a file, which is as long as the blob.
    fn fill(&self, file: &File) -> Result<()> {
        let mut piece = vec![0; PIECE_BYTES];
        let mut at = 0;
        loop {
            let read = file.read_at(&mut piece, at).map_err(|error| not_spooled(&error))?;
            if read == 0 {
                return Ok(());
            }
            // Sizes and places within a blob fit, which has less than 2^31 bytes.
            let (size, place) = (read as c_int, at as c_int);
            // SAFETY: the blob is open, and `piece` has that many bytes.
            let code = unsafe { ffi::sqlite3_blob_write(self.blob, piece.as_ptr().cast(), size, place) };
            self.check(code, "writing a large payload")?;
            at += read as u64;
        }
    }

    fn check(&self, code: c_int, doing: &str) -> Result<()> {
        if code == ffi::SQLITE_OK {
            return Ok(());
        }
        // SAFETY: the connection is open, and its message stays as it is until the next call on it.
        let message = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(self.connection)) };
        Err(StoreError::of_code(code & 0xff, format!("{doing}: {}", message.to_string_lossy())))
    }
}

impl Drop for OpenBlob<'_> {
    fn drop(&mut self) {
        // SAFETY: it is closed once; one that could not be opened is null, which may be closed.
        unsafe { ffi::sqlite3_blob_close(self.blob) };
    }
}

/// Packs texts and lines; kept by those who pack a lot, since making a compressor takes longer than using it.
#[derive(Default)]
pub struct Packer {
    /// `None`: made anew each time.
    compressor: Option<zstd::bulk::Compressor<'static>>,
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packer").finish_non_exhaustive()
    }
}

impl Packer {
    /// For many texts.
    pub fn kept() -> Packer {
        Packer { compressor: zstd::bulk::Compressor::new(ZSTD_LEVEL_BULK).ok() }
    }

    /// For a few.
    pub(super) fn once() -> Packer {
        Packer { compressor: None }
    }

    /// One zstd frame.
    pub fn frame(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut packed = match &mut self.compressor {
            Some(compressor) => compressor.compress(bytes),
            None => zstd::bulk::compress(bytes, ZSTD_LEVEL),
        }
        .ok()?;
        packed.shrink_to_fit();
        Some(packed)
    }

    /// A text as stored.
    ///
    /// # Errors
    /// It is large, and there is no place for the file that it goes through.
    pub(super) fn pack(&mut self, text: String) -> Result<Packed> {
        let bytes = text.into_bytes();
        if bytes.len() < COMPRESS_FROM_BYTES {
            return Ok(Packed { encoding: 0, payload: Payload::Bound(bytes) });
        }
        self.pack_slice(&bytes)
    }

    /// Bytes as stored.
    ///
    /// # Errors
    /// As above.
    pub(super) fn pack_slice(&mut self, bytes: &[u8]) -> Result<Packed> {
        if LARGE_BYTES <= bytes.len() {
            return spool(bytes).map_err(|error| not_spooled(&error));
        }
        let packed = if bytes.len() < COMPRESS_FROM_BYTES { None } else { self.frame(bytes) };
        Ok(match packed.filter(|packed| pays(packed.len(), bytes.len())) {
            Some(packed) => Packed { encoding: 1, payload: Payload::Bound(packed) },
            None => Packed { encoding: 0, payload: Payload::Bound(bytes.to_vec()) },
        })
    }
}

/// Compressing pays when it saves at least a fifth: it does for images, of whose text a quarter is empty.
fn pays(packed: usize, bytes: usize) -> bool {
    packed <= bytes / 5 * 4
}

/// Pack into a file.
fn spool(bytes: &[u8]) -> io::Result<Packed> {
    let mut encoder = zstd::Encoder::new(tempfile::tempfile()?, ZSTD_LEVEL_BULK)?;
    // The frame tells the size, which is what a reader makes room for.
    encoder.set_pledged_src_size(Some(bytes.len() as u64))?;
    encoder.include_contentsize(true)?;
    encoder.write_all(bytes)?;
    let mut file = encoder.finish()?;
    let size = file.stream_position()?;
    if pays(size as usize, bytes.len()) {
        return Ok(Packed { encoding: 1, payload: Payload::Spooled(Arc::new(file), size as i64) });
    }
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(bytes)?;
    Ok(Packed { encoding: 0, payload: Payload::Spooled(Arc::new(file), bytes.len() as i64) })
}

fn not_spooled(error: &io::Error) -> StoreError {
    let folder = std::env::temp_dir();
    StoreError::Database(format!(
        "a large payload goes through a file in {}, which failed: {error}",
        folder.display()
    ))
}

/// The bytes that were packed; `size` is how many they are.
pub(super) fn unpack(encoding: i64, payload: Vec<u8>, size: i64) -> Result<Vec<u8>> {
    if encoding == 0 {
        return Ok(payload);
    }
    zstd::bulk::decompress(&payload, usize::try_from(size).unwrap_or(0))
        .map_err(|error| StoreError::Database(format!("unpacking a stored payload: {error}")))
}

/// As [`unpack`], with the size that the frame itself tells.
pub(super) fn unpack_text(encoding: i64, payload: Vec<u8>) -> Result<String> {
    let size = match encoding {
        0 => 0,
        _ => zstd::zstd_safe::get_frame_content_size(&payload).ok().flatten().unwrap_or(0),
    };
    let bytes = unpack(encoding, payload, i64::try_from(size).unwrap_or(0))?;
    String::from_utf8(bytes).map_err(|error| StoreError::Database(format!("reading a stored text: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that hardly compress, or well.
    fn bytes(size: usize, of_kinds: u64) -> Vec<u8> {
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            b'a'.wrapping_add(((state >> 33) % of_kinds) as u8)
        };
        (0..size).map(|_| next()).collect()
    }

    fn unpacked(packed: &Packed, size: usize) -> Vec<u8> {
        let payload = match &packed.payload {
            Payload::Bound(bytes) => bytes.clone(),
            Payload::Spooled(file, size) => {
                let mut bytes = vec![0; *size as usize];
                file.read_exact_at(&mut bytes, 0).unwrap();
                bytes
            }
        };
        unpack(packed.encoding, payload, size as i64).unwrap()
    }

    #[test]
    fn payloads_of_any_size_come_back() {
        for size in [0, COMPRESS_FROM_BYTES, LARGE_BYTES - 1, LARGE_BYTES, 2 * LARGE_BYTES + 3] {
            for of_kinds in [2, 240] {
                let bytes = bytes(size, of_kinds);
                let packed = Packer::kept().pack_slice(&bytes).unwrap();
                assert_eq!(packed.payload.is_spooled(), LARGE_BYTES <= size, "{size}");
                assert_eq!(packed.encoding, i64::from(of_kinds == 2 && COMPRESS_FROM_BYTES <= size));
                assert!(unpacked(&packed, size) == bytes, "{size} bytes of {of_kinds} kinds");
            }
        }
    }
}
