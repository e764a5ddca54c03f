//! Applies an answer in production: the files that put a candidate's library and variables where a service runs, and the steps for using
//! them. In: findings, and a place. Out: files and steps.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::report::lines::DeployLines;
use crate::report::wrapper::Wrapper;
use allocanary_facts::our;
use allocanary_facts::paste;
use allocanary_measure::summary::{Findings, Recommendation, RecommendedStep};
use allocanary_rows::{Candidate, Spec};

/// Where a service runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeployTarget {
    /// A Deployment: a patch, and the image of an init container that has the library.
    Kubernetes,
    /// A layer on top of the service's image.
    Docker,
    /// A drop-in of a unit.
    Systemd,
    /// The service's own sources.
    Rust,
}

/// Every place.
pub const PLACES: [DeployTarget; 4] =
    [DeployTarget::Kubernetes, DeployTarget::Docker, DeployTarget::Systemd, DeployTarget::Rust];

impl DeployTarget {
    /// Its name on the command line and as a folder.
    pub const fn name(self) -> &'static str {
        match self {
            DeployTarget::Kubernetes => "kubernetes",
            DeployTarget::Docker => "docker",
            DeployTarget::Systemd => "systemd",
            DeployTarget::Rust => "rust",
        }
    }

    /// The place of that name.
    pub fn find(name: &str) -> Option<DeployTarget> {
        PLACES.into_iter().find(|place| place.name() == name)
    }
}

/// The library's folder in an image, and on a host.
const FOLDER: &str = "/usr/local/lib";
/// The placeholder for the program and its arguments.
const PROGRAM: &str = "YOUR_PROGRAM";
/// The folder into which an init container copies the library.
const SHARED: &str = "/allocanary";

/// A candidate to use in production.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProductionChange {
    /// The allocator and its settings.
    pub candidate: Spec,
    /// The variables that configure it. `LD_PRELOAD` is the library's path on this machine.
    pub environment: BTreeMap<String, String>,
}

/// The files for a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Names and texts.
    pub files: Vec<(&'static str, String)>,
    /// The library to put next to them, and its name there.
    pub library: Option<(PathBuf, String)>,
    /// What to do, in this order.
    pub steps: Vec<String>,
}

/// The candidate that the last panel with a recommendation takes. `None` if nothing has to change, or if a search made the
/// decision.
pub fn recommended(findings: &Findings) -> Option<ProductionChange> {
    let panels = findings.sections.iter().flat_map(|section| section.panels.iter().map(move |panel| (section, panel)));
    let mut taken = panels.filter(|(section, _)| section.about.decided.is_none()).filter_map(|(section, panel)| {
        let found = Recommendation::of(section, panel)?;
        let RecommendedStep::Take(at) = found.choice else { return None };
        let line = &panel.lines[at];
        Some(ProductionChange::of(&line.candidate, &line.points[found.column].as_ref()?.environment))
    });
    taken.next_back()
}

impl ProductionChange {
    /// A candidate with the variables of its rows. Rows of linked cells have none.
    pub fn of(candidate: &Candidate, environment: &BTreeMap<String, String>) -> ProductionChange {
        let environment = match environment.is_empty() {
            true => DeployLines::of(candidate).map_or(BTreeMap::new(), |lines| lines.variables.into_iter().collect()),
            false => environment.clone(),
        };
        ProductionChange { candidate: candidate.spec.clone(), environment }
    }

    /// Whether an allocator must be preloaded, but the variables do not name its library. In the cells the allocator is linked, so their
    /// rows have no such variable.
    pub fn needs_library(&self) -> bool {
        let name = self.candidate.name.as_str();
        let is_there = name == "own" || our(name).is_some_and(|(_, ours)| ours.is_everywhere());
        !is_there && !self.environment.contains_key("LD_PRELOAD")
    }

    /// The same change with this library.
    pub fn with_library(mut self, library: &Path) -> ProductionChange {
        self.environment.insert("LD_PRELOAD".into(), library.to_string_lossy().into_owned());
        self
    }

