//! What a misspelled key was meant to be.

/// Letters from which on a word says enough to be looked for inside others.
const TELLING: usize = 4;

/// The candidate that differs least from `word`, if it differs by little (one slip in three letters), or else the
/// first one that begins with it.
pub(crate) fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let most = (word.chars().count() / 3).max(1);
    let rated = candidates.clone().into_iter().map(|candidate| (slips(word, candidate), candidate));
    let near = rated.filter(|(slips, _)| *slips <= most).min().map(|(_, candidate)| candidate);
    let longer = || candidates.into_iter().find(|candidate| word.len() >= TELLING && candidate.starts_with(word));
    near.or_else(longer)
}

/// Letters to insert, drop, replace, or swap with their neighbour (optimal string alignment), letter case aside.
fn slips(a: &str, b: &str) -> usize {
    let letters = |text: &str| text.to_lowercase().replace('-', "_").chars().take(64).collect::<Vec<_>>();
    let (a, b) = (letters(a), letters(b));
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_count_each_kind_once() {
        for (a, b, expected) in [
            ("spread", "spread", 0),
            ("spred", "spread", 1),
            ("sprsead", "spread", 1),
            ("sperad", "spread", 1),
            ("", "abc", 3),
        ] {
            assert_eq!(slips(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn a_near_miss_is_found_and_a_stranger_is_not() {
        let known = ["background_share", "background_burst", "reserve", "mode"];
        assert_eq!(closest("backgroud_share", known), Some("background_share"));
        assert_eq!(closest("background-share", known), Some("background_share"));
        assert_eq!(closest("reserved", known), Some("reserve"));
        assert_eq!(closest("background", known), Some("background_share"));
        assert_eq!(closest("colour", known), None);
    }
}
