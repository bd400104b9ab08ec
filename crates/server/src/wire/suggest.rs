//! "Did you mean": the known word that is nearest to one that isn't known.
//!
//! Suggests only what a slip of the fingers explains: a far-off guess is worse than the list of words.

/// Longer words are no slip of anything known here.
const WORD_CHARS_MAX: usize = 32;

/// The nearest of `known` within two edits, or one for short words.
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word: Vec<char> = word.chars().take(WORD_CHARS_MAX + 1).flat_map(char::to_lowercase).collect();
    let edits_max = match word.len() {
        0..=2 => 0,
        3..=4 => 1,
        5..=WORD_CHARS_MAX => 2,
        _ => return None,
    };
    known
        .into_iter()
        .map(|candidate| (edits(&word, candidate), candidate))
        .filter(|(edits, _)| *edits <= edits_max)
        .min()
        .map(|(_, candidate)| candidate)
}

/// The remedy for an unknown word: the nearest known one, or all of them.
pub(crate) fn remedy(word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None => format!("use one of: {}", known.join(", ")),
    }
}

/// Insertions, deletions and substitutions that lead from one to the other.
fn edits(word: &[char], candidate: &str) -> usize {
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (i, wanted) in candidate.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, given) in word.iter().enumerate() {
            let substituted = diagonal + usize::from(*given != wanted);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[word.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = ["limit", "cost", "class", "duration_ms"];
        assert_eq!(nearest("limits", known), Some("limit"));
        assert_eq!(nearest("Cots", known), None, "two edits are too many for a short word");
        assert_eq!(nearest("costs", known), Some("cost"));
        assert_eq!(nearest("durationMs", known), Some("duration_ms"));
        assert_eq!(nearest("x", known), None);
        assert_eq!(remedy("colour", &known), "use one of: limit, cost, class, duration_ms");
    }
}
