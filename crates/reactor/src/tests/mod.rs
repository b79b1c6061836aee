//! Tests of the reactor over a driver in memory: every run is the same.

mod conversation;
mod gathering;
mod links;
mod misbehaving;
mod patience;
mod pressure;
mod proving;
mod random;
mod sending;

use super::limits::*;
use super::testing::*;
use super::*;
