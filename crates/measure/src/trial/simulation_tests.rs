//! How often a verdict is wrong. Thousands of trials are judged as those of a cluster are. The memory of their replicas is drawn at
//! random, and the true effect is known.

use allocanary_sys::rng::Rng;

use crate::trial::estimate::TrialWord;
use crate::trial::replicas::{Replica, ReplicaSample};
use crate::trial::verdict::judge;
use crate::trial::{TrialTarget, TrialVariable};

/// How replicas differ.
#[derive(Clone, Copy, Debug)]
struct Replicas {
    /// Unchanged replicas of the same age.
    others: usize,
    /// Replicas with readings from before the change.
    before: usize,
    /// The standard deviation from start to start, as a share.
    spread: f64,
    /// Whether the spread has a tail to the right. The number of arenas that threads happen to use gives such a tail.
    skewed: bool,
    /// The standard deviation of the part that belongs to a replica and survives its restarts: its share of the data.
    own: f64,
}

const TRIALS: usize = 1_000;

fn normal(rng: &mut Rng) -> f64 {
    let uniform = |rng: &mut Rng| ((rng.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    (-2.0 * uniform(rng).ln()).sqrt() * (std::f64::consts::TAU * uniform(rng)).cos()
}

const MINUTE: u64 = 60_000;
const CHANGE: u64 = 1_000 * MINUTE;

/// A replica that was started at `started`. Its memory has been the exponential of `log` since the end of its first half hour.
fn replica(at: usize, started: u64, log: f64, settings: &[String]) -> Replica {
    let reading = |minute: u64| {
        let taken = started + minute * MINUTE;
        ReplicaSample { taken, resident: (log.exp() * 1e9) as u64, cpu: Some(minute * MINUTE / 2) }
    };
    Replica {
        pod: format!("web-{at}"),
        node: String::new(),
        workload: String::new(),
        host: allocanary_rows::fleet::Machine::default(),
        image: String::new(),
        quota_milli: None,
        started: started + 1,
        settings: settings.to_vec(),
        changed: !settings.is_empty(),
        readings: [35, 40, 45, 50, 55, 60].map(reading).to_vec(),
    }
}

impl Replicas {
    fn noise(self, rng: &mut Rng) -> f64 {
        let z = normal(rng);
        // A lognormal of this shape has a skewness of 1.7.
        self.spread * if self.skewed { ((0.5 * z).exp() - 1.13) / 0.6 } else { z }
    }

    /// Runs trials with this true ratio. Returns the share of them whose interval contains it, and the shares of better, worse and
    /// equal.
    fn trials(self, ratio: f64) -> [f64; 4] {
        let mut rng = Rng::part(59, (ratio * 1e3) as u64 + self.others as u64 * 10 + self.before as u64);
        let mut counts = [0; 4];
        for _ in 0..TRIALS {
            let draw = |count: usize, rng: &mut Rng| -> Vec<f64> { (0..count).map(|_| self.noise(rng)).collect() };
            let (mut now, lines) = (draw(self.others + 1, &mut rng), ["MALLOC_X=1".to_string()]);
            // If replicas have data of their own, all of them are there before the change, and each keeps its share of the data.
            let (kind, count) = if self.own > 0.0 { ("sts/web", now.len()) } else { ("deploy/web", self.before) };
            let own: Vec<f64> = (0..now.len().max(count)).map(|_| self.own * normal(&mut rng)).collect();
            let old = draw(count, &mut rng);
            now[0] += ratio.ln();
            let mut replicas: Vec<Replica> =
                old.iter().enumerate().map(|(at, log)| replica(at, 0, log + own[at], &[])).collect();
            replicas.extend(
                now.iter()
                    .enumerate()
                    .map(|(at, log)| replica(at, CHANGE, log + own[at], if at == 0 { &lines } else { &[] })),
            );
            let variables = [TrialVariable { name: "MALLOC_X".into(), value: "1".into() }];
            let trial = judge(replicas, &TrialTarget::parse(kind).unwrap(), &variables, 0.05).unwrap();
            assert!(trial.doubts.is_empty(), "{trial:?}");
            let found = trial.effect.unwrap();
            counts[0] += usize::from(found.low <= ratio && ratio <= found.high);
            match trial.word {
                TrialWord::Better => counts[1] += 1,
                TrialWord::Worse => counts[2] += 1,
                TrialWord::Equal => counts[3] += 1,
                TrialWord::Undecided => {}
            }
        }
        counts.map(|count| count as f64 / TRIALS as f64)
    }
}

fn all() -> impl Iterator<Item = Replicas> {
    let sizes = [(2, 0), (2, 3), (4, 0), (4, 5), (9, 10)];
    let spreads = [0.005, 0.02, 0.1];
    sizes.into_iter().flat_map(move |(others, before)| {
        spreads.into_iter().flat_map(move |spread| {
            [(false, 0.0), (true, 0.0), (false, 0.3)].into_iter().map(move |(skewed, own)| Replicas {
                others,
                before,
                spread,
                skewed,
                own,
            })
        })
    })
}

#[test]
fn intervals_hold_the_truth_and_words_are_seldom_wrong() {
    for replicas in all() {
        for ratio in [0.5, 0.8, 0.94, 0.97, 1.0, 1.03, 1.06, 1.25] {
            let [held, better, worse, equal] = replicas.trials(ratio);
            let told =
                format!("{replicas:?}, true ratio {ratio}: held {held}, better {better}, worse {worse}, equal {equal}");
            assert!(held >= 0.90, "{told}");
            let wrong = match ratio {
                1.0 => better + worse,
                // Within the margin, both `equal` and the right direction are correct.
                less if less < 0.95 => worse + equal,
                less if less < 1.0 => worse,
                more if more <= 1.05 => better,
                _ => better + equal,
            };
            // 5 %, and a tolerance for the small number of trials. Student's distribution is not exact for skewed values.
            assert!(wrong <= if replicas.skewed { 0.10 } else { 0.07 }, "{told}");
        }
    }
}

#[test]
fn a_half_is_seen_with_three_replicas_and_a_spread_of_two_percent() {
    let replicas = Replicas { others: 2, before: 3, spread: 0.02, skewed: false, own: 0.0 };
    assert!(replicas.trials(0.5)[1] > 0.95);
    let few = Replicas { before: 0, ..replicas };
    assert!(few.trials(0.5)[1] > 0.7 && few.trials(0.5)[1] < replicas.trials(0.5)[1]);
    // And equal replicas are found equal if their spread is small.
    assert!(Replicas { spread: 0.005, ..replicas }.trials(1.0)[3] > 0.9);
}
