//! A program's values, checked before anything is started. In: a study's `[program]`. Out: its limits, or what is wrong.

use std::collections::BTreeSet;
use std::fs;

use super::around::signal_number;
use super::{ContainerLimits, FigurePattern, Ready};
use allocanary_measure::metrics::MOST_NAMED;
use allocanary_rows::program::Program;
use allocanary_text::units::{parse_bytes, parse_duration};

/// The limits of a program's control group.
pub fn limits(program: &Program) -> Result<ContainerLimits, String> {
    let memory = program.memory_limit.as_deref().map(|text| {
        let bytes = parse_bytes(text).filter(|bytes| *bytes >= 1 << 20);
        bytes.ok_or_else(|| format!("--memory-limit: wanted a size of 1MiB or more, such as 256MiB, found `{text}`"))
    });
    let cpus = program.cpu_limit.as_deref().map(|text| {
        let cpus = text.trim().parse::<f64>().ok().filter(|cpus| (0.01..=100_000.0).contains(cpus));
        cpus.ok_or_else(|| format!("--cpu-limit: wanted a number of CPUs from 0.01, such as 0.5, found `{text}`"))
    });
    Ok(ContainerLimits { memory: memory.transpose()?, cpus: cpus.transpose()? })
}

/// Checks a program's values, before anything is started.
pub fn check(program: &Program) -> Result<(), String> {
    if program.command.first().is_none_or(String::is_empty) {
        return Err("wanted a program after `--`, as in `allocanary run -- python3 script.py`, found none".into());
    }
    limits(program)?;
    program.ready.as_deref().map(Ready::parse).transpose()?;
    if let Some(text) = program.settle.as_deref().filter(|text| parse_duration(text).is_none()) {
        return Err(format!("--settle: wanted a time such as 5s, found `{text}`"));
    }
    if let Some(text) = program.stop.as_deref().filter(|text| signal_number(text).is_none()) {
        return Err(format!("--stop: wanted a signal such as SIGTERM, found `{text}`"));
    }
    let service = [("--settle", &program.settle), ("--stop", &program.stop)];
    if let Some((flag, _)) = service.into_iter().find(|(_, value)| value.is_some() && !program.is_service()) {
        return Err(format!("{flag}: is for a service: add --ready or --load, or leave it out"));
    }
    if program.check.is_some() && program.is_service() {
        return Err("--check: is for a program that ends: a service's load can check its answers and fail".into());
    }
    if !program.metric.is_empty() && program.is_service() && program.load.is_none() {
        return Err("--metric: is read from the output of --load, and there is none".into());
    }
    if program.metric.len() > MOST_NAMED {
        return Err(format!(
            "--metric: wanted at most {MOST_NAMED} metrics, found {}: leave some out",
            program.metric.len()
        ));
    }
    let mut names = BTreeSet::new();
    for (key, expression) in &program.metric {
        let wanted = FigurePattern::parse(key, expression)?;
        if !names.insert(wanted.name.clone()) {
            return Err(format!("--metric: `{}` stands twice", wanted.name));
        }
    }
    if let Some(path) = program.stdin.as_deref().filter(|path| !path.contains('{')) {
        let meta = fs::metadata(path).map_err(|error| format!("--stdin {path}: {error}"))?;
        if meta.is_dir() {
            return Err(format!("--stdin {path}: wanted a file, found a folder"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn bad_values_are_refused_by_their_flag() {
        let base = || Program { command: vec!["true".into()], ..Program::default() };
        let text = |text: &str| Some(text.to_string());
        let metric = |key: &str| BTreeMap::from([(key.to_string(), "(x)".to_string())]);
        assert_eq!(check(&base()), Ok(()));
        let metrics = |count| (0..count).map(|at| (format!("x{at}"), "(x)".to_string())).collect();
        assert_eq!(check(&Program { metric: metrics(300), ..base() }), Ok(()));
        for (program, said) in [
            (Program { command: vec![], ..base() }, "wanted a program after `--`"),
            (Program { memory_limit: text("4"), ..base() }, "--memory-limit: wanted a size"),
            (Program { cpu_limit: text("none"), ..base() }, "--cpu-limit: wanted a number"),
            (Program { ready: text("tcp:x"), ..base() }, "--ready: wanted tcp:PORT"),
            (Program { settle: text("soon"), ready: text("line:x"), ..base() }, "--settle: wanted a time"),
            (Program { stop: text("SIGNONE"), ready: text("line:x"), ..base() }, "--stop: wanted a signal"),
            (Program { settle: text("5s"), ..base() }, "--settle: is for a service"),
            (Program { check: text("true"), ready: text("line:x"), ..base() }, "--check: is for a program that ends"),
            (Program { metric: metric("x"), ready: text("line:x"), ..base() }, "--metric: is read from the output"),
            (Program { metric: metrics(301), ..base() }, "--metric: wanted at most 300 metrics, found 301"),
            (Program { stdin: text("/no/such"), ..base() }, "--stdin /no/such: No such file"),
            (Program { stdin: text("/"), ..base() }, "--stdin /: wanted a file"),
        ] {
            let error = check(&program).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
