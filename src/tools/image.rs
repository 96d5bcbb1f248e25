//! Local images as data URLs, for the `view_image` tool and for a user's `localImage` input.
//!
//! The kind is read from the first bytes, never from the file's name. A file that cannot be sent is an error whose
//! text is meant for the model.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;
use thiserror::Error;

/// Providers refuse images beyond about this size, and a larger one would only fill the history.
pub const IMAGE_BYTES_MAX: u64 = 20 * 1024 * 1024;

/// Why an image cannot be sent; the text is for the model.
#[derive(Debug, Error)]
pub enum ImageError {
    /// The file is missing or cannot be read.
    #[error("unable to locate image at `{path}`: {source}", path = path.display())]
    Unreadable {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is there, but it is not a file.
    #[error("image path `{path}` is not a file", path = .0.display())]
    NotAFile(PathBuf),
    /// Its first bytes are none of a known image.
    #[error("unable to process image at `{path}`: not a PNG, JPEG, GIF or WebP image", path = .0.display())]
    UnknownKind(PathBuf),
    /// It is larger than [`IMAGE_BYTES_MAX`].
    #[error("unable to process image at `{path}`: larger than {max} bytes", path = .0.display(), max = IMAGE_BYTES_MAX)]
    TooLarge(PathBuf),
}

/// Arguments of `view_image`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ViewImageArguments {
    /// The file, absolute or relative to the working folder.
    pub path: String,
}

/// The image at `path` as `data:image/…;base64,…`.
pub fn data_url(path: &Path) -> Result<String, ImageError> {
    let unreadable = |source| ImageError::Unreadable { path: path.to_owned(), source };
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(ImageError::NotAFile(path.to_owned()));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    // One byte more than allowed tells a file that has grown since it was looked at.
    file.take(IMAGE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > IMAGE_BYTES_MAX {
        return Err(ImageError::TooLarge(path.to_owned()));
    }
    let mime = mime_type(&bytes).ok_or_else(|| ImageError::UnknownKind(path.to_owned()))?;
    Ok(format!("data:{mime};base64,{}", BASE64_STANDARD.encode(&bytes)))
}

fn mime_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_comes_from_the_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dot.txt");
        std::fs::write(&path, b"\x89PNG\r\n\x1a\nrest").unwrap();
        assert_eq!(data_url(&path).unwrap(), "data:image/png;base64,iVBORw0KGgpyZXN0");
        std::fs::write(&path, b"just text").unwrap();
        assert!(data_url(&path).unwrap_err().to_string().contains("not a PNG"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let text = data_url(Path::new("/no/such/none.png")).unwrap_err().to_string();
        assert_eq!(
            text,
            "unable to locate image at `/no/such/none.png`: No such file or directory (os error 2)"
        );
        assert_eq!(data_url(Path::new("/")).unwrap_err().to_string(), "image path `/` is not a file");
    }
}
