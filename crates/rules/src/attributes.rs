//! The attributes of a request, as it gives them.
//!
//! Borrowed and searched one by one: requests have few, and nothing may be allocated for them.

/// Names and values. Of a name that comes twice the first counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes<'a>(pub &'a [(&'a str, &'a str)]);

impl<'a> Attributes<'a> {
    #[inline]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(candidate, _)| *candidate == name).map(|(_, value)| *value)
    }
}
