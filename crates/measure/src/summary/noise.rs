//! How busy the machine was. In: rows. Out: the figures, and whether the machine was too busy for small differences.

use allocanary_rows::sample::Sample;
use allocanary_text::units::Unit;

/// The machine's other work, over all rows that recorded it.
#[derive(Clone, Debug, Default)]
pub struct Noise {
    runnable: Vec<u32>,
    most_average: f64,
    cpus: u32,
    stolen_ms: u64,
    throttled_us: u64,
    wall_us: u64,
    /// Wall time multiplied by CPUs.
    cpu_us: u64,
}

/// Steal and throttling above this share of the time are reported.
const LOST_TIME: f64 = 0.05;

impl Noise {
    /// Adds a row.
    pub fn add(&mut self, sample: &Sample) {
        let Some(load) = &sample.load else { return };
        self.runnable.push(load.runnable);
        self.most_average = self.most_average.max(load.average);
        self.cpus = self.cpus.max(load.cpus);
        self.stolen_ms += load.stolen_ms;
        self.throttled_us += load.throttled_us;
        self.wall_us += sample.wall_us;
        self.cpu_us += sample.wall_us * u64::from(sample.provenance.host.cores);
    }

    /// Other tasks that wanted a CPU when a cell was started: the median over the rows.
    fn others(&self) -> u32 {
        let mut sorted = self.runnable.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or(0)
    }

    /// Other tasks that wanted to run, for each CPU. 0 if no row has this figure.
    pub fn others_per_cpu(&self) -> f64 {
        if self.cpus == 0 { 0.0 } else { f64::from(self.others()) / f64::from(self.cpus) }
    }

    /// Whether every thread of a cell had to wait for a CPU: the other runnable tasks were twice as many as the CPUs.
    /// Small differences between two runs may then come from the machine as well as from the allocator.
    pub fn is_too_busy(&self) -> bool {
        self.others() > 2 * self.cpus
    }

    /// What disturbed the figures, one line each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let (others, cpus) = (self.others(), self.cpus);
        if others > 0 && others * 2 >= cpus {
            let plural = |count: u32, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
            let too_busy = if self.is_too_busy() { "too busy to judge small differences" } else { "busy" };
            warnings.push(format!(
                "the machine was {too_busy}: {} competed for {} while this was measured (median of {}; load average up to {:.1})",
                plural(others, "other task"),
                plural(cpus, "CPU"),
                plural(self.runnable.len() as u32, "row"),
                self.most_average,
            ));
        }
        let share = |lost: u64, of: u64| if of == 0 { 0.0 } else { lost as f64 / of as f64 };
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let stolen = share(self.stolen_ms * 1000, self.cpu_us);
        if stolen > LOST_TIME {
            warnings.push(format!("the hypervisor took {} of the processors' time (steal)", percent(stolen)));
        }
        if share(self.throttled_us, self.wall_us) > LOST_TIME {
            let time = Unit::Microseconds.show(self.throttled_us as f64);
            let all = Unit::Microseconds.show(self.wall_us as f64);
            warnings.push(format!("the CPU quota was used up for {time} of {all}: figures of time are the quota's"));
        }
        warnings
    }
}