    /// The library's path on this machine, and its name.
    fn library(&self) -> Option<(PathBuf, String)> {
        let path = PathBuf::from(self.environment.get("LD_PRELOAD")?.split(':').next()?);
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some((path, name))
    }

    /// The variables, with the library in this folder.
    fn variables(&self, folder: &str) -> Vec<(String, String)> {
        let library = self.library();
        let value = |name: &str, value: &str| match &library {
            Some((_, file)) if name == "LD_PRELOAD" => format!("{folder}/{file}"),
            _ => value.to_string(),
        };
        self.environment.iter().map(|(name, text)| (name.clone(), value(name, text))).collect()
    }

    /// The wrapper that starts the program, if its huge pages are limited.
    fn wrapper(&self) -> Option<Wrapper> {
        Wrapper::of(&self.candidate)
    }

    /// The files for a place. The error says why they cannot be made.
    pub fn bundle(&self, place: DeployTarget) -> Result<Bundle, String> {
        if self.environment.is_empty() && self.wrapper().is_none() && place != DeployTarget::Rust {
            return Err(format!(
                "{} needs no variable and no library: start the program without LD_PRELOAD, and without variables for another \
                 allocator",
                self.candidate
            ));
        }
        match place {
            DeployTarget::Kubernetes => Ok(self.kubernetes()),
            DeployTarget::Docker => Ok(self.docker()),
            DeployTarget::Systemd => Ok(self.systemd()),
            DeployTarget::Rust => self.rust(),
        }
    }

    fn docker(&self) -> Bundle {
        let mut text = format!(
            "# {}: a layer on top of an image whose C library is glibc.\nARG IMAGE\nFROM ${{IMAGE}}\n",
            self.candidate
        );
        if let Some((_, name)) = self.library() {
            text.push_str(&format!("COPY {name} {FOLDER}/{name}\n"));
        }
        self.variables(FOLDER)
            .iter()
            .for_each(|(name, value)| text.push_str(&format!("{}\n", paste::dockerfile(name, value))));
        if let Some(wrapper) = self.wrapper() {
            text.push_str(&format!(
                "# The entry point of the image, with its arguments.\n{}\n",
                wrapper.dockerfile(PROGRAM)
            ));
        }
        Bundle {
            files: vec![("Dockerfile", text)],
            library: self.library(),
            steps: vec!["docker build --build-arg IMAGE=YOUR_IMAGE -t YOUR_IMAGE-allocanary .".into()],
        }
    }

    fn kubernetes(&self) -> Bundle {
        let env = self.variables(SHARED);
        let env: String =
            env.iter().map(|(name, value)| format!("            {}\n", paste::kubernetes_line(name, value))).collect();
        let env = if env.is_empty() { env } else { format!("          env:\n{env}") };
        let start =
            self.wrapper().map_or(String::new(), |wrapper| format!("          {}\n", wrapper.kubernetes(PROGRAM)));
        let Some((path, name)) = self.library() else {
            let patch = format!(
                "# {}\nspec:\n  template:\n    spec:\n      containers:\n        - name: YOUR_CONTAINER\n{start}{env}",
                self.candidate
            );
            return Bundle { files: vec![("patch.yaml", patch)], library: None, steps: patched() };
        };
        let patch = format!(
            "# {}: an init container brings the library, and the container preloads it. Its C library must be glibc.\n\
             spec:\n  template:\n    spec:\n      \
             initContainers:\n        - name: allocanary\n          image: YOUR_REGISTRY/{name}:1\n          \
             command: [cp, /{name}, {SHARED}/]\n          \
             volumeMounts: [{{name: allocanary, mountPath: {SHARED}}}]\n      \
             containers:\n        - name: YOUR_CONTAINER\n{start}{env}          \
             volumeMounts: [{{name: allocanary, mountPath: {SHARED}, readOnly: true}}]\n      \
             volumes:\n        - {{name: allocanary, emptyDir: {{}}}}\n",
            self.candidate
        );
        let image = format!("# The image of the init container.\nFROM busybox:stable\nCOPY {name} /{name}\n");
        let steps = [format!("docker build -t YOUR_REGISTRY/{name}:1 . && docker push YOUR_REGISTRY/{name}:1")];
        Bundle {
            files: vec![("Dockerfile", image), ("patch.yaml", patch)],
            library: Some((path, name)),
            steps: steps.into_iter().chain(patched()).collect(),
        }
    }

