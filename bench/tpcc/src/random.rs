//! Random values by the rules of clauses 2.1.6 (NURand) and 4.3.2 (texts, last names).

use bench_common::workload::Draws;

/// The constants of NURand (clause 2.1.6.1): C_LAST of the population and of the run must differ by 65 to 119, but not by 96 or 112.
const LAST_NAME_OF_POPULATION: u64 = 157;
const LAST_NAME_OF_RUN: u64 = 223;
const CUSTOMER: u64 = 259;
const ITEM: u64 = 7911;

/// The syllables of last names (clause 4.3.2.3).
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// The numbers of last names.
const LAST_NAMES: u64 = 1000;

/// A seeded stream of random values.
pub(crate) struct Random {
    draws: Draws,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random { draws: Draws::new(seed) }
    }

    /// An even number from `least` to `greatest`.
    pub(crate) fn within(&mut self, least: u64, greatest: u64) -> u64 {
        let count = greatest - least + 1;
        least + ((u128::from(self.draws.draw()) * u128::from(count)) >> 64) as u64
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.within(1, 100) <= percent
    }

    /// NURand(`spread`, 1, `count`) with the constant.
    fn uneven(&mut self, (spread, constant): (u64, u64), count: u64) -> u64 {
        let drawn = self.within(0, spread) | self.within(1, count);
        (drawn + constant) % count + 1
    }

    /// A customer of a district, of so many.
    pub(crate) fn customer(&mut self, count: u32) -> u32 {
        self.uneven((1023, CUSTOMER), u64::from(count)) as u32
    }

    /// An item, of so many.
    pub(crate) fn item(&mut self, count: u32) -> u32 {
        self.uneven((8191, ITEM), u64::from(count)) as u32
    }

    /// A last name of the population, for customers after the first thousand.
    pub(crate) fn last_name_of_population(&mut self) -> String {
        last_name(self.uneven((255, LAST_NAME_OF_POPULATION), LAST_NAMES) - 1)
    }

    /// A last name that a terminal selects. With fewer than a thousand customers per district it is the name of one of these.
    pub(crate) fn last_name_of_run(&mut self, customers: u32) -> String {
        let names = LAST_NAMES.min(u64::from(customers));
        last_name(self.uneven((255, LAST_NAME_OF_RUN), names) - 1)
    }

    /// Letters and digits, from `least` to `greatest` of them.
    pub(crate) fn text(&mut self, least: u64, greatest: u64) -> String {
        let length = self.within(least, greatest);
        self.characters(LETTERS, length)
    }

    /// So many digits.
    pub(crate) fn digits(&mut self, length: u64) -> String {
        self.characters(b"0123456789", length)
    }

    /// A zip code: four random digits, and five that are the same everywhere (clause 4.3.2.7).
    pub(crate) fn zip(&mut self) -> String {
        self.digits(4) + "11111"
    }

    /// The data of an item or of a stock row: "ORIGINAL" is in a tenth of them (clause 4.3.3.1).
    pub(crate) fn data(&mut self) -> String {
        const ORIGINAL: &str = "ORIGINAL";
        let mut data = self.text(26, 50);
        if self.percent(10) {
            let at = self.within(0, (data.len() - ORIGINAL.len()) as u64) as usize;
            data.replace_range(at..at + ORIGINAL.len(), ORIGINAL);
        }
        data
    }

    /// Puts the values in a random order (Fisher-Yates).
    pub(crate) fn shuffle<V>(&mut self, values: &mut [V]) {
        for left in (2..=values.len()).rev() {
            values.swap(left - 1, self.within(0, left as u64 - 1) as usize);
        }
    }

    fn characters(&mut self, from: &[u8], length: u64) -> String {
        (0..length).map(|_| char::from(from[self.within(0, from.len() as u64 - 1) as usize])).collect()
    }
}

/// The last name of a number below a thousand: a syllable for each of its digits.
pub(crate) fn last_name(number: u64) -> String {
    [number / 100 % 10, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_have_a_syllable_for_each_digit() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
    }

    #[test]
    fn constants_of_population_and_run_differ_as_required() {
        let difference = LAST_NAME_OF_RUN.abs_diff(LAST_NAME_OF_POPULATION);
        assert!((65..=119).contains(&difference) && difference != 96 && difference != 112);
    }

    #[test]
    fn uneven_numbers_are_within_their_range_and_reach_its_ends() {
        let mut random = Random::new(1);
        for count in [7, 30, 3000] {
            let drawn: Vec<u32> = (0..60_000).map(|_| random.customer(count)).collect();
            assert!(drawn.iter().all(|customer| (1..=count).contains(customer)));
            assert!(drawn.contains(&1) && drawn.contains(&count));
        }
    }

    #[test]
    fn tenth_of_data_is_original_and_texts_have_their_lengths() {
        let mut random = Random::new(2);
        let all: Vec<String> = (0..10_000).map(|_| random.data()).collect();
        let original = all.iter().filter(|data| data.contains("ORIGINAL")).count();
        assert!((800..1200).contains(&original), "{original}");
        assert!(all.iter().all(|data| (26..=50).contains(&data.len())));
        assert_eq!(random.zip().len(), 9);
    }

    #[test]
    fn names_selected_in_a_small_district_belong_to_its_customers() {
        let mut random = Random::new(3);
        let names: Vec<String> = (0..30).map(last_name).collect();
        assert!((0..1000).all(|_| names.contains(&random.last_name_of_run(30))));
    }
}
