//! A disk in memory that crashes, rots, fails, slows down and fills up, all from a seed.
