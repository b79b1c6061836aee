//! Every state that the models reach within their bounds.

mod commit;
mod exhaustive;
mod reads;
mod rules;
