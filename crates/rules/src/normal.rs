//! Normal forms of texts: paths without their query and detours, and lower case.
//!
//! Two spellings that a server takes for the same resource get one text, so that neither misses a condition or has
//! a counter of its own. Nothing is allocated for a text that is normal already, and a normal text stays as it is.

use std::borrow::Cow;

/// Returns a path without query and fragment, with unreserved characters decoded, slashes merged and dot segments
/// resolved: `//a/./%62/../c?q` is `/a/c`. Scheme and host of `http://host/a` go too. What else is percent-encoded stays so, with upper-case digits, and a `%`
/// that encodes nothing becomes `%25`.
pub(crate) fn path(text: &str) -> Cow<'_, str> {
    let path = text.split(['?', '#']).next().unwrap_or("");
    if let Some(path) = behind_host(path) {
        return Cow::Owned(resolve(&decode(path)));
    }
    if is_normal_path(path) {
        return Cow::Borrowed(path);
    }
    Cow::Owned(resolve(&decode(path)))
}

/// The path of a request's target that names scheme and host too; `None` for all others.
fn behind_host(target: &str) -> Option<&str> {
    if target.starts_with('/') {
        return None;
    }
    let (scheme, rest) = target.split_once("://")?;
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let has_scheme = !scheme.is_empty() && scheme.bytes().all(is_scheme);
    has_scheme.then(|| rest.find('/').map_or("/", |start| &rest[start..]))
}

/// Returns a text with its ASCII letters in lower case.
pub(crate) fn lower(text: Cow<'_, str>) -> Cow<'_, str> {
    match text.bytes().any(|b| b.is_ascii_uppercase()) {
        true => Cow::Owned(text.into_owned().to_ascii_lowercase()),
        false => text,
    }
}

/// What RFC 3986 calls unreserved: encoded or not, it means the same.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// The byte that `%XX` at the start of these stands for.
fn encoded(bytes: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = bytes else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(*high)? << 4 | digit(*low)?)
}

/// Of a path without query.
fn is_normal_path(path: &str) -> bool {
    let bytes = path.as_bytes();
    let mut segment = 0;
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            b'/' => {
                if index > 0 && is_detour(&bytes[segment..index]) {
                    return false;
                }
                segment = index + 1;
            }
            b'%' => {
                let digits = bytes.get(index + 1..index + 3).unwrap_or_default();
                let is_upper = !digits.iter().any(u8::is_ascii_lowercase);
                if !is_upper || encoded(&bytes[index..]).is_none_or(is_unreserved) {
                    return false;
                }
            }
            _ => {}
        }
    }
    !matches!(&bytes[segment..], b"." | b"..")
}

/// A segment before a slash that a normal path doesn't have.
fn is_detour(segment: &[u8]) -> bool {
    matches!(segment, b"" | b"." | b"..")
}

fn decode(path: &str) -> String {
    let mut decoded = String::with_capacity(path.len() + 2);
    let mut rest = path;
    while let Some(place) = rest.find('%') {
        decoded.push_str(&rest[..place]);
        let (escape, after) = rest[place..].split_at(match encoded(&rest.as_bytes()[place..]) {
            Some(_) => 3,
            None => 1,
        });
        match encoded(escape.as_bytes()) {
            Some(byte) if is_unreserved(byte) => decoded.push(char::from(byte)),
            Some(_) => decoded.push_str(&escape.to_ascii_uppercase()),
            None => decoded.push_str("%25"),
        }
        rest = after;
    }
    decoded.push_str(rest);
    decoded
}

/// Merges slashes and resolves dot segments.
fn resolve(path: &str) -> String {
    let mut resolved = String::with_capacity(path.len());
    let is_rooted = path.starts_with('/');
    let mut starts = Vec::new();
    let mut is_open = false;
    for segment in path.split('/') {
        is_open = matches!(segment, "" | "." | "..");
        match segment {
            "" | "." => {}
            ".." => resolved.truncate(starts.pop().unwrap_or(0)),
            _ => {
                starts.push(resolved.len());
                if is_rooted || !resolved.is_empty() {
                    resolved.push('/');
                }
                resolved.push_str(segment);
            }
        }
    }
    // What ended with a slash, or with a dot segment, is a directory.
    if is_open && (is_rooted || !resolved.is_empty()) {
        resolved.push('/');
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spellings_of_a_path_are_one() {
        for (text, expected) in [
            ("/search", "/search"),
            ("/search?q=1", "/search"),
            ("/search#x?y", "/search"),
            ("http://host:80/search?q=1", "/search"),
            ("HTTPS://user@[::1]//x/../%73earch", "/search"),
            ("http://host?q=/x", "/"),
            ("/http://host/x", "/http:/host/x"),
            ("://host/x", ":/host/x"),
            ("//search", "/search"),
            ("/%73earch", "/search"),
            ("/./search", "/search"),
            ("/a/../search", "/search"),
            ("/a/%2e%2E/search", "/search"),
            ("/../../search", "/search"),
            ("/search/", "/search/"),
            ("/search/.", "/search/"),
            ("/search/x/..", "/search/"),
            ("/a//b///c", "/a/b/c"),
            ("/a%2fb", "/a%2Fb"),
            ("/a%20b", "/a%20b"),
            ("/100%", "/100%25"),
            ("/%4%31", "/%2541"),
            ("/é", "/é"),
            ("/...", "/..."),
            ("/", "/"),
            ("/..", "/"),
            ("", ""),
            ("*", "*"),
            ("a/../b", "b"),
            ("..", ""),
            ("?q", ""),
        ] {
            assert_eq!(path(text), expected, "{text}");
        }
    }

    #[test]
    fn a_normal_text_isnt_copied() {
        for text in ["/", "/search", "/a/b/", "/a%20b", "relative/x", "", "/a.b/..c/.d"] {
            assert!(matches!(path(text), Cow::Borrowed(_)), "{text}");
            assert!(matches!(lower(Cow::Borrowed(text)), Cow::Borrowed(_)), "{text}");
        }
        assert!(matches!(path("/search?q=1"), Cow::Borrowed("/search")));
    }

    proptest! {
        #[test]
        fn normalising_twice_is_normalising_once(text in "[/.%aA2eE5f3?é#-]{0,24}") {
            let once = path(&text).into_owned();
            prop_assert_eq!(path(&once), &*once);
            prop_assert!(is_normal_path(&once));
            let lowered = lower(path(&text)).into_owned();
            prop_assert_eq!(lower(path(&lowered)), &*lowered);
        }

        #[test]
        fn a_normal_path_has_no_detours(text in "[/.%2eab]{0,24}") {
            let normal = path(&text).into_owned();
            prop_assert!(!normal.contains("//"));
            prop_assert!(!normal.split('/').any(|segment| matches!(segment, "." | "..")));
            prop_assert_eq!(text.starts_with('/'), normal.starts_with('/'));
        }
    }
}