    fn systemd(&self) -> Bundle {
        let lines = self.variables(FOLDER);
        let lines: String = lines.iter().map(|(name, value)| format!("{}\n", paste::systemd(name, value))).collect();
        let start = self.wrapper().map_or(String::new(), |wrapper| {
            let (line, directive) = (wrapper.systemd(PROGRAM), wrapper.directive());
            format!(
                "# From systemd 260 on, {directive} is enough, in place of the next two lines.\nExecStart=\n{line}\n"
            )
        });
        let copy = self.library().map(|(_, name)| format!("install -m 755 {name} {FOLDER}/{name}"));
        let steps = [
            "install -D -m 644 allocanary.conf /etc/systemd/system/YOUR_SERVICE.service.d/allocanary.conf".to_string(),
            "systemctl daemon-reload && systemctl restart YOUR_SERVICE".to_string(),
        ];
        Bundle {
            files: vec![("allocanary.conf", format!("# {}\n[Service]\n{lines}{start}", self.candidate))],
            library: self.library(),
            steps: copy.into_iter().chain(steps).collect(),
        }
    }

    fn rust(&self) -> Result<Bundle, String> {
        if self.wrapper().is_some() {
            return Err(format!(
                "{}: no `install!` limits huge pages: the service calls prctl(PR_SET_THP_DISABLE) itself, or take --write-for docker, \
                 kubernetes or systemd",
                self.candidate
            ));
        }
        // A program with `install!` calls `thread_idle` itself. Only preloads have it as a setting.
        let mut settable = Candidate::from(self.candidate.clone());
        settable.spec.settings.remove(allocanary_facts::THREAD_IDLE);
        let install = DeployLines::of(&settable).and_then(|lines| lines.install);
        let install = install.ok_or_else(|| {
            format!("{}: no `install!` sets this: take --write-for docker, kubernetes or systemd", self.candidate)
        })?;
        let feature = our(&self.candidate.name).and_then(|(_, ours)| ours.feature);
        let features = feature.map_or(String::new(), |name| format!(", features = [\"{name}\"]"));
        let dependency = format!(
            "# Below [dependencies], with a clone of allocanary next to the service.\n\
             allocanary = {{ path = \"../allocanary\", default-features = false{features} }}\n"
        );
        let root = format!("// At the root of the binary.\n{install}\n");
        Ok(Bundle {
            files: vec![("Cargo.toml.lines", dependency), ("main.rs.lines", root)],
            library: None,
            steps: vec!["paste these lines, and build".into()],
        })
    }
}

