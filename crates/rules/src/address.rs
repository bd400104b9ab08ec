//! IP addresses: networks for `when`, and grouping for keys such as `ip/64`.
//!
//! An IPv4-mapped IPv6 address is the IPv4 address that it carries, everywhere. Writing a group's text
//! never allocates: it is made on the path of a decision.

use std::fmt::{self, Write};
use std::net::{IpAddr, Ipv6Addr};

/// Reads an address as proxies and sockets write it: `192.0.2.7`, `192.0.2.7:5000`, `2001:db8::1`,
/// `[2001:db8::1]`, `[2001:db8::1]:5000`, `fe80::1%eth0`. Ports and zones are dropped, IPv4-mapped addresses become
/// IPv4. A list of addresses isn't one.
pub(crate) fn parse_address(text: &str) -> Option<IpAddr> {
    match text.parse::<IpAddr>() {
        Ok(address) => Some(address.to_canonical()),
        Err(_) => parse_decorated(text),
    }
}

/// With a port, brackets or a zone.
#[cold]
fn parse_decorated(text: &str) -> Option<IpAddr> {
    let address = if let Some(rest) = text.strip_prefix('[') {
        let (inner, after) = rest.split_once(']')?;
        if !after.is_empty() && !after.strip_prefix(':').is_some_and(is_port) {
            return None;
        }
        IpAddr::V6(parse_zoned(inner)?)
    } else if let Some((address, port)) = text.split_once(':').filter(|(address, _)| address.contains('.')) {
        IpAddr::V4(address.parse().ok().filter(|_| is_port(port))?)
    } else {
        IpAddr::V6(parse_zoned(text)?)
    };
    Some(address.to_canonical())
}

/// An IPv6 address, with or without a zone.
fn parse_zoned(text: &str) -> Option<Ipv6Addr> {
    let Some((address, zone)) = text.split_once('%') else { return text.parse().ok() };
    let is_zone = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'~' | b'-' | b'%');
    address.parse().ok().filter(|_| !zone.is_empty() && zone.bytes().all(is_zone))
}

fn is_port(text: &str) -> bool {
    text.len() <= 5 && text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

/// What an address is counted and compared as.
pub(crate) enum Canonical {
    /// The text is it already.
    AsWritten,
    Rewritten(AddressText),
}

/// Returns the one spelling that all spellings of an address have in common; `None` when it isn't an address.
pub(crate) fn canonical(text: &str) -> Option<Canonical> {
    match parse_address(text)? {
        // Dotted decimal has one spelling only, and no other text of an IPv4 address is as short.
        IpAddr::V4(address) if text.len() == dotted_length(address) => Some(Canonical::AsWritten),
        address => {
            let mut written = AddressText::EMPTY;
            write!(written, "{address}").ok()?;
            match written.as_str() == text {
                true => Some(Canonical::AsWritten),
                false => Some(Canonical::Rewritten(written)),
            }
        }
    }
}

/// How long the dotted decimal of an address is.
fn dotted_length(address: std::net::Ipv4Addr) -> usize {
    let digits = |octet: u8| 1 + usize::from(octet > 9) + usize::from(octet > 99);
    3 + address.octets().into_iter().map(digits).sum::<usize>()
}

/// A network such as `10.0.0.0/8`. Bits beyond the prefix are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cidr {
    V4 { network: u32, mask: u32 },
    V6 { network: u128, mask: u128 },
}

