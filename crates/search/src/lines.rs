//! The lines to paste. In: a candidate, and how its allocator is configured. Out: for each place a title and the text.

use std::collections::BTreeMap;

use allocanary_cell::description::Description;
use allocanary_cell::spec::Spec;

/// Lines for one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines {
    /// The place: `Dockerfile`.
    pub place: &'static str,
    /// The text, ready to paste.
    pub text: String,
}

/// The lines of a candidate for every place in which its settings can stand.
pub fn lines(candidate: &Spec, cell: &Description) -> Vec<Lines> {
    let variables = variables(candidate, cell);
    let each = |form: &dyn Fn(&str, &str) -> String| -> String {
        variables.iter().map(|(name, value)| form(name, value)).collect::<Vec<_>>().join("\n")
    };
    let mut found = Vec::new();
    if !variables.is_empty() {
        found.push(Lines {
            place: "environment of a shell",
            text: each(&|name, value| format!("export {name}={value}")),
        });
        found.push(Lines { place: "Dockerfile", text: each(&|name, value| format!("ENV {name}=\"{value}\"")) });
        found.push(Lines {
            place: "Kubernetes, in the container's spec",
            text: format!("env:\n{}", each(&|name, value| format!("  - name: {name}\n    value: \"{value}\""))),
        });
        found.push(Lines {
            place: "systemd, in [Service]",
            text: each(&|name, value| format!("Environment=\"{name}={value}\"")),
        });
    }
    found.extend(rust(candidate));
    found.extend(c(candidate));
    found.extend(services(candidate, &variables));
    found
}

/// The variables that configure the allocator. A Rust program with tikv-jemallocator reads the prefixed variable; a
/// program that links or preloads jemalloc itself reads `MALLOC_CONF`.
fn variables(candidate: &Spec, cell: &Description) -> Vec<(String, String)> {
    let mut variables = cell.environment.variables(&candidate.settings);
    if candidate.name == "jemalloc"
        && let Some((_, value)) = variables.first().cloned()
    {
        variables.push(("MALLOC_CONF".into(), value));
    }
    variables
}

/// `install!` in a Rust program.
fn rust(candidate: &Spec) -> Option<Lines> {
    let value = |value: &str| match value.parse::<i64>() {
        Ok(_) => value.to_string(),
        Err(_) if matches!(value, "true" | "false") => value.to_string(),
        Err(_) => format!("\"{value}\""),
    };
    let installable = |name: &str| candidate.name != "system" || is_settable(name);
    if !candidate.settings.keys().all(|name| installable(name)) {
        return None; // only GLIBC_TUNABLES has these
    }
    let settings: String =
        candidate.settings.iter().map(|(name, text)| format!(", {name} = {}", value(text))).collect();
    let feature = match candidate.name.as_str() {
        "system" => String::new(),
        name => format!("features = [\"{name}\"], "),
    };
    let text = format!(
        "# Cargo.toml\nallocanary = {{ version = \"0.1\", {feature}default-features = false }}\n\
         // main.rs\nallocanary::install!({}{settings});",
        candidate.name
    );
    Some(Lines { place: "Rust", text })
}

/// The settings of glibc that a program can set by itself, with mallopt.
fn is_settable(name: &str) -> bool {
    MALLOPT.iter().any(|(known, _)| *known == name)
}

/// mallopt's name for each.
const MALLOPT: [(&str, &str); 7] = [
    ("arena_max", "M_ARENA_MAX"),
    ("arena_test", "M_ARENA_TEST"),
    ("trim_threshold", "M_TRIM_THRESHOLD"),
    ("mmap_threshold", "M_MMAP_THRESHOLD"),
    ("top_pad", "M_TOP_PAD"),
    ("mmap_max", "M_MMAP_MAX"),
    ("mxfast", "M_MXFAST"),
];

