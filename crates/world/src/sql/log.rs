//! What an entry of the log carries: the components that one statement wrote, packed.
//!
//! The log is why importing costs the database so little: a row for each publish instead of one for each cell,
//! read once by each region. A byte for the version, then for each cell 16 bytes of key and five numbers of
//! seven bits a byte: epoch, sequence, count, limit, and when it expires, in milliseconds.

use crate::{CellId, Component, OwnerId, Row};
use tidegate_core::{KeyId, Nanos, Sequence};

const VERSION: u8 = 1;
/// Of a number of 64 bits, seven in each byte.
const NUMBER_BYTES_MAX: u32 = 10;

pub(super) fn pack<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<u8> {
    let mut payload = vec![VERSION];
    for Row { cell, count, limit, expires, .. } in rows {
        payload.extend_from_slice(&cell.key.get().to_be_bytes());
        for number in [u64::from(cell.epoch), cell.sequence.0, *count, *limit, expires.as_millis_ceil()] {
            put(&mut payload, number);
        }
    }
    payload
}

/// `None` when it is nothing that [`pack`] makes.
pub(super) fn unpack(owner: OwnerId, payload: &[u8]) -> Option<Vec<Component>> {
    let (version, mut rest) = payload.split_first()?;
    let mut components = Vec::with_capacity(rest.len() / 30);
    while *version == VERSION && !rest.is_empty() {
        let (key, after) = rest.split_first_chunk::<16>()?;
        rest = after;
        let mut numbers = [0; 5];
        for number in &mut numbers {
            (*number, rest) = take(rest)?;
        }
        let [epoch, sequence, count, limit, expires_ms] = numbers;
        let key = KeyId::from_hash(u128::from_be_bytes(*key));
        let cell = CellId { key, epoch: u16::try_from(epoch).ok()?, sequence: Sequence(sequence) };
        components.push(Component { owner, cell, count, limit, expires: Nanos::from_millis(expires_ms) });
    }
    (*version == VERSION).then_some(components)
}

fn put(payload: &mut Vec<u8>, mut number: u64) {
    loop {
        let seven = (number & 0x7f).to_le_bytes()[0];
        number >>= 7;
        if number == 0 {
            return payload.push(seven);
        }
        payload.push(seven | 0x80);
    }
}

fn take(mut bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for place in 0..NUMBER_BYTES_MAX {
        let (byte, rest) = bytes.split_first()?;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((number, rest));
        }
        bytes = rest;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u64) -> Row {
        let key = KeyId::from_hash(u128::from(number) << 64 | 5);
        let cell = CellId { key, epoch: u16::MAX, sequence: Sequence(number) };
        Row { cell, count: number, limit: u64::MAX - number, expires: Nanos::from_millis(number), name: None }
    }

    #[test]
    fn what_is_packed_is_unpacked_again() {
        let rows: Vec<Row> = [0, 1, 127, 128, 1 << 40, (1 << 44) - 1].map(row).into();
        let payload = pack(rows.iter());
        let components = unpack(OwnerId(7), &payload).unwrap();
        assert_eq!(components.len(), rows.len());
        for (row, component) in rows.iter().zip(components) {
            let Row { cell, count, limit, expires, .. } = *row;
            assert_eq!(component, Component { owner: OwnerId(7), cell, count, limit, expires });
        }
        assert_eq!(unpack(OwnerId(7), &pack([].iter())), Some(Vec::new()));
    }

    #[test]
    fn a_payload_that_is_cut_off_or_of_another_version_is_refused() {
        let payload = pack([row(1 << 40), row(3)].iter());
        let whole: Vec<usize> =
            (0..payload.len()).filter(|end| unpack(OwnerId(1), &payload[..*end]).is_some()).collect();
        assert_eq!(whole.len(), 2, "after the version, and between the cells");
        assert_eq!(unpack(OwnerId(1), &[2]), None);
        assert_eq!(unpack(OwnerId(1), &[&[1][..], &[0; 16], &[0xff; 20]].concat()), None);
    }
}
