//! `2^(-t/H)` in integers.
//!
//! Floating point would do, but `exp2` is not the same on every platform, and a decision that differs in the last
//! digit makes a replay diverge. The exponent is taken to 32 binary places; each of its four bytes picks a factor from
//! a table. The tables are products of 32 roots of ½, which come from integer square roots at compile time, so there
//! is no number to trust.
//!
//! Error: the exponent is rounded down, so a value decays at most `ln 2 · 2^-32` (1.7e-10) of itself too slowly, and
//! the products lose at most 33 units of `2^-64`. Slowly is the safe side: the reserve never falls too fast.

/// One, in the fixed point of [`factor`]: 64 binary places.
pub(super) const ONE: u128 = 1 << 64;

/// `2^-(2^-k)` for k = 1..=32, 64 binary places.
const ROOTS: [u64; 32] = roots();

const fn roots() -> [u64; 32] {
    let mut table = [0; 32];
    let mut root: u128 = ONE / 2;
    let mut k = 0;
    while k < table.len() {
        root = (root << 64).isqrt();
        table[k] = root as u64; // below 2^64: the root of a number below 2^128
        k += 1;
    }
    table
}

/// The product of the roots that a byte of the exponent names, most significant byte first.
static FACTORS: [[u64; 256]; 4] = factors();

const fn factors() -> [[u64; 256]; 4] {
    let mut tables = [[u64::MAX; 256]; 4];
    let mut place = 0;
    while place < 4 {
        let mut byte: usize = 1;
        while byte < 256 {
            // The lowest set bit's root, times what the rest of the byte names.
            let bit = byte.trailing_zeros() as usize;
            let root = ROOTS[place * 8 + 7 - bit] as u128;
            let rest = byte & (byte - 1);
            let product = if rest == 0 { root } else { (tables[place][rest] as u128 * root) >> 64 };
            tables[place][byte] = product as u64; // below 2^64: a product of numbers below one
            byte += 1;
        }
        place += 1;
    }
    tables
}

/// `2^(-elapsed/half_life)` with 64 binary places, between 0 and [`ONE`]. A half-life of zero forgets at once.
pub(super) fn factor(elapsed: u64, half_life: u64) -> u128 {
    if elapsed == 0 {
        return ONE;
    }
    let Some(exponent) = exponent(elapsed, half_life) else {
        return 0;
    };
    let whole = exponent >> 32;
    if whole > 64 {
        return 0;
    }
    let mut product = ONE;
    for (place, table) in FACTORS.iter().enumerate() {
        let byte = (exponent >> (24 - 8 * place)) as usize & 0xff;
        if byte != 0 {
            product = (product * u128::from(table[byte])) >> 64;
        }
    }
    product >> whole
}

/// `elapsed / half_life` with 32 binary places, rounded down. Narrow division where the numbers allow it: it is four
/// times as fast, and every foreground arrival needs it twice per limit.
fn exponent(elapsed: u64, half_life: u64) -> Option<u128> {
    match elapsed.checked_mul(1 << 32) {
        Some(wide) => wide.checked_div(half_life).map(u128::from),
        None => (u128::from(elapsed) << 32).checked_div(u128::from(half_life)),
    }
}

/// `value · 2^(-elapsed/half_life)`, rounded up.
pub(super) fn decayed(value: u64, elapsed: u64, half_life: u64) -> u64 {
    Decay::default().of(value, elapsed, half_life)
}

/// The last factor that was asked for: the limits of one scope mostly ask for the same.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Decay {
    elapsed: u64,
    half_life: u64,
    factor: u128,
}

impl Decay {
    /// `value · 2^(-elapsed/half_life)`, rounded up.
    pub(super) fn of(&mut self, value: u64, elapsed: u64, half_life: u64) -> u64 {
        if value == 0 || elapsed == 0 {
            return value;
        }
        if (self.elapsed, self.half_life) != (elapsed, half_life) {
            *self = Self { elapsed, half_life, factor: factor(elapsed, half_life) };
        }
        let product = u128::from(value) * self.factor; // at most 2^64 · 2^64 - 2^64: value is below 2^64
        u64::try_from(product.div_ceil(ONE)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000;

    fn error(elapsed: u64, half_life: u64) -> f64 {
        let got = factor(elapsed, half_life) as f64 / ONE as f64;
        let want = (-(elapsed as f64) / half_life as f64).exp2();
        got - want
    }

    #[test]
    fn whole_half_lives_are_exact() {
        for n in 0..=64 {
            assert_eq!(factor(n * HOUR, HOUR), ONE >> n);
        }
        assert_eq!(factor(66 * HOUR, HOUR), 0);
    }

    #[test]
    fn the_error_stays_within_its_bound_over_ten_half_lives() {
        for half_life in [1_000, 60_000_000, HOUR, 24 * HOUR + 7] {
            for step in 1..20_000_u64 {
                let elapsed = (u128::from(step) * u128::from(half_life) / 1_999) as u64;
                let off = error(elapsed, half_life);
                assert!((-1e-15..=2e-10).contains(&off), "{off:e} at {elapsed} of {half_life}");
            }
        }
    }

    #[test]
    fn single_microseconds_still_decay_and_never_grow() {
        let mut last = ONE;
        for elapsed in 0..10_000 {
            let now = factor(elapsed, HOUR);
            assert!(now <= last);
            last = now;
        }
        assert!(last < ONE);
        assert_eq!(decayed(1 << 40, 0, HOUR), 1 << 40);
        assert!(decayed(1 << 40, 10, HOUR) < 1 << 40);
    }

    #[test]
    fn absurd_spans_and_values_saturate() {
        assert_eq!(factor(u64::MAX, 1), 0);
        assert_eq!(factor(1, 0), 0);
        assert_eq!(factor(0, 0), ONE);
        assert_eq!(decayed(u64::MAX, u64::MAX, u64::MAX), 1 << 63);
        assert_eq!(decayed(u64::MAX, 0, 1), u64::MAX);
    }
}