fn c(candidate: &Spec) -> Option<Lines> {
    if candidate.settings.is_empty() {
        return None;
    }
    let text = match candidate.name.as_str() {
        "jemalloc" => {
            let pairs: Vec<String> = candidate.settings.iter().map(|(name, value)| format!("{name}:{value}")).collect();
            format!("const char *malloc_conf = \"{}\";", pairs.join(","))
        }
        "system" => {
            let call = |(name, value): (&String, &String)| {
                let (_, option) = MALLOPT.iter().find(|(known, _)| known == name)?;
                Some(format!("mallopt({option}, {value});"))
            };
            let calls: Option<Vec<String>> = candidate.settings.iter().map(call).collect();
            format!("#include <malloc.h>\n/* first in main */\n{}", calls?.join("\n"))
        }
        "mimalloc" => {
            let call = |(name, value): (&String, &String)| format!("mi_option_set(mi_option_{name}, {value});");
            let calls: Vec<String> = candidate.settings.iter().map(call).collect();
            format!("#include <mimalloc.h>\n/* first in main */\n{}", calls.join("\n"))
        }
        _ => return None,
    };
    Some(Lines { place: "C and C++", text })
}

/// Go and Python do not link an allocator of ours: it is preloaded, which reaches C's malloc only.
fn services(candidate: &Spec, variables: &[(String, String)]) -> Option<Lines> {
    let library = match candidate.name.as_str() {
        "system" if variables.is_empty() => return None,
        "system" => String::new(),
        name => format!("LD_PRELOAD=/usr/lib/x86_64-linux-gnu/lib{name}.so.2 "),
    };
    let plain: BTreeMap<&str, &str> = variables
        .iter()
        .filter(|(name, _)| !name.starts_with('_'))
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let settings: String = plain.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    let text = format!(
        "{library}{settings}python3 service.py\n\
         # Python's small objects have an allocator of their own; PYTHONMALLOC=malloc sends them here.\n\
         # Go: only what cgo's C code allocates is reached: {settings}./service"
    );
    Some(Lines { place: "a Python or Go service", text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_allocators::environment::Environment;
    use allocanary_allocators::{Allocator, System};
    use allocanary_cell::provenance::Build;

    fn cell(environment: Environment) -> Description {
        Description {
            protocol: 1,
            build: Build::this(),
            allocator: "x".into(),
            version: "1".into(),
            settings: Vec::new(),
            effective: BTreeMap::new(),
            problems: Vec::new(),
            environment,
            per_core: None,
            workloads: Vec::new(),
        }
    }

    fn text(candidate: &str, environment: Environment) -> String {
        let found = lines(&Spec::parse(candidate).unwrap(), &cell(environment));
        found.iter().map(|lines| format!("{}:\n{}\n", lines.place, lines.text)).collect()
    }

    #[test]
    fn every_place_has_its_own_form() {
        let jemalloc = Environment::Joined {
            variable: "_RJEM_MALLOC_CONF".into(),
            earlier: Default::default(),
            single: Default::default(),
            prefix: "".into(),
            assign: ":".into(),
            separator: ",".into(),
        };
        let said = text("jemalloc:narenas=1,tcache=false", jemalloc);
        for line in [
            "export _RJEM_MALLOC_CONF=narenas:1,tcache:false\n",
            "ENV MALLOC_CONF=\"narenas:1,tcache:false\"\n",
            "  - name: _RJEM_MALLOC_CONF\n    value: \"narenas:1,tcache:false\"\n",
            "Environment=\"MALLOC_CONF=narenas:1,tcache:false\"\n",
            "const char *malloc_conf = \"narenas:1,tcache:false\";\n",
            "allocanary::install!(jemalloc, narenas = 1, tcache = false);\n",
            "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2 MALLOC_CONF=narenas:1,tcache:false python3 service.py",
        ] {
            assert!(said.contains(line), "{line}\n{said}");
        }
        let said = text("system:arena_max=1", System.environment());
        for line in [
            "export GLIBC_TUNABLES=glibc.malloc.arena_max=1\n",
            "mallopt(M_ARENA_MAX, 1);\n",
            "allocanary::install!(system, arena_max = 1);\n",
        ] {
            assert!(said.contains(line), "{line}\n{said}");
        }
        let said = text("system:tcache_count=0", System.environment());
        assert!(!said.contains("install!") && !said.contains("mallopt"), "a program cannot set it: {said}");
        let said = text("mimalloc:allow_thp=0", Environment::Each { prefix: "MIMALLOC_".into() });
        assert!(
            said.contains("ENV MIMALLOC_ALLOW_THP=\"0\"\n") && said.contains("mi_option_set(mi_option_allow_thp, 0);")
        );
        assert!(text("system", System.environment()).contains("install!(system);"));
    }
}
