//! Types of other crates as text in the plan, for `#[serde(with = ..)]`.

/// A type that is written as its name.
macro_rules! by_name {
    ($module:ident, $type:ty, $what:literal, $name:expr, $from_name:expr) => {
        pub(super) mod $module {
            use serde::{Deserialize, Deserializer, Serializer, de::Error};

            pub(in super::super) fn serialize<S: Serializer>(
                value: &$type,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serializer.serialize_str($name(*value))
            }

            pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<$type, D::Error> {
                let name = String::deserialize(deserializer)?;
                $from_name(&name).ok_or_else(|| {
                    D::Error::custom(format!(concat!($what, " {:?} is unknown"), name))
                })
            }
        }
    };
}

by_name!(
    format,
    spyre_numerics::DataFormat,
    "format",
    spyre_numerics::DataFormat::name,
    |name: &str| spyre_numerics::DataFormat::ALL.into_iter().find(|format| format.name() == name)
);

by_name!(
    dtype,
    spyre_numerics::DType,
    "dtype",
    spyre_numerics::DType::name,
    spyre_numerics::DType::from_name
);

by_name!(profile, spyre_numerics::Profile, "profile", super::profile_name, super::profile_of);

fn profile_name(profile: spyre_numerics::Profile) -> &'static str {
    match profile {
        spyre_numerics::Profile::Open => "open",
        spyre_numerics::Profile::Card => "card",
    }
}

fn profile_of(name: &str) -> Option<spyre_numerics::Profile> {
    match name {
        "open" => Some(spyre_numerics::Profile::Open),
        "card" => Some(spyre_numerics::Profile::Card),
        _ => None,
    }
}

/// Bytes as hexadecimal digits.
pub(super) mod hex {
    use std::fmt::Write;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(in super::super) fn serialize<S: Serializer>(
        bytes: &[u8],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(2 * bytes.len());
        for byte in bytes {
            let _ = write!(text, "{byte:02x}"); // a String takes everything
        }
        serializer.serialize_str(&text)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (pairs, rest) = text.as_bytes().as_chunks();
        let bytes: Option<Vec<u8>> = pairs.iter().map(|[high, low]| byte(*high, *low)).collect();
        let whole = bytes.filter(|_| rest.is_empty());
        whole.ok_or_else(|| D::Error::custom("bytes are pairs of the digits 0 to 9 and a to f"))
    }

    fn byte(high: u8, low: u8) -> Option<u8> {
        let digit = |code: u8| match code {
            b'0'..=b'9' => Some(code - b'0'),
            b'a'..=b'f' => Some(code - b'a' + 10),
            _ => None,
        };
        Some(digit(high)? << 4 | digit(low)?)
    }
}
