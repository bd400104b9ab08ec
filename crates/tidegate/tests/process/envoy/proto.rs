//! The messages of the rate limit service, written and read by hand: an eye of its own on the node's codec.

/// One descriptor's entries, limit (requests per unit, unit) and hits.
#[derive(Clone, Default)]
pub(crate) struct Descriptor<'a> {
    pub(crate) entries: &'a [(&'a str, &'a str)],
    pub(crate) limit: Option<(u8, u8)>,
    pub(crate) hits: Option<u8>,
}

#[derive(Clone, Default)]
pub(crate) struct Ask<'a> {
    pub(crate) domain: &'a str,
    pub(crate) descriptors: Vec<Descriptor<'a>>,
    pub(crate) hits: u8,
}

impl<'a> Ask<'a> {
    /// A descriptor for each list of entries.
    pub(crate) fn of(domain: &'a str, descriptors: &[&'a [(&'a str, &'a str)]]) -> Self {
        let descriptor = |entries: &&'a [_]| Descriptor { entries, ..Descriptor::default() };
        Ask { domain, descriptors: descriptors.iter().map(descriptor).collect(), hits: 0 }
    }

    pub(crate) fn encoded(&self) -> Vec<u8> {
        let mut out = field(1, self.domain.as_bytes());
        for descriptor in &self.descriptors {
            let mut inner = Vec::new();
            for (key, value) in descriptor.entries {
                inner.extend(field(1, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat()));
            }
            if let Some((requests, unit)) = descriptor.limit {
                inner.extend(field(2, &[8, requests, 16, unit]));
            }
            if let Some(hits) = descriptor.hits {
                inner.extend(field(3, &[8, hits]));
            }
            out.extend(field(2, &inner));
        }
        out.extend([24, self.hits]);
        out
    }
}

pub(crate) fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 128 {
        out.push(u8::try_from(length & 127).unwrap() | 128);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap());
    out.extend(bytes);
    out
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) is_over: bool,
    pub(crate) statuses: Vec<Status>,
    pub(crate) headers: Vec<(String, String)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) is_over: bool,
    /// Name, requests per unit, unit.
    pub(crate) limit: Option<(String, u64, u64)>,
    pub(crate) remaining: u64,
    pub(crate) reset_seconds: u64,
}

enum Value<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    fn number(bytes: &mut &[u8]) -> u64 {
        let length = bytes.iter().position(|byte| byte & 128 == 0).unwrap() + 1;
        let (taken, rest) = bytes.split_at(length);
        *bytes = rest;
        taken.iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 127))
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = number(&mut bytes);
        let value = number(&mut bytes);
        found.push(match tag & 7 {
            0 => (tag >> 3, Value::Number(value)),
            2 => {
                let (taken, rest) = bytes.split_at(usize::try_from(value).unwrap());
                bytes = rest;
                (tag >> 3, Value::Bytes(taken))
            }
            other => panic!("wire type {other}"),
        });
    }
    found
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

impl Response {
    pub(crate) fn decoded(bytes: &[u8]) -> Self {
        let mut response = Response { is_over: false, statuses: Vec::new(), headers: Vec::new() };
        for part in fields(bytes) {
            match part {
                (1, Value::Number(code)) => response.is_over = code == 2,
                (2, Value::Bytes(status)) => response.statuses.push(Status::decoded(status)),
                (3, Value::Bytes(header)) => {
                    let parts: Vec<String> = fields(header)
                        .into_iter()
                        .map(
                            |(_, value)| {
                                if let Value::Bytes(bytes) = value { text(bytes) } else { String::new() }
                            },
                        )
                        .collect();
                    response.headers.push((parts[0].to_ascii_lowercase(), parts[1].clone()));
                }
                (number, _) => panic!("field {number}"),
            }
        }
        response
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Status {
    fn decoded(bytes: &[u8]) -> Self {
        let mut status = Status::default();
        for part in fields(bytes) {
            match part {
                (1, Value::Number(code)) => status.is_over = code == 2,
                (2, Value::Bytes(limit)) => {
                    let mut found = (String::new(), 0, 0);
                    for part in fields(limit) {
                        match part {
                            (1, Value::Number(requests)) => found.1 = requests,
                            (2, Value::Number(unit)) => found.2 = unit,
                            (3, Value::Bytes(name)) => found.0 = text(name),
                            (number, _) => panic!("field {number}"),
                        }
                    }
                    status.limit = Some(found);
                }
                (3, Value::Number(remaining)) => status.remaining = remaining,
                (4, Value::Bytes(duration)) => {
                    if let Some((1, Value::Number(seconds))) = fields(duration).into_iter().next() {
                        status.reset_seconds = seconds;
                    }
                }
                (number, _) => panic!("field {number}"),
            }
        }
        status
    }
}
