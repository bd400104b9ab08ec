//! "Did you mean": the known word that is nearest to one that isn't known.
//!
//! Suggests only what a slip of the fingers explains: a far-off guess is worse than the list of words.

/// More candidates than this aren't searched: a suggestion isn't worth a slow refusal.
const CANDIDATES_MAX: usize = 1000;
/// Longer words are cut.
const WORD_CHARS_MAX: usize = 64;

/// The nearest of `known` within two edits, or one for short words; the first in the alphabet of several. Else the only
/// one that begins with the word and has its unit behind it, as `duration_ms` has for `duration`.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let known: Vec<&'k str> = known.into_iter().take(CANDIDATES_MAX).collect();
    let without_unit = |candidate: &&&str| {
        candidate.strip_prefix(word).is_some_and(|rest| !word.is_empty() && rest.starts_with('_'))
    };
    misspelt(word, &known).or_else(|| {
        let mut longer = known.iter().filter(without_unit);
        longer.next().copied().filter(|_| longer.next().is_none())
    })
}

fn misspelt<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let word: Vec<char> = word.chars().take(WORD_CHARS_MAX).flat_map(char::to_lowercase).collect();
    let edits_max = match word.len() {
        0..=2 => 0,
        3..=4 => 1,
        _ => 2,
    };
    known
        .iter()
        .map(|candidate| (edits(&word, candidate), *candidate))
        .filter(|(edits, _)| *edits <= edits_max)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns how many edits lead from one word to the other, in lower case.
pub fn distance(word: &str, other: &str) -> usize {
    let word: Vec<char> = word.chars().take(WORD_CHARS_MAX).flat_map(char::to_lowercase).collect();
    edits(&word, &other.to_lowercase())
}

/// The remedy for an unknown word: the nearest known one, or all of them.
pub fn remedy(word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None => format!("use one of: {}", known.join(", ")),
    }
}

/// Insertions, deletions, substitutions and swaps of neighbours that lead from one to the other.
fn edits(word: &[char], candidate: &str) -> usize {
    let candidate: Vec<char> = candidate.chars().take(WORD_CHARS_MAX).collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=word.len()).collect()];
    for (i, c) in candidate.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, w) in word.iter().enumerate() {
            let mut least = (rows[i][j] + usize::from(w != c)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *w == candidate[i - 1] && word[j - 1] == *c {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[candidate.len()][word.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = ["limit", "rate", "class", "key"];
        assert_eq!(nearest("limits", known), Some("limit"));
        assert_eq!(nearest("Limit", known), Some("limit"));
        assert_eq!(nearest("lmiit", known), Some("limit"));
        assert_eq!(nearest("keys", known), Some("key"));
        assert_eq!(nearest("raet", known), Some("rate"));
        assert_eq!(nearest("x", ["y"]), None);
        assert_eq!(nearest("duration", ["duration_ms", "limit"]), Some("duration_ms"));
        assert_eq!(nearest("retry", ["retry_after_ms", "retry_max"]), None, "either may be meant");
        assert_eq!(nearest("", ["_x"]), None);
        assert_eq!(nearest("colour", known), None);
        assert_eq!(remedy("colour", &known), "use one of: limit, rate, class, key");
    }
}
