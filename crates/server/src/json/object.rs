//! Objects of protocols that aren't ours: their fields in any order, each at most once, and none that isn't known.

use crate::json::read::{Kind, Reader};
use crate::refusal::{Code, Refusal, excerpt};
use crate::wire::nearest;
use smallvec::SmallVec;
use std::borrow::Cow;

/// Reads an object, whose fields `take` reads, each at most once.
pub(crate) fn object<'b>(
    reader: &mut Reader<'b>,
    what: &str,
    mut take: impl FnMut(&mut Reader<'b>, &str) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    match reader.peek() {
        Kind::Object => {}
        Kind::Other | Kind::End => return Err(reader.invalid("a JSON object should be here")),
        kind => {
            let message = format!("{what} must be an object, not {}", kind.name());
            return Err(Refusal::new(Code::WrongType, message, "send an object in braces"));
        }
    }
    let mut place = reader.enter();
    let mut seen: SmallVec<[Cow<'b, str>; 6]> = SmallVec::new();
    while let Some(name) = reader.member(&mut place)? {
        if seen.contains(&name) {
            let message = format!("`{}` is given twice", excerpt(&name));
            return Err(Refusal::of_field(Code::DuplicateField, excerpt(&name), message, "give it once"));
        }
        take(reader, &name)?;
        seen.push(name);
    }
    Ok(())
}

#[cold]
pub(crate) fn unknown(name: &str, known: &[&str]) -> Refusal {
    let message = format!("there is no field `{}`; known: {}", excerpt(name), known.join(", "));
    let fix = match nearest(name, known.iter().copied()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None => "leave it out".to_owned(),
    };
    Refusal::of_field(Code::UnknownField, excerpt(name), message, fix)
}
