//! Part of protobuf's wire format that traces need: varints, and bytes with their length.

const VARINT: u64 = 0;
const BYTES: u64 = 2;

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub(super) fn number(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field) << 3 | VARINT);
        self.varint(value);
        self
    }

    pub(super) fn text(self, field: u32, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    pub(super) fn message(self, field: u32, message: &Self) -> Self {
        self.bytes(field, &message.bytes)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.varint(u64::from(field) << 3 | BYTES);
        self.varint(bytes.len() as u64);
        self.bytes.extend(bytes);
        self
    }

    /// Seven bits at a time, the lowest first; all but the last have the high bit set.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

/// A field that was read.
#[cfg(test)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, as its writer had them.
#[cfg(test)]
pub(super) fn fields(mut bytes: &[u8]) -> Vec<(u32, Field<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = take_varint(&mut bytes);
        let number = take_varint(&mut bytes);
        let field = match key & 7 {
            VARINT => Field::Number(number),
            BYTES => {
                let (text, rest) = bytes.split_at(number as usize);
                bytes = rest;
                Field::Bytes(text)
            }
            other => panic!("wire type {other}"),
        };
        fields.push(((key >> 3) as u32, field));
    }
    fields
}

#[cfg(test)]
fn take_varint(bytes: &mut &[u8]) -> u64 {
    let length = 1 + bytes.iter().position(|byte| byte & 0x80 == 0).expect("a last byte");
    let (varint, rest) = bytes.split_at(length);
    *bytes = rest;
    varint.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let inner = Message::default().text(23, "matmul");
            let bytes = Message::default().number(8, value).message(11, &inner).into_bytes();
            let [(8, Field::Number(read)), (11, Field::Bytes(inside))] = fields(&bytes)[..] else {
                panic!("{bytes:?}");
            };
            assert_eq!(read, value);
            assert_eq!(fields(inside), [(23, Field::Bytes(b"matmul"))]);
        }
    }

    #[test]
    fn a_varint_is_as_the_protocol_has_it() {
        assert_eq!(Message::default().number(1, 150).into_bytes(), [0x08, 0x96, 0x01]);
        assert_eq!(Message::default().text(2, "hi").into_bytes(), [0x12, 2, b'h', b'i']);
    }
}
