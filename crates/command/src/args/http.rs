//! `--http`: measures a service from one flag. In: a URL, and the load generators of this machine. Out: when the
//! service is ready, its load, and the figures to read from the load's output.

use std::env;
use std::path::Path;

use allocanary_rows::program::Program;
use allocanary_text::paste::quoted;

/// The duration of the load.
const LASTS: &str = "5s";
/// The number of connections at one time.
const CONNECTIONS: u32 = 16;

/// An installed load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Generator {
    name: &'static str,
    /// Its arguments before the URL. Time and connections are filled in.
    arguments: &'static str,
    /// Figures in its output, as `--metric` takes them.
    metrics: [(&'static str, &'static str); 2],
}

/// The first of these that is installed is used.
const GENERATORS: [Generator; 3] = [
    Generator {
        name: "oha",
        arguments: "--no-tui -z {time} -c {connections}",
        metrics: [
            ("throughput", r"Requests/sec:\s+([0-9.]+)"),
            ("p99", r"99\.00%\s+in\s+([0-9.]+)\s+(sec|ms|us|ns|s)\b"),
        ],
    },
    Generator {
        name: "wrk",
        arguments: "--latency -t 2 -d {time} -c {connections}",
        metrics: [("throughput", r"Requests/sec:\s+([0-9.]+)"), ("p99", r"(?m)^\s+99%\s+([0-9.]+)(us|ms|s)\b")],
    },
    Generator {
        name: "hey",
        arguments: "-z {time} -c {connections}",
        metrics: [("throughput", r"Requests/sec:\s+([0-9.]+)"), ("p99:s", r"99%+\s+in\s+([0-9.]+)\s+secs")],
    },
];

/// A service that answers HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    url: String,
    generator: Generator,
}

/// Reads the flag: a URL. Fails if no load generator is installed here.
pub fn parse(url: &str) -> Result<Http, String> {
    with(url, |name| {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path).any(|folder| Path::new(&folder).join(name).is_file())
    })
}

fn with(url: &str, is_here: impl Fn(&str) -> bool) -> Result<Http, String> {
    if !url.starts_with("http://") || url.len() <= "http://".len() {
        return Err(format!("wanted http://HOST:PORT/PATH, such as http://localhost:{{port}}/, found `{url}`"));
    }
    let generator = GENERATORS.into_iter().find(|generator| is_here(generator.name)).ok_or_else(|| {
        "wanted a load generator, oha, wrk or hey, found none on PATH: install one (Debian: `apt-get install wrk`), or name your own \
         with --ready, --load and --metric"
            .to_string()
    })?;
    Ok(Http { url: url.to_string(), generator })
}

impl Http {
    /// The program, with this flag's values for all fields that the user has not set.
    pub fn over(&self, program: Program) -> Program {
        let own_load = program.load.is_some();
        let mut metric = program.metric;
        if !own_load && metric.is_empty() {
            metric.extend(self.generator.metrics.map(|(name, expression)| (name.to_string(), expression.to_string())));
        }
        Program {
            ready: program.ready.or_else(|| Some(self.url.clone())),
            load: program.load.or_else(|| Some(self.load())),
            metric,
            ..program
        }
    }

