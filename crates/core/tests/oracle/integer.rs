//! Whole numbers of any size, for the oracle's exact fractions: add, subtract, multiply, compare.
//!
//! Why: products of an instant, a count and a period can exceed 128 bits. Numbers that fit stay
//! an `i128` (fast); others are kept as a sign and 32-bit digits, worked the way one does on paper.
//!
//! It must never round or wrap, and must never look at or call the implementation.

// A digit is cut out of a wider number on purpose.
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)]

use std::cmp::Ordering;
use std::ops::{Add, Mul, Sub};

/// A whole number of any size.
#[derive(Debug, Clone)]
pub enum Integer {
    Small(i128),
    /// Digits in base 2^32, least significant first; only for what does not fit in `Small`.
    Large {
        negative: bool,
        digits: Vec<u32>,
    },
}

use Integer::{Large, Small};

impl From<i128> for Integer {
    fn from(value: i128) -> Self {
        Small(value)
    }
}

impl From<u64> for Integer {
    fn from(value: u64) -> Self {
        Small(i128::from(value))
    }
}

impl Integer {
    fn parts(&self) -> (bool, Vec<u32>) {
        match self {
            Small(value) => (*value < 0, digits_of(value.unsigned_abs())),
            Large { negative, digits } => (*negative, digits.clone()),
        }
    }

    fn from_parts(negative: bool, mut digits: Vec<u32>) -> Self {
        while digits.last() == Some(&0) {
            digits.pop();
        }
        if digits.len() <= 4 {
            let mut magnitude: u128 = 0;
            for digit in digits.iter().rev() {
                magnitude = magnitude << 32 | u128::from(*digit);
            }
            if let Ok(value) = i128::try_from(magnitude) {
                return Small(if negative { -value } else { value });
            }
        }
        Large { negative, digits }
    }

    fn negated(&self) -> Self {
        let (negative, digits) = self.parts();
        Self::from_parts(!negative, digits)
    }

    fn add_slowly(&self, other: &Self) -> Self {
        let (negative, digits) = self.parts();
        let (other_negative, other_digits) = other.parts();
        if negative == other_negative {
            return Self::from_parts(negative, add_digits(&digits, &other_digits));
        }
        if compare_digits(&digits, &other_digits) == Ordering::Less {
            return Self::from_parts(other_negative, subtract_digits(&other_digits, &digits));
        }
        Self::from_parts(negative, subtract_digits(&digits, &other_digits))
    }

    fn multiply_slowly(&self, other: &Self) -> Self {
        let (negative, digits) = self.parts();
        let (other_negative, other_digits) = other.parts();
        Self::from_parts(negative != other_negative, multiply_digits(&digits, &other_digits))
    }

    fn compare_slowly(&self, other: &Self) -> Ordering {
        match self.add_slowly(&other.negated()).parts() {
            (_, digits) if digits.is_empty() => Ordering::Equal,
            (true, _) => Ordering::Less,
            (false, _) => Ordering::Greater,
        }
    }
}

impl Add for &Integer {
    type Output = Integer;
    fn add(self, other: &Integer) -> Integer {
        if let (Small(left), Small(right)) = (self, other)
            && let Some(sum) = left.checked_add(*right)
        {
            return Small(sum);
        }
        self.add_slowly(other)
    }
}

impl Sub for &Integer {
    type Output = Integer;
    fn sub(self, other: &Integer) -> Integer {
        if let (Small(left), Small(right)) = (self, other)
            && let Some(difference) = left.checked_sub(*right)
        {
            return Small(difference);
        }
        self.add_slowly(&other.negated())
    }
}

impl Mul for &Integer {
    type Output = Integer;
    fn mul(self, other: &Integer) -> Integer {
        if let (Small(left), Small(right)) = (self, other)
            && let Some(product) = left.checked_mul(*right)
        {
            return Small(product);
        }
        self.multiply_slowly(other)
    }
}

impl Ord for Integer {
    fn cmp(&self, other: &Self) -> Ordering {
        if let (Small(left), Small(right)) = (self, other) {
            return left.cmp(right);
        }
        self.compare_slowly(other)
    }
}

