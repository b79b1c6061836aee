//! The parts of the partition that the evaluation of a transaction's items uses.

use zerohop_engine::Engine;

use crate::clock::Clock;
use crate::log_writer::LogWriter;
use crate::overlay::Overlay;
use crate::write_buffer::UnitWriteBuffer;

pub(super) struct EvaluationContext<'r, D> {
    pub(super) engine: &'r mut Engine<D>,
    pub(super) log_writer: &'r mut LogWriter,
    pub(super) overlay: &'r mut Overlay,
    pub(super) clock: &'r mut Clock,
    pub(super) staged: &'r mut UnitWriteBuffer,
}
