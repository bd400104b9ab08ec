//! Two texts, line by line: what goes and what comes, with a little of what stays around it.

/// Lines that stay, shown before and after a change.
const AROUND: usize = 2;
/// Texts whose tables would be larger are shown as replaced.
const CELLS_MAX: usize = 4_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Stays,
    Goes,
    Comes,
    /// Some lines that stay aren't shown.
    Gap,
}

pub(super) fn lines<'t>(before: &'t str, after: &'t str) -> Vec<(Fate, &'t str)> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let end = old[start..].iter().rev().zip(new[start..].iter().rev()).take_while(|(a, b)| a == b).count();
    let mut all: Vec<(Fate, &str)> = old[..start].iter().map(|line| (Fate::Stays, *line)).collect();
    all.extend(changed(&old[start..old.len() - end], &new[start..new.len() - end]));
    all.extend(old[old.len() - end..].iter().map(|line| (Fate::Stays, *line)));
    shortened(&all)
}

/// By the longest common subsequence.
fn changed<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(Fate, &'t str)> {
    let width = new.len() + 1;
    if old.len().saturating_mul(width) > CELLS_MAX {
        let gone = old.iter().map(|line| (Fate::Goes, *line));
        return gone.chain(new.iter().map(|line| (Fate::Comes, *line))).collect();
    }
    let mut longest = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i * width + j] = if old[i] == new[j] {
                longest[(i + 1) * width + j + 1] + 1
            } else {
                longest[(i + 1) * width + j].max(longest[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push((Fate::Stays, old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || (i < old.len() && longest[(i + 1) * width + j] >= longest[i * width + j + 1])
        {
            lines.push((Fate::Goes, old[i]));
            i += 1;
        } else {
            lines.push((Fate::Comes, new[j]));
            j += 1;
        }
    }
    lines
}

fn shortened<'t>(all: &[(Fate, &'t str)]) -> Vec<(Fate, &'t str)> {
    let mut shown: Vec<(Fate, &'t str)> = Vec::new();
    for (index, line) in all.iter().enumerate() {
        let near = index.saturating_sub(AROUND)..(index + AROUND + 1).min(all.len());
        if all[near].iter().any(|(fate, _)| *fate != Fate::Stays) {
            shown.push(*line);
        } else if shown.last().is_none_or(|(fate, _)| *fate != Fate::Gap) {
            shown.push((Fate::Gap, ""));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(before: &str, after: &str) -> String {
        let sign = |fate| match fate {
            Fate::Stays => ' ',
            Fate::Goes => '-',
            Fate::Comes => '+',
            Fate::Gap => '…',
        };
        lines(before, after).into_iter().map(|(fate, line)| format!("{}{line} ", sign(fate))).collect()
    }

    #[test]
    fn what_goes_and_comes_is_shown_with_what_stays_around_it() {
        assert_eq!(shown("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nD\ne\nf\n"), "…  b  c -d +D  e  f ");
        assert_eq!(shown("", "a\nb\n"), "+a +b ");
        assert_eq!(shown("a\nb\n", ""), "-a -b ");
        assert_eq!(shown("a\nx\nb\ny\n", "a\nb\ny\nz\n"), " a -x  b  y +z ");
        assert_eq!(shown("a\n", "a\n"), "… ");
    }
}
