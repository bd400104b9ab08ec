//! gRPC calls on a connection of HTTP/2, as much of it as a client of one method needs.
//!
//! Requests are prebuilt: the first names its headers and puts them into the server's table, as real clients
//! do; all others point there. Answers are told by their message, so their headers needn't be decoded: a call
//! that ends without one was refused.

use super::answer::{Broken, Outcome};
use super::template::Template;

const FRAME_HEAD: usize = 9;
/// What nobody has announced otherwise.
const FRAME_BYTES_MAX: usize = 16 << 10;
const WINDOW: i64 = 65_535;
/// Given back to the server once half of it is used.
const OUR_WINDOW: u32 = i32::MAX.unsigned_abs();
const STREAM_MAX: u32 = i32::MAX.unsigned_abs();
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// A call, made once: its frames, and where in them the stream's number goes.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    first: Template,
    later: Template,
    /// Of the DATA frame, in each.
    data_at: [usize; 2],
    message_length: i64,
}

impl Call {
    /// `None` for a message that doesn't fit in one frame.
    pub(crate) fn new(authority: &str, path: &str, message: &Template) -> Option<Self> {
        let length = 5 + message.len();
        if length > FRAME_BYTES_MAX || path.len() + authority.len() > 1 << 10 {
            return None;
        }
        let mut data = Template::default();
        data.push(&head(length, DATA, END_STREAM));
        data.push(&[0]);
        data.push(&u32::try_from(message.len()).ok()?.to_be_bytes());
        data.append(message);
        let blocks = [first_block(path, authority)?, LATER_BLOCK.to_vec()];
        let data_at = [FRAME_HEAD + blocks[0].len(), FRAME_HEAD + blocks[1].len()];
        let [first, later] = blocks.map(|block| {
            let mut call = Template::default();
            call.push(&head(block.len(), HEADERS, END_HEADERS));
            call.push(&block);
            call.append(&data);
            call
        });
        Some(Call { first, later, data_at, message_length: i64::try_from(length).ok()? })
    }
}

/// `:method POST`, `:scheme http` of the static table; path, authority, content type and `te` of the dynamic one.
const LATER_BLOCK: [u8; 6] = [0x83, 0x86, 0x80 | 65, 0x80 | 64, 0x80 | 63, 0x80 | 62];

/// The same headers, those that aren't in the static table to be remembered.
fn first_block(path: &str, authority: &str) -> Option<Vec<u8>> {
    let mut block = vec![0x83, 0x86];
    for (name, value) in [(4, path), (1, authority), (31, "application/grpc")] {
        block.push(0x40 | name);
        push_text(&mut block, value)?;
    }
    block.push(0x40);
    push_text(&mut block, "te")?;
    push_text(&mut block, "trailers")?;
    Some(block)
}

/// A string as it is, its length in HPACK's form: seven bits, then seven at a time.
fn push_text(block: &mut Vec<u8>, text: &str) -> Option<()> {
    match u8::try_from(text.len()) {
        Ok(short) if short < 127 => block.push(short),
        _ => {
            let rest = text.len() - 127;
            block.extend([127, u8::try_from(rest & 127).ok()? | 128, u8::try_from(rest >> 7).ok()?]);
        }
    }
    block.extend_from_slice(text.as_bytes());
    Some(())
}

fn head(length: usize, kind: u8, flags: u8) -> [u8; FRAME_HEAD] {
    let [_, a, b, c] = u32::try_from(length).unwrap_or(0).to_be_bytes();
    [a, b, c, kind, flags, 0, 0, 0, 0]
}

/// One connection's state.
#[derive(Debug)]
pub(crate) struct Http2 {
    next_stream: u32,
    streams_open: u32,
    streams_max: u32,
    /// What the server takes.
    window: i64,
    /// What came since the server was last told that there is room.
    received: u32,
    /// Calls whose message came and whose end didn't.
    outcomes: Vec<(u32, Outcome)>,
    is_closing: bool,
}

