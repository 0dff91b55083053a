//! How messages cross between page and workers, and how JSON becomes types: as text, read through [`serde_json::Value`].
//!
//! Every type of the schema is read by one deserializer, [`from_value`], and written by one serializer, [`serde_json::to_value`]: what lies around them
//! (text in, text out, pretty or not) knows values only and exists once. Each further deserializer would cost the page a copy of every type's
//! reading code. It is stricter than serde's own in one point: a struct is an object, never a list of its fields.

use serde::Serialize;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use serde_json::{Error, Map, Value};

/// A message as text.
///
/// # Errors
/// A map whose keys are no text; the schema has none.
pub fn to_text<T: Serialize>(message: &T) -> Result<String, Error> {
    Ok(serde_json::to_value(message)?.to_string())
}

/// The same over several lines, for files that people read.
///
/// # Errors
/// As with [`to_text`].
pub fn to_pretty<T: Serialize>(message: &T) -> Result<String, Error> {
    Ok(format!("{:#}", serde_json::to_value(message)?))
}

/// Reads what [`to_text`] wrote. Where a number stands as `null`, which is how JSON writes one without a value, it comes back without a value (NaN).
///
/// # Errors
/// Not JSON, or not a `T`.
pub fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    T::deserialize(Plain { value: serde_json::from_str(text)?, blanks: true })
}

/// Reads a value as a type of the schema; a number has to be one.
///
/// # Errors
/// The value is not a `T`; the message says what was found and expected.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    T::deserialize(Plain { value, blanks: false })
}

/// A value to be read.
struct Plain {
    value: Value,
    /// `null` is a number without a value.
    blanks: bool,
}

impl Plain {
    #[cold]
    fn wrong(self, expected: &dyn serde::de::Expected) -> Error {
        let found = match &self.value {
            Value::Null => Unexpected::Unit,
            Value::Bool(on) => Unexpected::Bool(*on),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(whole), _) => Unexpected::Unsigned(whole),
                (_, Some(whole)) => Unexpected::Signed(whole),
                _ => Unexpected::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => Unexpected::Str(text),
            Value::Array(_) => Unexpected::Seq,
            Value::Object(_) => Unexpected::Map,
        };
        Error::invalid_type(found, expected)
    }

    fn number<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let Value::Number(number) = &self.value else { return Err(self.wrong(&visitor)) };
        match (number.as_u64(), number.as_i64()) {
            (Some(whole), _) => visitor.visit_u64(whole),
            (_, Some(whole)) => visitor.visit_i64(whole),
            _ => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    fn float<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.value {
            Value::Number(number) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            Value::Null if self.blanks => visitor.visit_f64(f64::NAN),
            _ => Err(self.wrong(&visitor)),
        }
    }

    fn text<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::String(text) => visitor.visit_string(text),
            _ => Err(self.wrong(&visitor)),
        }
    }

    fn list<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let Value::Array(items) = self.value else { return Err(self.wrong(&visitor)) };
        let many = items.len();
        let mut items = Items { rest: items.into_iter(), blanks: self.blanks };
        let read = visitor.visit_seq(&mut items)?;
        if items.rest.len() == 0 { Ok(read) } else { Err(Error::invalid_length(many, &"fewer elements in the list")) }
    }

    fn fields<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let Value::Object(fields) = self.value else { return Err(self.wrong(&visitor)) };
        visitor.visit_map(Fields { rest: fields.into_iter(), value: Value::Null, blanks: self.blanks })
    }
}

/// Methods of [`Deserializer`] that are the same but for their name.
macro_rules! read_as {
    ($how:ident: $($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.$how(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for Plain {
    type Error = Error;

    read_as!(number: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64);
    read_as!(number: deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64);
    read_as!(float: deserialize_f32 deserialize_f64);
    read_as!(text: deserialize_char deserialize_str deserialize_string deserialize_identifier);
    read_as!(text: deserialize_bytes deserialize_byte_buf);
    read_as!(list: deserialize_seq);
    read_as!(fields: deserialize_map);

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.value.deserialize_any(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Bool(on) => visitor.visit_bool(on),
            _ => Err(self.wrong(&visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_unit() } else { Err(self.wrong(&visitor)) }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.list(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.list(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.fields(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let inside = Plain { value: Value::Null, blanks: self.blanks };
        match self.value {
            Value::String(name) => visitor.visit_enum(Variant { name, inside }),
            Value::Object(mut fields) if fields.len() == 1 => {
                let Some((name, value)) = fields.iter_mut().next() else { return Err(inside.wrong(&visitor)) };
                let (name, value) = (name.clone(), value.take());
                visitor.visit_enum(Variant { name, inside: Plain { value, ..inside } })
            }
            _ => Err(self.wrong(&visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
}

struct Items {
    rest: std::vec::IntoIter<Value>,
    blanks: bool,
}

impl<'de> SeqAccess<'de> for Items {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(value) = self.rest.next() else { return Ok(None) };
        seed.deserialize(Plain { value, blanks: self.blanks }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

struct Fields {
    rest: <Map<String, Value> as IntoIterator>::IntoIter,
    /// Of the name that was read last.
    value: Value,
    blanks: bool,
}

impl<'de> MapAccess<'de> for Fields {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((name, value)) = self.rest.next() else { return Ok(None) };
        self.value = value;
        seed.deserialize(Plain { value: Value::String(name), blanks: false }).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(Plain { value: self.value.take(), blanks: self.blanks })
    }
}

/// A variant by its name; a name alone has nothing inside.
struct Variant {
    name: String,
    inside: Plain,
}

impl<'de> EnumAccess<'de> for Variant {
    type Error = Error;
    type Variant = Plain;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Plain), Error> {
        Ok((seed.deserialize(Plain { value: Value::String(self.name), blanks: false })?, self.inside))
    }
}

impl<'de> VariantAccess<'de> for Plain {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        if self.value.is_null() { Ok(()) } else { Err(self.wrong(&"nothing beside the name")) }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.list(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.fields(visitor)
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