impl Cidr {
    /// `None` when it isn't an address, a `/` and a prefix length that the address has.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        if length.is_empty() || length.len() > 3 || !length.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        Self::of(address.parse().ok()?, length.parse().ok()?)
    }

    fn of(address: IpAddr, length: u32) -> Option<Self> {
        const MAPPED_PREFIX: u32 = 96;
        match address {
            IpAddr::V4(address) if length <= 32 => {
                let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
                Some(Cidr::V4 { network: address.to_bits() & mask, mask })
            }
            IpAddr::V6(address) if length <= 128 => match address.to_ipv4_mapped() {
                Some(mapped) if length >= MAPPED_PREFIX => Self::of(mapped.into(), length - MAPPED_PREFIX),
                _ => {
                    let mask = prefix_mask(length);
                    Some(Cidr::V6 { network: address.to_bits() & mask, mask })
                }
            },
            _ => None,
        }
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        match (*self, address) {
            (Cidr::V4 { network, mask }, IpAddr::V4(address)) => address.to_bits() & mask == network,
            (Cidr::V6 { network, mask }, IpAddr::V6(address)) => address.to_bits() & mask == network,
            _ => false,
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Cidr::V4 { network, mask } => {
                write!(f, "{}/{}", std::net::Ipv4Addr::from_bits(network), mask.count_ones())
            }
            Cidr::V6 { network, mask } => write!(f, "{}/{}", Ipv6Addr::from_bits(network), mask.count_ones()),
        }
    }
}

/// Whether somebody most likely meant a network: digits and dots, or hex and colons, then `/` and digits.
pub(crate) fn looks_like_cidr(text: &str) -> bool {
    let Some((address, length)) = text.rsplit_once('/') else { return false };
    let dotted =
        address.matches('.').count() >= 2 && address.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let colons = address.matches(':').count() >= 2
        && address.bytes().all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'));
    (dotted || colons) && length.bytes().all(|b| b.is_ascii_digit())
}

fn prefix_mask(length: u32) -> u128 {
    u128::MAX.checked_shl(128 - length).unwrap_or(0)
}

/// The longest text: 39 characters of IPv6 and `/127`.
const TEXT_BYTES_MAX: usize = 48;

/// The text of an address or a group of addresses, on the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressText {
    bytes: [u8; TEXT_BYTES_MAX],
    length: usize,
}

impl AddressText {
    const EMPTY: AddressText = AddressText { bytes: [0; TEXT_BYTES_MAX], length: 0 };

    pub(crate) fn as_str(&self) -> &str {
        // Only whole `&str`s were written, so this is always UTF-8.
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or("")
    }
}