impl Http2 {
    /// What a connection begins with goes to `out`: no pushes, and room for all answers.
    pub(crate) fn start(out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(PREFACE);
        out.extend_from_slice(&head(6, SETTINGS, 0));
        out.extend_from_slice(&[0, 2, 0, 0, 0, 0]);
        push_window_update(out, OUR_WINDOW - WINDOW.unsigned_abs().try_into().unwrap_or(0));
        Http2 {
            next_stream: 1,
            streams_open: 0,
            streams_max: 100,
            window: WINDOW,
            received: 0,
            outcomes: Vec::new(),
            is_closing: false,
        }
    }

    /// Whether the server takes another call now.
    pub(crate) fn may_send(&self, call: &Call) -> bool {
        !self.is_closing
            && self.streams_open < self.streams_max
            && self.window >= call.message_length
            && self.next_stream < STREAM_MAX
    }

    pub(crate) fn send(&mut self, call: &Call, key: u64, out: &mut Vec<u8>) {
        let start = out.len();
        let (template, data_at) = if self.next_stream == 1 {
            (&call.first, call.data_at[0])
        } else {
            (&call.later, call.data_at[1])
        };
        template.write(key, out);
        let stream = self.next_stream.to_be_bytes();
        for frame in [start, start + data_at] {
            out[frame + 5..frame + FRAME_HEAD].copy_from_slice(&stream);
        }
        self.next_stream += 2;
        self.streams_open += 1;
        self.window -= call.message_length;
    }

