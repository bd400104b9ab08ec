//! Entries of the log of publishes, unpacked without the code that is measured: the version, then of each cell 16
//! bytes of key and five numbers of seven bits a byte.

use crate::ledger::Component;

const VERSION: u8 = 1;

/// An owner and hexadecimal digits.
pub(crate) fn read(line: &str) -> Option<Vec<Component>> {
    let (owner, digits) = line.split_once(' ')?;
    let owner = owner.parse().ok()?;
    let bytes: Option<Vec<u8>> = (0..digits.len() / 2)
        .map(|byte| u8::from_str_radix(digits.get(2 * byte..2 * byte + 2)?, 16).ok())
        .collect();
    let mut bytes = bytes?.into_iter();
    if bytes.next() != Some(VERSION) {
        return None;
    }
    let mut components = Vec::new();
    while bytes.len() > 0 {
        let key = (0..16).try_fold(0_u128, |key, _| Some(key << 8 | u128::from(bytes.next()?)))?;
        let [epoch, sequence, count, _limit, _expires] = [(); 5].map(|()| number(&mut bytes));
        components.push(Component { key, epoch: epoch?, sequence: sequence?, owner, count: count? });
    }
    Some(components)
}

fn number(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut number = 0;
    for place in 0..10 {
        let byte = bytes.next()?;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