impl Write for AddressText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// The group that an address belongs to: IPv6 by its first `prefix_length` bits (`2001:db8::/64`), IPv4
/// whole. `None` when the text isn't an address.
pub(crate) fn group_of(text: &str, prefix_length: u8) -> Option<AddressText> {
    let mut group = AddressText::EMPTY;
    match parse_address(text)? {
        IpAddr::V6(address) if prefix_length < 128 => {
            let network = address.to_bits() & prefix_mask(u32::from(prefix_length));
            write!(group, "{}/{prefix_length}", Ipv6Addr::from_bits(network)).ok()?;
        }
        address => write!(group, "{address}").ok()?,
    }
    Some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(text: &str, prefix_length: u8) -> Option<String> {
        group_of(text, prefix_length).map(|group| group.as_str().to_owned())
    }

    #[test]
    fn ipv6_is_grouped_by_its_prefix_and_ipv4_stays_whole() {
        let same = group("2001:db8:1:2:3:4:5:6", 64);
        assert_eq!(same.as_deref(), Some("2001:db8:1:2::/64"));
        assert_eq!(group("2001:0DB8:1:2::ffff", 64), same);
        assert_ne!(group("2001:db8:1:3::1", 64), same);
        assert_eq!(group("192.0.2.7", 64).as_deref(), Some("192.0.2.7"));
        assert_eq!(group("::ffff:192.0.2.7", 64).as_deref(), Some("192.0.2.7"));
        assert_eq!(group("2001:db8::1", 128).as_deref(), Some("2001:db8::1"));
        assert_eq!(group("ffff::", 1).as_deref(), Some("8000::/1"));
    }

    #[test]
    fn the_longest_address_fits() {
        let longest = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        assert_eq!(group(longest, 127).unwrap().len(), 43);
    }

    #[test]
    fn what_is_no_address_has_no_group() {
        for text in [
            "",
            "42",
            "1.2.3",
            "01.2.3.4",
            " 1.2.3.4",
            "1.2.3.4:",
            "1.2.3.4:65536",
            "1.2.3.4:+80",
            "1.2.3.4:80:80",
            "6.6.6.6, 7.7.7.7",
            "6.6.6.6,7.7.7.7",
            "1.2.3.4%eth0",
            "[1.2.3.4]",
            "[::1",
            "[::1]80",
            "[::1]:",
            "[::1]:http",
            "[[::1]]",
            "::1%",
            "fe80::1%a b",
            "::1]:80",
            "localhost:80",
            "unix:/run/x",
        ] {
            assert_eq!(group(text, 64), None, "{text}");
            assert!(canonical(text).is_none(), "{text}");
        }
    }

    #[test]
    fn ports_brackets_and_zones_are_dropped() {
        for (text, expected) in [
            ("1.2.3.4:5000", "1.2.3.4"),
            ("1.2.3.4:0", "1.2.3.4"),
            ("[2001:db8::3]", "2001:db8::3"),
            ("[2001:DB8:0::3]:65535", "2001:db8::3"),
            ("fe80::1%eth0", "fe80::1"),
            ("[fe80::1%25eth0]:443", "fe80::1"),
            ("[::ffff:1.2.3.4]:80", "1.2.3.4"),
            ("::ffff:1.2.3.4", "1.2.3.4"),
            ("0:0:0:0:0:0:0:1", "::1"),
            ("::0001", "::1"),
        ] {
            match canonical(text) {
                Some(Canonical::Rewritten(written)) => assert_eq!(written.as_str(), expected, "{text}"),
                _ => panic!("{text}"),
            }
            assert!(matches!(canonical(expected), Some(Canonical::AsWritten)), "{expected}");
        }
    }

    proptest::proptest! {
        #[test]
        fn an_address_is_what_the_standard_library_says_however_it_is_decorated(
            bits in proptest::prelude::any::<u128>(),
            is_v4 in proptest::prelude::any::<bool>(),
            port in proptest::prelude::any::<u16>(),
        ) {
            let address = match is_v4 {
                true => IpAddr::from(std::net::Ipv4Addr::from_bits((bits & 0xffff_ffff) as u32)),
                false => IpAddr::from(Ipv6Addr::from_bits(bits)),
            };
            let expected = Some(address.to_canonical());
            let socket = std::net::SocketAddr::new(address, port).to_string();
            proptest::prop_assert_eq!(parse_address(&address.to_string()), expected);
            proptest::prop_assert_eq!(parse_address(&socket), expected);
            if !is_v4 {
                proptest::prop_assert_eq!(parse_address(&format!("{address}%eth0")), expected);
                proptest::prop_assert_eq!(parse_address(&format!("[{address}]")), expected);
            }
        }

        #[test]
        fn whatever_the_text_reading_it_ends(text in "[0-9a-f:.%,\\[\\] ]{0,40}") {
            if let Some(address) = parse_address(&text) {
                // Its own text is the same address, and canonical.
                proptest::prop_assert_eq!(parse_address(&address.to_string()), Some(address));
                proptest::prop_assert!(matches!(canonical(&address.to_string()), Some(Canonical::AsWritten)));
            }
        }
    }

    #[test]
    fn a_network_holds_its_addresses_mapped_ones_too() {
        for (cidr, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.1.2.3/8", "10.9.9.9", true),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("::ffff:10.0.0.0/104", "10.1.1.1", true),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("192.0.2.7/32", "192.0.2.7", true),
        ] {
            let address = parse_address(address).unwrap();
            assert_eq!(Cidr::parse(cidr).unwrap().contains(address), expected, "{cidr} {address}");
        }
    }

    #[test]
    fn a_broken_network_is_recognised_as_one_and_a_path_is_not() {
        for text in ["10.0.0.0/33", "10.0.0/8", "300.0.0.0/8", "2001:db8::/129", "10.0.0.0/"] {
            assert!(looks_like_cidr(text) && Cidr::parse(text).is_none(), "{text}");
        }
        for text in ["/search/1", "v1.2/3", "a/b", "1/2", "x.y.z/8", "10.0.0.0/8x"] {
            assert!(!looks_like_cidr(text), "{text}");
        }
    }
}
