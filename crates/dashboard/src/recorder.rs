//! The samples of the last hour: each second of the last five minutes, and every tenth second of the hour. Bounded by the number
//! of samples and of workers.

use std::collections::VecDeque;

use serde_json::{Number, Value, json};

/// Seconds between fine samples.
pub const FINE_SECONDS: u64 = 1;
const FINE_COUNT_MAX: usize = 300;
/// Fine samples of which one coarse sample is made.
const FINE_OF_COARSE: usize = 10;
const COARSE_COUNT_MAX: usize = 360;

/// What a number in samples is.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// Its name on the page.
    pub name: &'static str,
    /// How coarse samples are made.
    pub coarse: Coarse,
}

/// How a number of a coarse sample is made of those of fine samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coarse {
    /// The last one: a total, or a level.
    Last,
    /// The largest one.
    Max,
}

/// The numbers at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Unix time in milliseconds.
    pub at_ms: i64,
    /// In the order of the series.
    pub numbers: Vec<f64>,
    /// The CPU time of each worker since its start, in seconds.
    pub worker_cpu_seconds: Vec<f64>,
}

/// See the module documentation.
pub struct Recorder {
    series: &'static [Series],
    fine: VecDeque<Sample>,
    coarse: VecDeque<Sample>,
    /// Of the fine samples since the last coarse one.
    next_coarse: Sample,
    fine_since_coarse: usize,
}

impl Recorder {
    /// Without samples.
    pub fn new(series: &'static [Series]) -> Self {
        Self {
            series,
            fine: VecDeque::with_capacity(FINE_COUNT_MAX),
            coarse: VecDeque::with_capacity(COARSE_COUNT_MAX),
            next_coarse: Sample::default(),
            fine_since_coarse: 0,
        }
    }

    /// Adds a fine sample. If the clock was set back, the former samples are dropped: charts have one time axis.
    pub fn add(&mut self, sample: Sample) {
        if self.fine.back().is_some_and(|last| sample.at_ms < last.at_ms) {
            *self = Self::new(self.series);
        }
        let mut coarse = sample.clone();
        if self.fine_since_coarse > 0 {
            let before = self.series.iter().zip(&self.next_coarse.numbers);
            for (number, (_, largest)) in
                coarse.numbers.iter_mut().zip(before).filter(|(_, (series, _))| series.coarse == Coarse::Max)
            {
                *number = number.max(*largest);
            }
        }
        self.next_coarse = coarse;
        self.fine_since_coarse += 1;
        if self.fine_since_coarse == FINE_OF_COARSE {
            push_bounded(&mut self.coarse, std::mem::take(&mut self.next_coarse), COARSE_COUNT_MAX);
            self.fine_since_coarse = 0;
        }
        push_bounded(&mut self.fine, sample, FINE_COUNT_MAX);
    }

    /// All samples as a JSON object.
    pub fn history(&self) -> String {
        let samples = |samples: &VecDeque<Sample>| samples.iter().map(Sample::to_json).collect::<Vec<_>>();
        json!({
            "series": self.series.iter().map(|series| series.name).collect::<Vec<_>>(),
            "fine": { "seconds": FINE_SECONDS, "samples": samples(&self.fine) },
            "coarse": { "seconds": FINE_SECONDS * FINE_OF_COARSE as u64, "samples": samples(&self.coarse) },
        })
        .to_string()
    }
}

impl Sample {
    /// An array: the time, the numbers, and the CPU times of workers.
    pub fn to_json(&self) -> Value {
        let numbers = |numbers: &[f64]| numbers.iter().copied().map(number).collect::<Vec<_>>();
        json!([self.at_ms, numbers(&self.numbers), numbers(&self.worker_cpu_seconds)])
    }
}

/// A number, without a fraction if it is whole: samples are mostly counters.
fn number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        return Value::Number(Number::from(number as i64));
    }
    // Six significant digits of a fraction are more than a chart shows.
    let rounded = (number * 1e6).round() / 1e6;
    Number::from_f64(rounded).map_or(Value::Null, Value::Number)
}

fn push_bounded(samples: &mut VecDeque<Sample>, sample: Sample, count_max: usize) {
    if samples.len() == count_max {
        samples.pop_front();
    }
    samples.push_back(sample);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERIES: &[Series] =
        &[Series { name: "total", coarse: Coarse::Last }, Series { name: "peak", coarse: Coarse::Max }];

    fn sample(second: i64, peak: f64) -> Sample {
        Sample { at_ms: second * 1000, numbers: vec![second as f64, peak], worker_cpu_seconds: vec![0.25] }
    }

    #[test]
    fn ten_fine_samples_make_a_coarse_one() {
        let mut recorder = Recorder::new(SERIES);
        for second in 1..=25 {
            recorder.add(sample(second, if second == 3 { 9.5 } else { 1.0 }));
        }
        let history: Value = serde_json::from_str(&recorder.history()).expect("valid JSON");
        assert_eq!(history["series"], json!(["total", "peak"]));
        assert_eq!(history["fine"]["samples"].as_array().map(Vec::len), Some(25));
        assert_eq!(
            history["coarse"],
            json!({ "seconds": 10, "samples": [[10_000, [10, 9.5], [0.25]], [20_000, [20, 1], [0.25]]] })
        );
    }

    #[test]
    fn a_clock_that_goes_back_begins_anew() {
        let mut recorder = Recorder::new(SERIES);
        (100..120).for_each(|second| recorder.add(sample(second, 0.0)));
        recorder.add(sample(50, 0.0));
        assert_eq!((recorder.fine.len(), recorder.coarse.len()), (1, 0));
    }

    #[test]
    fn old_samples_are_dropped() {
        let mut recorder = Recorder::new(SERIES);
        (0..5000).for_each(|second| recorder.add(sample(second, 0.0)));
        assert_eq!((recorder.fine.len(), recorder.coarse.len()), (FINE_COUNT_MAX, COARSE_COUNT_MAX));
        assert_eq!(recorder.fine.front().map(|sample| sample.at_ms), Some(4_700_000));
    }
}