    /// The command of the load. An error response is as quick as a page, and would be measured as one. So it fails the
    /// cell.
    ///
    /// `wrk` reports errors in words, a line each. `oha` and `hey` print a line for each status, such as `[200] 765
    /// responses`, and a line for each kind of failure, such as `[7] EOF`, where 7 is the number of failures. `oha`
    /// also counts the requests that it ends at the deadline: these are no failures.
    fn load(&self) -> String {
        let Generator { name, arguments, .. } = self.generator;
        let arguments = arguments.replace("{time}", LASTS).replace("{connections}", &CONNECTIONS.to_string());
        format!(
            "said=$({name} {arguments} {}) || exit; printf '%s\\n' \"$said\"; \
             ! printf '%s\\n' \"$said\" | grep -E 'Non-2xx|Socket errors|^ *\\[[0-9]+\\]' | \
             grep -vE '^ *\\[2[0-9][0-9]\\][[:space:]]+[0-9]+ responses|aborted due to deadline' >&2",
            quoted(&self.url)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_study::program::figures::FigurePattern;

    const WRK: &str = "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n  Latency Distribution\n     50%  214.00us\n     99%    1.37ms\n\
                       Requests/sec:  63862.18\nTransfer/sec:      7.98MB\n";
    const HEY: &str = "Summary:\n  Requests/sec:\t24312.9101\nLatency distribution:\n  95% in 0.0011 secs\n  99% in 0.0021 secs\n\
                       Status code distribution:\n  [200]\t200 responses\n";
    const OHA: &str = "Summary:\n  Requests/sec:\t24312.91\nResponse time distribution:\n  95.00% in 0.0011 sec\n  99.00% in 2.1000 ms\n\
                       Status code distribution:\n  [200] 200 responses\n";

    #[test]
    fn each_generators_figures_are_read() {
        for (name, output, rate, p99) in [
            ("wrk", WRK, 63862.18, 1_370_000.0),
            ("hey", HEY, 24312.9101, 2_100_000.0),
            ("oha", OHA, 24312.91, 2_100_000.0),
        ] {
            let http = with("http://localhost:{port}/", |here| here == name).unwrap();
            let program = http.over(Program::default());
            let figures = program.metric.iter().map(|(key, expression)| {
                let wanted = FigurePattern::parse(key, expression).unwrap();
                (wanted.name.clone(), wanted.find(output).unwrap().value)
            });
            let mut figures: Vec<(String, f64)> = figures.collect();
            figures.sort_by(|a, b| a.0.cmp(&b.0));
            assert_eq!(figures, [("p99".to_string(), p99), ("throughput".to_string(), rate)], "{name}");
            assert!(program.load.unwrap().contains(&format!("$({name} ")));
            assert_eq!(program.ready.as_deref(), Some("http://localhost:{port}/"));
        }
    }

    /// Runs the whole command line in a shell. An error that the load prints fails the cell, and the user sees it.
    #[test]
    fn a_load_with_errors_fails_and_says_which() {
        // A shell function replaces the load generator.
        let run = |name: &str, output: &str| {
            let load = with("http://localhost:1/", |here| here == name).unwrap().over(Program::default()).load.unwrap();
            let load = format!("{name}() {{ printf '%s' \"$OUTPUT\"; }}; {load}");
            let ran = std::process::Command::new("sh").args(["-c", &load]).env("OUTPUT", output).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&ran.stdout), output, "{name}: the figures are read from it");
            (ran.status.success(), String::from_utf8_lossy(&ran.stderr).trim().to_string())
        };
        let late = format!("{OHA}\nError distribution:\n  [16] aborted due to deadline\n");
        for (name, output) in [("wrk", WRK), ("hey", HEY), ("oha", OHA), ("oha", &late)] {
            assert_eq!(run(name, output), (true, String::new()), "{output}");
        }
        let eof = "[7]\tGet \"http://localhost:1/\": EOF";
        let wrong = [
            ("wrk", WRK, "Socket errors: connect 0, read 142, write 0, timeout 0"),
            ("wrk", WRK, "Non-2xx or 3xx responses: 1699"),
            ("hey", HEY, "[500]\t24 responses"),
            ("hey", HEY, eof),
            ("oha", OHA, "[404] 3 responses"),
            ("oha", &late, "[2] connection closed before message completed"),
        ];
        for (name, output, error) in wrong {
            assert_eq!(run(name, &format!("{output}  {error}\n")), (false, error.to_string()), "{name}");
        }
    }

    #[test]
    fn what_the_user_says_himself_is_kept() {
        let http = with("http://localhost:{port}/", |_| true).unwrap();
        let mine = Program { ready: Some("tcp:{port}".into()), load: Some("./load".into()), ..Program::default() };
        let both = http.over(mine.clone());
        assert_eq!(
            (both.ready, both.load, both.metric.len()),
            (mine.ready, mine.load, 0),
            "its load prints other figures"
        );
    }

    #[test]
    fn a_wrong_url_and_a_missing_generator_are_told() {
        assert!(with("localhost:80", |_| true).unwrap_err().contains("wanted http://"));
        assert!(with("http://", |_| true).unwrap_err().contains("wanted http://"));
        assert!(with("http://localhost/", |_| false).unwrap_err().contains("apt-get install wrk"));
    }
}
