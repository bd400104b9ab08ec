//! The part of a URL behind the `?`: which names are known, each at most once, percent-decoded.

use super::problem::Problem;

const VALUE_CHARS_MAX: usize = 1024;

#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn read(text: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Some(name), Some(value)) = (decoded(name), decoded(value)) else {
                let fix = "write every other character as % and two digits";
                return Err(Problem::bad_request(
                    "invalid_text",
                    "query",
                    "it isn't percent-encoded UTF-8",
                    fix,
                ));
            };
            if !known.contains(&name.as_str()) || pairs.iter().any(|(other, _)| *other == name) {
                let name: String = name.chars().take(40).collect();
                let message = format!("`{name}` isn't known here, or is given twice");
                let fix = if known.is_empty() {
                    "leave it out".to_owned()
                } else {
                    format!("known: {}", known.join(", "))
                };
                return Err(Problem::bad_request("unknown_field", &name, message, fix));
            }
            pairs.push((name, value));
        }
        Ok(Query(pairs))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            Problem::bad_request("not_an_integer", name, "isn't a whole number", "give digits, such as 7")
        })
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("true" | "") => Ok(true),
            Some(_) => Err(Problem::bad_request(
                "wrong_type",
                name,
                "is neither true nor false",
                "give one of the two",
            )),
        }
    }
}

pub(crate) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                u8::try_from(16 * high + low).ok()?
            }
            other => other,
        });
    }
    let text = String::from_utf8(bytes).ok()?;
    (text.chars().count() <= VALUE_CHARS_MAX).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_decoded_and_strangers_refused() {
        let query = Query::read(Some("a=1%20%C3%A9+x&b=&flag"), &["a", "b", "flag"]).unwrap();
        assert_eq!((query.get("a"), query.get("b"), query.get("c")), (Some("1 é x"), Some(""), None));
        assert!(query.flag("flag").unwrap());
        assert!(query.number("a").is_err());
        for bad in ["c=1", "a=1&a=2", "a=%", "a=%zz", "a=%ff"] {
            assert!(Query::read(Some(bad), &["a"]).is_err(), "{bad}");
        }
    }
}