    /// The frame that `input` begins with: its length, and the number and outcome of the call that it ends. What
    /// must be said about it goes to `out`.
    pub(crate) fn next(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Option<Frame>, Broken> {
        let Some((head, rest)) = input.split_at_checked(FRAME_HEAD) else { return Ok(None) };
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        if length > FRAME_BYTES_MAX {
            return Err(Broken);
        }
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
        let ended = match kind {
            DATA => self.data(stream, flags, payload, out)?,
            HEADERS => (flags & END_STREAM != 0).then(|| self.end(stream)),
            CONTINUATION => None,
            RESET => {
                self.end(stream);
                Some(Outcome::Refused)
            }
            _ => {
                self.about_connection(kind, flags, stream, payload, out)?;
                None
            }
        };
        let ended = ended.map(|outcome| (u64::from(stream / 2), outcome));
        Ok(Some(Frame { length: FRAME_HEAD + length, ended }))
    }

    fn data(
        &mut self,
        stream: u32,
        flags: u8,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Outcome>, Broken> {
        self.received += u32::try_from(payload.len()).map_err(|_| Broken)?;
        if self.received > OUR_WINDOW / 2 {
            push_window_update(out, std::mem::take(&mut self.received));
        }
        let message = if flags & PADDED == 0 { payload } else { payload.get(1..).ok_or(Broken)? };
        if !message.is_empty() {
            // Allowed is 1 in the first field of Envoy's answer and of throttlecrab's.
            let outcome = if message.get(5..7) == Some(&[8, 1]) { Outcome::Allowed } else { Outcome::Denied };
            self.outcomes.push((stream, outcome));
        }
        Ok((flags & END_STREAM != 0).then(|| self.end(stream)))
    }

    /// A call is over; one without a message was refused.
    fn end(&mut self, stream: u32) -> Outcome {
        self.streams_open = self.streams_open.saturating_sub(1);
        let told = self.outcomes.iter().rposition(|(told, _)| *told == stream);
        told.map_or(Outcome::Refused, |index| self.outcomes.swap_remove(index).1)
    }

    #[cold]
    fn about_connection(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        match kind {
            SETTINGS if flags & ACK == 0 => {
                payload.chunks_exact(6).try_for_each(|setting| self.setting(setting))?;
                out.extend_from_slice(&head(0, SETTINGS, ACK));
            }
            PING if flags & ACK == 0 && payload.len() == 8 => {
                out.extend_from_slice(&head(8, PING, ACK));
                out.extend_from_slice(payload);
            }
            WINDOW_UPDATE if stream == 0 => {
                self.window += i64::from(number(payload).ok_or(Broken)? & 0x7fff_ffff);
            }
            // What it has taken is still answered.
            GO_AWAY => self.is_closing = true,
            _ => {}
        }
        Ok(())
    }

    fn setting(&mut self, setting: &[u8]) -> Result<(), Broken> {
        let value = number(&setting[2..]).ok_or(Broken)?;
        match setting[..2] {
            // A table that doesn't hold our headers, or streams that don't hold a message.
            [0, 1] if value < 1 << 10 => Err(Broken),
            [0, 4] if i64::from(value) < WINDOW.min(16 << 10) => Err(Broken),
            [0, 3] => {
                self.streams_max = value;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.streams_open == 0 && (self.is_closing || self.next_stream >= STREAM_MAX)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    pub(crate) length: usize,
    /// Which call it ended, counted from 0, and how.
    pub(crate) ended: Option<(u64, Outcome)>,
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}

fn push_window_update(out: &mut Vec<u8>, bytes: u32) {
    out.extend_from_slice(&head(4, WINDOW_UPDATE, 0));
    out.extend_from_slice(&bytes.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = head(payload.len(), kind, flags).to_vec();
        frame[8] = stream;
        frame.extend_from_slice(payload);
        frame
    }

    fn ended(http2: &mut Http2, bytes: &[u8]) -> Vec<(u64, Outcome)> {
        let (mut at, mut found) = (0, Vec::new());
        while let Some(frame) = http2.next(&bytes[at..], &mut Vec::new()).unwrap() {
            at += frame.length;
            found.extend(frame.ended);
        }
        assert_eq!(at, bytes.len());
        found
    }

    #[test]
    fn calls_carry_their_streams_number_and_only_the_first_names_its_headers() {
        let call = Call::new("h:1", "/p", &Template::of("m{key}")).unwrap();
        let mut out = Vec::new();
        let mut http2 = Http2::start(&mut Vec::new());
        http2.send(&call, 7, &mut out);
        let first = out.len();
        http2.send(&call, 8, &mut out);
        assert!(out[..first].windows(8).any(|window| window == b"trailers"));
        let wanted = [
            frame(HEADERS, END_HEADERS, 3, &LATER_BLOCK),
            frame(DATA, END_STREAM, 3, b"\0\0\0\0\rm000000000008"),
        ];
        assert_eq!(&out[first..], wanted.concat());
    }

    #[test]
    fn answers_end_in_any_order_and_one_without_a_message_was_refused() {
        let call = Call::new("h:1", "/p", &Template::of("m")).unwrap();
        let mut http2 = Http2::start(&mut Vec::new());
        (0..4).for_each(|key| http2.send(&call, key, &mut Vec::new()));
        let bytes = [
            frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 5]),
            frame(HEADERS, END_HEADERS, 3, b"x"),
            frame(DATA, 0, 3, &[0, 0, 0, 0, 2, 8, 2]),
            frame(HEADERS, END_HEADERS | END_STREAM, 3, b"x"),
            frame(DATA, 0, 1, &[0, 0, 0, 0, 2, 8, 1]),
            frame(HEADERS, END_HEADERS | END_STREAM, 1, b"x"),
            frame(HEADERS, END_HEADERS | END_STREAM, 5, b"x"),
            frame(RESET, 0, 7, &[0; 4]),
        ];
        let outcomes = ended(&mut http2, &bytes.concat());
        let wanted =
            [(1, Outcome::Denied), (0, Outcome::Allowed), (2, Outcome::Refused), (3, Outcome::Refused)];
        assert_eq!(outcomes, wanted);
        assert_eq!((http2.streams_open, http2.streams_max), (0, 5));
    }

    #[test]
    fn a_server_without_room_is_waited_for_and_one_that_leaves_is_left() {
        let call = Call::new("h:1", "/p", &Template::of(&"m".repeat(16_000))).unwrap();
        let mut http2 = Http2::start(&mut Vec::new());
        for _ in 0..4 {
            assert!(http2.may_send(&call));
            http2.send(&call, 0, &mut Vec::new());
        }
        assert!(!http2.may_send(&call));
        let room = frame(WINDOW_UPDATE, 0, 0, &16_005_u32.to_be_bytes());
        assert_eq!(ended(&mut http2, &room), []);
        assert!(http2.may_send(&call) && !http2.is_over());
        ended(&mut http2, &frame(GO_AWAY, 0, 0, &[0; 8]));
        assert!(!http2.may_send(&call) && !http2.is_over());
        (0..4).for_each(|index| drop(ended(&mut http2, &frame(RESET, 0, 1 + 2 * index, &[0; 4]))));
        assert!(http2.is_over());
    }
}
