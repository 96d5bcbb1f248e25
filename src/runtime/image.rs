//! Image files as the model gets them.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// An image file as a data URL.
///
/// # Errors
/// The file cannot be read, or is no image that models take.
pub fn data_url(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path)
        .map_err(|error| format!("unable to read image at `{}`: {error}", path.display()))?;
    let kind = match bytes.as_slice() {
        [0x89, b'P', b'N', b'G', ..] => "png",
        [0xff, 0xd8, 0xff, ..] => "jpeg",
        [b'G', b'I', b'F', b'8', ..] => "gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "webp",
        _ => return Err(format!("`{}` is no PNG, JPEG, GIF or WebP image", path.display())),
    };
    Ok(format!("data:image/{kind};base64,{}", STANDARD.encode(bytes)))
}