impl PartialOrd for Integer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Integer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Integer {}

fn digits_of(mut magnitude: u128) -> Vec<u32> {
    let mut digits = Vec::new();
    while magnitude > 0 {
        digits.push(magnitude as u32);
        magnitude >>= 32;
    }
    digits
}

fn add_digits(left: &[u32], right: &[u32]) -> Vec<u32> {
    let mut sum = Vec::new();
    let mut carry = 0;
    for position in 0..left.len().max(right.len()) {
        let digit = |digits: &[u32]| u64::from(digits.get(position).copied().unwrap_or(0));
        carry += digit(left) + digit(right);
        sum.push(carry as u32);
        carry >>= 32;
    }
    sum.push(carry as u32);
    sum
}

/// `left − right`, where `left` is not the smaller one.
fn subtract_digits(left: &[u32], right: &[u32]) -> Vec<u32> {
    let mut difference = Vec::new();
    let mut borrow = 0;
    for (position, left_digit) in left.iter().enumerate() {
        let taken = i64::from(right.get(position).copied().unwrap_or(0)) + borrow;
        let digit = i64::from(*left_digit) - taken;
        borrow = i64::from(digit < 0);
        difference.push((digit + (borrow << 32)) as u32);
    }
    assert_eq!(borrow, 0, "the smaller one is subtracted from the larger one");
    difference
}

fn multiply_digits(left: &[u32], right: &[u32]) -> Vec<u32> {
    let mut product = vec![0_u32; left.len() + right.len()];
    for (left_position, left_digit) in left.iter().enumerate() {
        let mut carry = 0_u64;
        for (right_position, right_digit) in right.iter().enumerate() {
            let place = &mut product[left_position + right_position];
            carry += u64::from(*left_digit) * u64::from(*right_digit) + u64::from(*place);
            *place = carry as u32;
            carry >>= 32;
        }
        product[left_position + right.len()] = carry as u32;
    }
    product
}

/// Compares digits without leading zeros.
fn compare_digits(left: &[u32], right: &[u32]) -> Ordering {
    left.len().cmp(&right.len()).then_with(|| left.iter().rev().cmp(right.iter().rev()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of very different sizes, and both signs.
    fn samples() -> Vec<i128> {
        let mut samples = vec![0, 1, -1, i128::MAX, i128::MIN + 1];
        let mut state = 1_u128;
        for shift in 0..120 {
            state = state.wrapping_mul(0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645).wrapping_add(99);
            let value = (state >> 1) as i128 >> shift;
            samples.extend([value, -value]);
        }
        samples
    }

    #[test]
    fn slow_and_fast_paths_agree() {
        for left in samples() {
            for right in samples() {
                let (large_left, large_right) = (Small(left), Small(right));
                assert_eq!(large_left.compare_slowly(&large_right), left.cmp(&right));
                if let Some(sum) = left.checked_add(right) {
                    assert_eq!(large_left.add_slowly(&large_right), Small(sum));
                }
                if let Some(product) = left.checked_mul(right) {
                    assert_eq!(large_left.multiply_slowly(&large_right), Small(product));
                }
            }
        }
    }

    #[test]
    fn large_numbers_obey_the_laws() {
        for left in samples() {
            for right in samples() {
                let (left, right) = (Small(left), Small(right));
                // (a + b) × (a − b) = a × a − b × b
                let product = &(&left + &right) * &(&left - &right);
                assert_eq!(product, &(&left * &left) - &(&right * &right));
                assert_eq!(&(&left + &right) - &right, left);
            }
        }
    }

    #[test]
    fn known_product() {
        // (2^100 + 1)² = 2^200 + 2^101 + 1
        let number = Small((1 << 100) + 1);
        let digits = vec![1, 0, 0, 1 << 5, 0, 0, 1 << 8];
        assert_eq!((&number * &number).parts(), (false, digits));
        assert!(&number * &number > Small(i128::MAX));
        assert!((&number * &number).negated() < Small(i128::MIN));
    }
}
