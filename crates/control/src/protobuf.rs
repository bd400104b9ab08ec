//! Protobuf's wire format, as much of it as a few small messages need: fields read one by one, borrowed;
//! messages written into one buffer.
//!
//! Takes any bytes and never recurses by itself. Groups, which proto3 doesn't have, are refused.

/// What is wrong with bytes that should be a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtobufError(pub &'static str);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'b> {
    Number(u64),
    /// A text, bytes, or a message.
    Bytes(&'b [u8]),
    /// Of a fixed width: no message here has such a field.
    Fixed,
}

impl<'b> Value<'b> {
    /// Of a field that may be a text of another type by mistake: then there is none.
    pub fn text(self) -> Result<Option<&'b str>, ProtobufError> {
        match self {
            Value::Bytes(bytes) => {
                std::str::from_utf8(bytes).map(Some).map_err(|_| ProtobufError("a text is not valid UTF-8"))
            }
            Value::Number(_) | Value::Fixed => Ok(None),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    pub const fn new(bytes: &'b [u8]) -> Self {
        Reader(bytes)
    }

    /// The next field's number and value; `None` at the end.
    #[inline]
    pub fn field(&mut self) -> Result<Option<(u64, Value<'b>)>, ProtobufError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 || number >= 1 << 29 {
            return Err(ProtobufError("a field's number is out of range"));
        }
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return Err(ProtobufError("a field is of a type that proto3 doesn't have")),
        };
        Ok(Some((number, value)))
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut number = 0;
        for (index, byte) in self.0.iter().enumerate().take(10) {
            let bits = u64::from(byte & 0x7f);
            if index == 9 && bits > 1 {
                break;
            }
            number |= bits << (7 * index);
            if byte & 0x80 == 0 {
                self.0 = &self.0[index + 1..];
                return Ok(number);
            }
        }
        Err(ProtobufError("a number is cut off or too long"))
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], ProtobufError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(ProtobufError("a field is cut off"))?;
        self.0 = rest;
        Ok(taken)
    }
}

/// Of a `uint32`: parsers keep the low bits of what is larger.
pub fn low_u32(number: u64) -> u32 {
    u32::try_from(number & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

/// Appends a number, but not 0, which proto3 leaves out.
pub fn put_number(out: &mut Vec<u8>, field: u8, number: u64) {
    if number != 0 {
        out.push(field << 3);
        put_varint(out, number);
    }
}

/// Appends bytes or a text, also empty ones.
pub fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a message that `fill` writes.
pub fn put_message(out: &mut Vec<u8>, field: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    out.push(field << 3 | 2);
    let length_at = out.len();
    out.push(0);
    fill(out);
    let length = out.len() - length_at - 1;
    match u8::try_from(length) {
        Ok(short @ 0..=0x7f) => out[length_at] = short,
        // Longer than nearly all: the length takes more than the one byte that was kept for it.
        _ => {
            let mut bytes = Vec::with_capacity(10);
            put_varint(&mut bytes, length as u64);
            out.splice(length_at..=length_at, bytes);
        }
    }
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let low = number.to_le_bytes()[0] & 0x7f;
        number >>= 7;
        if number == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_field_comes_back(field in 1_u8..16, number in 1_u64.., bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut out = Vec::new();
            put_number(&mut out, field, number);
            put_bytes(&mut out, field, &bytes);
            put_message(&mut out, field, |out| put_bytes(out, 1, &bytes));
            let mut reader = Reader::new(&out);
            let field = u64::from(field);
            prop_assert_eq!(reader.field(), Ok(Some((field, Value::Number(number)))));
            prop_assert_eq!(reader.field(), Ok(Some((field, Value::Bytes(&bytes)))));
            let Ok(Some((_, Value::Bytes(message)))) = reader.field() else { panic!("a message") };
            prop_assert_eq!(Reader::new(message).field(), Ok(Some((1, Value::Bytes(&bytes)))));
            prop_assert_eq!(reader.field(), Ok(None));
        }

        #[test]
        fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = Reader::new(&bytes);
            let fields = (0..100).take_while(|_| matches!(reader.field(), Ok(Some(_)))).count();
            prop_assert!(fields <= bytes.len());
        }
    }

    #[test]
    fn what_no_writer_writes_is_malformed() {
        let cases: [&[u8]; 8] = [
            &[0x08],
            &[0x0a, 5, 1],
            &[0x00, 0],
            &[0x0b],
            &[0x0c],
            &[0x09, 1, 2],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        ];
        for bytes in cases {
            assert!(Reader::new(bytes).field().is_err(), "{bytes:?}");
        }
    }
}
