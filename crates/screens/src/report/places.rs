//! The lines to paste. In: a candidate. Out: for each place a title and the text.

use crate::report::lines::DeployLines;
use allocanary_facts::descriptor::Ours;
use allocanary_facts::our;
use allocanary_facts::paste;
use allocanary_rows::Spec;

/// The text for one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasteTarget {
    /// The place: `Dockerfile`.
    pub name: &'static str,
    /// The text, ready to paste.
    pub text: String,
}

/// The lines of a candidate for every place that can have its settings. Empty for an allocator that is not one of ours.
pub fn places(candidate: &Spec) -> Vec<PasteTarget> {
    let (Some(lines), Some((_, ours))) = (DeployLines::of(&candidate.clone().into()), our(&candidate.name)) else {
        return Vec::new();
    };
    let variables = variables(&lines);
    let each = |form: &dyn Fn(&str, &str) -> String| -> String {
        variables.iter().map(|(name, value)| form(name, value)).collect::<Vec<_>>().join("\n")
    };
    let mut found = Vec::new();
    let mut add = |name, text: String| found.push(PasteTarget { name, text });
    if !variables.is_empty() {
        add("environment of a shell", each(&|name, value| format!("export {}", paste::shell(name, value))));
        add("Dockerfile", each(&paste::dockerfile));
        let kubernetes = each(&|name, value| format!("  {}", paste::kubernetes(name, value).join("\n  ")));
        add("Kubernetes, in the container's spec", format!("env:\n{kubernetes}"));
        add("systemd, in [Service]", each(&paste::systemd));
    }
    found.extend(rust(&lines, ours));
    found.extend(c(candidate, ours));
    found.extend(services(candidate, ours, &variables));
    found
}

/// The variables that configure the allocator. A Rust program with tikv-jemallocator reads the prefixed variable; a
/// program that links jemalloc itself reads `MALLOC_CONF`.
fn variables(lines: &DeployLines) -> Vec<(String, String)> {
    let first = lines.variables.first().map(|(_, value)| value.clone());
    let also = lines.also.zip(first).map(|(name, value)| (name.to_string(), value));
    lines.variables.iter().cloned().chain(also).collect()
}

/// `install!` in a Rust program.
fn rust(lines: &DeployLines, ours: &Ours) -> Option<PasteTarget> {
    let install = lines.install.as_ref()?;
    let feature = ours.feature.map_or(String::new(), |name| format!("features = [\"{name}\"], "));
    let text = format!(
        "# Cargo.toml\nallocanary = {{ version = \"0.1\", {feature}default-features = false }}\n// main.rs\n{install}"
    );
    Some(PasteTarget { name: "Rust", text })
}

/// The settings in the code of a C or C++ program.
fn c(candidate: &Spec, ours: &Ours) -> Option<PasteTarget> {
    if candidate.settings.is_empty() {
        return None;
    }
    Some(PasteTarget { name: "C and C++", text: (ours.c)(&candidate.settings)? })
}

/// A service in another language gets an allocator by a preload, which replaces only C's malloc.
fn services(candidate: &Spec, ours: &Ours, variables: &[(String, String)]) -> Option<PasteTarget> {
    let name = &candidate.name;
    let start = if ours.is_everywhere() {
        // The service already has this malloc.
        variables.iter().map(|(name, value)| paste::shell(name, value)).collect::<Vec<_>>().join(" ")
    } else {
        let settings: Vec<String> = candidate.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let settings = Some(settings.join(",")).filter(|settings| !settings.is_empty());
        let library = paste::shell("LD_PRELOAD", &format!("/usr/local/lib/preload-{name}"));
        let settings = settings.map_or(String::new(), |text| format!(" {}", paste::shell("ALLOCANARY_PRELOAD", &text)));
        format!("{library}{settings}")
    };
    if start.is_empty() {
        return None;
    }
    let where_it_is = match ours.is_everywhere() {
        true => String::new(),
        false => format!("# the library: `allocanary preload {name}` prints its place\n"),
    };
    let text = format!(
        "{where_it_is}{start} python3 service.py\n\
         # Python's small objects have an allocator of their own; PYTHONMALLOC=malloc sends them here.\n\
         # Go: only what cgo's C code allocates is reached."
    );
    Some(PasteTarget { name: "a Python or Go service", text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(candidate: &str) -> String {
        let found = places(&Spec::parse(candidate).unwrap());
        found.iter().map(|place| format!("{}:\n{}\n", place.name, place.text)).collect()
    }

    #[test]
    fn every_place_has_its_own_form() {
        let said = text("jemalloc:narenas=1,tcache=false");
        for line in [
            "export _RJEM_MALLOC_CONF=narenas:1,tcache:false\n",
            "ENV MALLOC_CONF=narenas:1,tcache:false\n",
            "  - name: _RJEM_MALLOC_CONF\n    value: \"narenas:1,tcache:false\"\n",
            "Environment=\"MALLOC_CONF=narenas:1,tcache:false\"\n",
            "const char *malloc_conf = \"narenas:1,tcache:false\";\n",
            "allocanary::install!(jemalloc, narenas = 1, tcache = false);\n",
            "LD_PRELOAD=/usr/local/lib/preload-jemalloc ALLOCANARY_PRELOAD=narenas=1,tcache=false python3 service.py",
        ] {
            assert!(said.contains(line), "{line}\n{said}");
        }
        let said = text("system:arena_max=1");
        for line in [
            "export GLIBC_TUNABLES=glibc.malloc.arena_max=1\n",
            "mallopt(M_ARENA_MAX, 1);\n",
            "allocanary::install!(system, arena_max = 1);\n",
        ] {
            assert!(said.contains(line), "{line}\n{said}");
        }
        let said = text("system:tcache_count=0");
        assert!(!said.contains("install!") && !said.contains("mallopt"), "a program cannot set it: {said}");
        assert!(text("mimalloc:purge_delay=0").contains("mi_option_set(mi_option_purge_delay, 0);"));
        let said = text("mimalloc:allow_thp=0,purge_delay=0");
        assert!(
            said.contains("ENV MIMALLOC_ALLOW_THP=0\n") && !said.contains("mi_option_set"),
            "too late in main: {said}"
        );
        assert!(text("system").contains("install!(system);") && !text("system").contains("Python"));
        assert_eq!(text("rpmalloc:a=1"), "");
    }
}
