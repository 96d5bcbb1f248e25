//! Paths on the wire.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error};

/// An absolute path. A relative one is refused with the text that clients of the protocol know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct AbsolutePath(pub String);

impl<'de> Deserialize<'de> for AbsolutePath {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<AbsolutePath, D::Error> {
        let path = String::deserialize(from)?;
        if path.starts_with('/') {
            Ok(AbsolutePath(path))
        } else {
            Err(D::Error::custom("AbsolutePathBuf deserialized without a base path"))
        }
    }
}

impl From<String> for AbsolutePath {
    fn from(path: String) -> AbsolutePath {
        AbsolutePath(path)
    }
}
