//! Which of the two kinds of files a set is: ours says `namespace:` at the top, theirs `domain:`.

use crate::bounds::ENVOY_NESTING_MAX;
use crate::error::Problems;
use crate::parse::read_files;
use crate::parse::tree::Value;
use crate::source::Source;

const FIELDS: [&str; 2] = ["domain", "descriptors"];

/// Whether the first document that says anything has a `domain` or `descriptors` and no `namespace`. Of a file that
/// can't be read, no: whoever reads it next says what is wrong.
pub fn is_envoy(source: &Source) -> bool {
    // Most files of ours have neither word anywhere, and needn't be read twice.
    let has_word = |word: &str| source.text.windows(word.len()).any(|found| found == word.as_bytes());
    if !FIELDS.into_iter().any(has_word) {
        return false;
    }
    let (files, _) = read_files(&[source], ENVOY_NESTING_MAX, &mut Problems::default());
    let mut documents = files.iter().flat_map(|(_, documents)| documents);
    let first = documents.find_map(|node| match &node.value {
        Value::Map(entries) => Some(entries),
        _ => None,
    });
    first.is_some_and(|entries| {
        let has = |name: &str| entries.iter().any(|entry| entry.key == name);
        FIELDS.into_iter().any(has) && !has("namespace")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn theirs_says_domain_and_ours_namespace() {
        let said = |text: &str| is_envoy(&Source { name: "a".into(), text: text.into() });
        assert!(said("domain: edge\n"));
        assert!(said("# a comment\n---\n{ descriptors: [], domain: edge }\n"));
        assert!(said("descriptors: []\n"), "its domain is missing, and it is told so");
        assert!(!said("namespace: api\nrules: []\n"));
        assert!(!said("namespace: api\ndomain: x\n"));
        assert!(!said(""));
        assert!(!said("- domain: x\n"));
        assert!(!said("{ domain: "));
    }
}
