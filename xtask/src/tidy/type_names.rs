//! Rules about names: a public type name stands for one idea, so it is defined once in all crates.

use super::{read, shown};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names that each crate may define for itself, because its own is always meant where it stands.
const EXEMPT: [&str; 2] = ["Error", "Options"];

/// Reports every public type name that the crates' sources define more than once.
pub(super) fn check(root: &Path, files: &[PathBuf], problems: &mut Vec<String>) {
    let crates = root.join("crates");
    let mut definitions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.starts_with(&crates)) {
        let name = shown(root, file);
        if !name.ends_with(".rs") || !name.contains("/src/") {
            continue;
        }
        for (number, line) in read(file).lines().enumerate() {
            if let Some(defined) = public_type(line).filter(|defined| !EXEMPT.contains(defined)) {
                definitions.entry(defined.to_owned()).or_default().push(format!("{name}:{}", number + 1));
            }
        }
    }
    for (name, places) in definitions.iter().filter(|(_, places)| places.len() > 1) {
        problems.push(format!(
            "the public type name {name} is defined in {}; keep it for the one that owns the idea, and rename the others by what they mean",
            places.join(" and ")
        ));
    }
}

/// Returns the name of the public type that a line defines. `pub(crate)` is not public.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let rest = rest.strip_prefix(concat!("uns", "afe ")).unwrap_or(rest);
    let name =
        ["struct ", "enum ", "trait ", "type ", "union "].iter().find_map(|kind| rest.strip_prefix(kind))?;
    let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_types_are_found() {
        assert_eq!(public_type("pub struct Key(u64);"), Some("Key"));
        assert_eq!(public_type("    pub enum Kind<'a> {"), Some("Kind"));
        assert_eq!(public_type("pub trait Origin: Debug {"), Some("Origin"));
        assert_eq!(public_type("pub(crate) struct Key;"), None);
        assert_eq!(public_type("pub fn struct_of() {"), None);
        assert_eq!(public_type("// pub struct Key;"), None);
    }
}