/// How a patch is used.
fn patched() -> Vec<String> {
    vec!["kubectl patch deployment YOUR_DEPLOYMENT --patch-file patch.yaml".into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(candidate: &str, variables: &[(&str, &str)]) -> ProductionChange {
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        ProductionChange::of(&Candidate::read(candidate, &BTreeMap::new()), &variables)
    }

    fn preloaded() -> ProductionChange {
        let variables = [("LD_PRELOAD", "/opt/preload-jemalloc"), ("_RJEM_MALLOC_CONF", "narenas:1,tcache:false")];
        change("jemalloc:narenas=1,tcache=false", &variables)
    }

    #[test]
    fn a_layer_has_the_library_where_the_variable_says() {
        let bundle = preloaded().bundle(DeployTarget::Docker).unwrap();
        assert_eq!(
            bundle.files[0].1,
            "# jemalloc:narenas=1,tcache=false: a layer on top of an image whose C library is glibc.\n\
             ARG IMAGE\nFROM ${IMAGE}\n\
             COPY preload-jemalloc /usr/local/lib/preload-jemalloc\n\
             ENV LD_PRELOAD=/usr/local/lib/preload-jemalloc\n\
             ENV _RJEM_MALLOC_CONF=narenas:1,tcache:false\n"
        );
        assert_eq!(bundle.library, Some(("/opt/preload-jemalloc".into(), "preload-jemalloc".into())));
    }

    #[test]
    fn a_candidate_without_a_library_has_variables_only() {
        let change = change("system:arena_max=1", &[]);
        assert!(!change.needs_library(), "every program has it");
        let texts: Vec<String> =
            PLACES.iter().map(|place| change.bundle(*place).unwrap().files.last().unwrap().1.clone()).collect();
        assert!(texts.iter().all(|text| !text.contains("LD_PRELOAD") && !text.contains("COPY")), "{texts:?}");
        let value = "glibc.malloc.arena_max=1";
        assert!(
            texts[0].contains(&format!("{{name: GLIBC_TUNABLES, value: \"{value}\"}}")) && !texts[0].contains("initC")
        );
        assert!(texts[1].contains(&format!("ENV GLIBC_TUNABLES={value}")) && texts[2].contains(value), "{texts:?}");
        assert!(texts[3].contains("allocanary::install!(system, arena_max = 1);"), "{texts:?}");
    }

    #[test]
    fn linked_cells_name_no_library_and_get_one() {
        let linked = change("jemalloc:narenas=1", &[]);
        assert!(linked.needs_library());
        let with = linked.with_library(Path::new("/opt/preload-jemalloc"));
        assert!(!with.needs_library());
        let unit = with.bundle(DeployTarget::Systemd).unwrap();
        assert!(unit.files[0].1.contains("Environment=\"LD_PRELOAD=/usr/local/lib/preload-jemalloc\"\n"), "{unit:?}");
        assert_eq!(unit.steps[0], "install -m 755 preload-jemalloc /usr/local/lib/preload-jemalloc");
    }

    #[test]
    fn limited_huge_pages_bring_a_wrapper_with_or_without_variables() {
        let own = change("own:process_thp=never", &[]);
        let texts: Vec<String> =
            PLACES[..3].iter().map(|place| own.bundle(*place).unwrap().files.last().unwrap().1.clone()).collect();
        assert!(texts[0].ends_with("        - name: YOUR_CONTAINER\n          command: [\"perl\", \"-e\", \"syscall(157, 41, 1, 0, 0, 0) == 0 or die; exec @ARGV or die\", \"YOUR_PROGRAM\"]\n") || !cfg!(target_arch = "x86_64"), "{}", texts[0]);
        assert!(!texts[0].contains("env:"), "{}", texts[0]);
        assert!(texts[1].contains("\nENTRYPOINT [\"perl\", "), "{}", texts[1]);
        assert!(
            texts[2].contains("\nExecStart=\nExecStart=/usr/bin/perl -e '") && texts[2].contains("MemoryTHP=disable")
        );
        let jemalloc = change("jemalloc:process_thp=never", &[("LD_PRELOAD", "/opt/preload-jemalloc")]);
        let patch = &jemalloc.bundle(DeployTarget::Kubernetes).unwrap().files[1].1;
        assert!(
            patch.contains("command: [\"perl\"") && patch.contains("          env:\n            - {name: LD_PRELOAD"),
            "{patch}"
        );
        assert!(jemalloc.bundle(DeployTarget::Rust).unwrap_err().contains("no `install!` limits huge pages"));
    }

    #[test]
    fn what_has_no_lines_says_so() {
        let own = change("own", &[]);
        assert!(own.bundle(DeployTarget::Docker).unwrap_err().contains("needs no variable"));
        let only = change("system:tcache_count=0", &[]);
        assert!(only.bundle(DeployTarget::Rust).unwrap_err().contains("no `install!` sets this"));
    }
}
