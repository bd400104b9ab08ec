//! A request made once, with places for a key: sending one is a copy and twelve digits each.
//!
//! Keys have the same length all, so that lengths within the request stay true.

/// What stands for the key in what people write.
pub(crate) const PLACEHOLDER: &str = "{key}";
const DIGITS: usize = 12;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    /// Where keys go.
    places: Vec<usize>,
}

impl Template {
    /// Of a text with placeholders.
    pub(crate) fn of(text: &str) -> Self {
        let mut template = Template::default();
        for (index, piece) in text.split(PLACEHOLDER).enumerate() {
            if index > 0 {
                template.push_key();
            }
            template.push(piece.as_bytes());
        }
        template
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn push_key(&mut self) {
        self.places.push(self.bytes.len());
        self.bytes.extend_from_slice(&[b'0'; DIGITS]);
    }

    pub(crate) fn append(&mut self, other: &Template) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.places.extend(other.places.iter().map(|place| start + place));
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the request for a key.
    #[inline]
    pub(crate) fn write(&self, key: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let digits = digits(key);
        for place in &self.places {
            out[start + place..start + place + DIGITS].copy_from_slice(&digits);
        }
    }
}

#[inline]
fn digits(mut key: u64) -> [u8; DIGITS] {
    let mut digits = [b'0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(key % 10).unwrap_or(0);
        key /= 10;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_placeholder_becomes_the_key_and_the_length_stays() {
        let mut template = Template::of("a{key}b");
        template.append(&Template::of("{key}"));
        let mut out = b"before ".to_vec();
        template.write(42, &mut out);
        assert_eq!(out, b"before a000000000042b000000000042");
        assert_eq!(template.len(), 26);
    }
}
