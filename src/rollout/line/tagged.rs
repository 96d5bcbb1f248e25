//! An enum whose variant is told by the member `type`, read without an intermediate form.
//!
//! serde's own way (`tag = "type"`) keeps all members in memory until it has met the tag, which is most of the time that
//! it takes to read a line. Here the tag is looked up first, and the members are then read straight into the variant.

use std::borrow::Cow;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer as _, EnumAccess, IntoDeserializer, VariantAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::Error;

/// Read an externally tagged enum from an object that holds its tag.
pub(super) fn from_str<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Error> {
    let tag = tag_of(text)?;
    T::deserialize(Tagged { tag: &tag, text })
}

/// The object's `type`, which is nearly always its first member.
fn tag_of(text: &str) -> Result<Cow<'_, str>, Error> {
    #[derive(Deserialize)]
    struct Tag<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    if let Some(rest) = text.strip_prefix("{\"type\":\"")
        && let Some((kind, _)) = rest.split_once('"')
        && !kind.contains('\\')
    {
        return Ok(Cow::Borrowed(kind));
    }
    serde_json::from_str::<Tag<'_>>(text).map(|tag| tag.kind)
}

struct Tagged<'t, 'de> {
    tag: &'t str,
    text: &'de str,
}

impl<'de> serde::Deserializer<'de> for Tagged<'_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_enum(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> EnumAccess<'de> for Tagged<'_, 'de> {
    type Error = Error;
    type Variant = Members<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Members<'de>), Error> {
        let tag: StrDeserializer<'_, Error> = self.tag.into_deserializer();
        Ok((seed.deserialize(tag)?, Members { text: self.text }))
    }
}

struct Members<'de> {
    text: &'de str,
}

impl<'de> VariantAccess<'de> for Members<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(&mut serde_json::Deserializer::from_str(self.text))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, Error> {
        serde_json::Deserializer::from_str(self.text).deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        serde_json::Deserializer::from_str(self.text).deserialize_any(visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::line::Event;

    #[test]
    fn the_tag_may_stand_anywhere_and_be_escaped() {
        for text in [
            r#"{"type":"agent_reasoning","text":"a \"b\""}"#,
            r#"{ "text": "a \"b\"", "type" : "agent_reasoning", "more": [1] }"#,
            r#"{"type":"agent_reasoning\u0000","text":"x","type":"agent_reasoning"}"#,
        ] {
            let event = from_str::<Event>(text);
            match event {
                Ok(Event::AgentReasoning { text }) => assert_eq!(text, "a \"b\""),
                // A member that comes twice is an error of the line.
                Err(error) => assert!(error.to_string().contains("duplicate field"), "{text}: {error}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!(matches!(from_str::<Event>(r#"{"type":"of tomorrow","x":{}}"#), Ok(Event::Other)));
        assert!(from_str::<Event>(r#"{"text":"no tag"}"#).is_err());
    }
}
