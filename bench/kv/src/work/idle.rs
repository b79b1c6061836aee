//! The memory of an idle server.

use bench_common::failure::Failure;
use bench_common::process::pause;
use bench_common::reading::Measurement;
use bench_common::usage;

use crate::limits::IDLE_REST;
use crate::subjects::RunningServer;

const MIB: f64 = (1 << 20) as f64;

pub(super) fn rest(running: &RunningServer) -> Result<Measurement, Failure> {
    let mut reading = Measurement::default();
    reading.put("ready after ms", running.ready.as_secs_f64() * 1e3);
    let before = usage::Cpu::of(running.server.pid())?;
    pause(IDLE_REST);
    let cpu = usage::Cpu::of(running.server.pid())?.since(before);
    reading.put("resident MiB", usage::resident_bytes(running.server.pid())? as f64 / MIB);
    reading.put("program MiB", usage::loaded_bytes(&running.program)? as f64 / MIB);
    reading.put("its file MiB", usage::file_bytes(&running.program)? as f64 / MIB);
    reading.put("CPU us/s", cpu.ran.as_secs_f64() * 1e6 / IDLE_REST.as_secs_f64());
    Ok(reading)
}
