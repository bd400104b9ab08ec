//! The same commands come out however the bytes came in, and nothing that comes in does harm.

use super::*;
use proptest::prelude::*;

/// What was parsed from some bytes, and how it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Parsed {
    commands: Vec<Vec<Vec<u8>>>,
    left: usize,
    error: Option<ProtocolError>,
}

/// Takes every whole command off the front of `input`.
fn drain(input: &mut &[u8], parsed: &mut Parsed) {
    while parsed.error.is_none() {
        let mut words = Words::new();
        let length = match next(input, &mut words) {
            Ok(ParseResult::Incomplete) => return,
            Ok(ParseResult::Nothing { length }) => length,
            Ok(ParseResult::Command { length }) => {
                parsed.commands.push(words.get().iter().map(|word| word.to_vec()).collect());
                length
            }
            Ok(ParseResult::Inline { line, length }) => match inline::split(line) {
                Ok(words) => {
                    parsed.commands.push(words);
                    length
                }
                Err(error) => return parsed.error = Some(error),
            },
            Err(error) => return parsed.error = Some(error),
        };
        assert!(length > 0, "a parser that takes nothing would never end");
        *input = &input[length..];
    }
}

fn parse(bytes: &[u8]) -> Parsed {
    parse_in_pieces(&[bytes])
}

/// As a connection does: what is left of a piece is parsed again with the next one.
fn parse_in_pieces(pieces: &[&[u8]]) -> Parsed {
    let mut parsed = Parsed { commands: Vec::new(), left: 0, error: None };
    let mut held = Vec::new();
    for piece in pieces {
        held.extend_from_slice(piece);
        let mut rest = &*held;
        drain(&mut rest, &mut parsed);
        held = rest.to_vec();
    }
    parsed.left = held.len();
    parsed
}

const MANY: &[u8] =
    b"*6\r\n$11\r\nCL.THROTTLE\r\n$7\r\nuser123\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n$1\r\n1\r\n\
    PING\r\n*0\r\n*1\r\n$4\r\nPING\r\n\r\n*-1\r\n*2\r\n$4\r\nECHO\r\n$0\r\n\r\n\
    ECHO \"a b\" 'c'\n*2\r\n$4\r\nECHO\r\n$6\r\na\r\n*1\r\r\n*1\r\n$4\r\nPI";

#[test]
fn bytes_split_anywhere_give_the_same_commands() {
    let whole = parse(MANY);
    assert_eq!(whole.commands.len(), 6, "{whole:?}");
    assert_eq!(whole.commands[0][1], b"user123");
    assert_eq!(whole.commands[5][1], b"a\r\n*1\r");
    assert_eq!((whole.left, whole.error), (10, None));
    for first in 0..=MANY.len() {
        for second in first..=MANY.len() {
            let pieces = [&MANY[..first], &MANY[first..second], &MANY[second..]];
            assert_eq!(parse_in_pieces(&pieces), whole, "split at {first} and {second}");
        }
    }
    let bytes: Vec<&[u8]> = MANY.chunks(1).collect();
    assert_eq!(parse_in_pieces(&bytes), whole);
}

#[test]
fn what_cant_be_understood_is_named_as_redis_names_it() {
    let digits = "1".repeat(7);
    let zeros = "0".repeat(40);
    for (input, message) in [
        ("*65\r\n".to_owned(), "invalid multibulk length"),
        ("*x\r\n".to_owned(), "invalid multibulk length"),
        ("*\r\n".to_owned(), "invalid multibulk length"),
        ("*--1\r\n".to_owned(), "invalid multibulk length"),
        (format!("*{digits}"), "invalid multibulk length"),
        (format!("*{zeros}"), "too big mbulk count string"),
        ("*1\r\n:1\r\n".to_owned(), "expected '$', got ':'"),
        ("*1\r\n$x\r\n".to_owned(), "invalid bulk length"),
        ("*1\r\n$-1\r\n".to_owned(), "invalid bulk length"),
        ("*1\r\n$65537\r\n".to_owned(), "invalid bulk length"),
        ("*1\r\n$99999999999999999999999\r\n".to_owned(), "invalid bulk length"),
        ("*1\r\n$4\rPING".to_owned(), "invalid bulk length"),
        (format!("*1\r\n${zeros}"), "too big bulk count string"),
        ("*1\r\n$4\r\nPING__".to_owned(), "expected CRLF after a bulk string"),
        ("x".repeat(INLINE_BYTES_MAX + 1), "too big inline request"),
        ("x".repeat(INLINE_BYTES_MAX + 1) + "\r\n", "too big inline request"),
        ("ECHO \"a\r\n".to_owned(), "unbalanced quotes in request"),
    ] {
        let error = parse(input.as_bytes()).error.map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some(message), "{input:.40}");
    }
}

#[test]
fn the_largest_word_and_the_most_words_pass() {
    let word = "x".repeat(BULK_BYTES_MAX);
    let input = format!("*1\r\n${BULK_BYTES_MAX}\r\n{word}\r\n");
    assert_eq!(parse(input.as_bytes()).commands, [vec![word.into_bytes()]]);
    let input = format!("*{WORDS_MAX}\r\n{}", "$1\r\na\r\n".repeat(WORDS_MAX));
    assert_eq!(parse(input.as_bytes()).commands[0].len(), WORDS_MAX);
}

/// Bytes of any kind, pieces of the protocol in any order, and valid input with some bytes replaced.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop_oneof![
        Just("*1\r\n"),
        Just("*2\r\n"),
        Just("$4\r\n"),
        Just("$0\r\n"),
        Just("PING"),
        Just("\r\n"),
        Just("\r"),
        Just("\n"),
        Just("\""),
        Just("'"),
        Just("\\"),
        Just("-"),
        Just("*"),
        Just("$"),
        Just("99999999999999999999"),
        Just(" "),
    ];
    let replaced = proptest::collection::vec((0..MANY.len(), any::<u8>()), 1..6).prop_map(|replacements| {
        let mut bytes = MANY.to_vec();
        for (place, byte) in replacements {
            bytes[place] = byte;
        }
        bytes
    });
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..300),
        proptest::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat().into_bytes()),
        replaced,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn garbage_is_parsed_the_same_in_any_pieces(bytes in garbage(), place in any::<prop::sample::Index>()) {
        let place = place.index(bytes.len() + 1);
        let whole = parse(&bytes);
        let pieces = parse_in_pieces(&[&bytes[..place], &bytes[place..]]);
        // After an error nothing more is looked at, so that what is left of a piece may differ.
        prop_assert_eq!(&pieces.commands, &whole.commands);
        prop_assert_eq!(pieces.error, whole.error);
    }

    #[test]
    fn what_a_client_writes_is_what_is_read(
        commands in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..8),
            0..8,
        ),
    ) {
        let mut bytes = Vec::new();
        for command in &commands {
            bytes.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
            for word in command {
                bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                bytes.extend_from_slice(word);
                bytes.extend_from_slice(b"\r\n");
            }
        }
        prop_assert_eq!(parse(&bytes), Parsed { commands, left: 0, error: None });
    }
}
