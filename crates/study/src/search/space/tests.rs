use super::*;
use allocanary_facts::setting::PerCore;
use allocanary_facts::system;
use allocanary_rows::provenance::Build;

fn description(allocator: &str, settings: &[&str]) -> Description {
    let known = |name: &&str| {
        let kind = allocanary_facts::setting::SettingKind::Text;
        allocanary_facts::setting::Setting { name: name.to_string().into(), kind, about: "".into() }
    };
    Description {
        protocol: 1,
        build: Build::this(),
        allocator: allocator.into(),
        version: "1".into(),
        settings: settings.iter().map(known).collect(),
        effective: BTreeMap::new(),
        problems: Vec::new(),
        environment: system::ENVIRONMENT,
        per_core: None,
        workloads: Vec::new(),
    }
}

fn cells() -> Vec<Description> {
    ["jemalloc", "system", "mimalloc"]
        .map(|allocator| {
            let rows = dimensions().filter(|(name, row)| *name == allocator && row.setting != PROCESS_THP);
            let names: Vec<&str> = rows.map(|(_, row)| row.setting).collect();
            description(allocator, &names)
        })
        .to_vec()
}

/// The candidates in the notation of studies.
fn names(found: &Candidates) -> Vec<String> {
    found.all.iter().map(Candidate::to_string).collect()
}

const SHORT: Rest = Rest::Workload(Duration::from_millis(50));

#[test]
fn the_first_stage_has_some_thirty_candidates_and_the_pair_of_settings() {
    let cells = cells();
    let found = Space::new(&cells, None, None, 40, SHORT).unwrap().first();
    assert_eq!(found.all.len(), 4 * 2 * 2 + 3 * 2 + 2 * 2, "{:?}", found.all);
    for name in [
        "jemalloc",
        "jemalloc:narenas=1,tcache=false",
        "jemalloc:narenas=40",
        "system:arena_max=1",
        "mimalloc:allow_thp=0",
    ] {
        assert!(found.all.contains(&name.into()), "{name}");
    }
    let said: Vec<&String> = found.left_out.iter().collect();
    assert!(said.len() == 4 && said[0].contains("acts after 1000 ms, and the workload rests for 50 ms"), "{said:?}");
    let long = Space::new(&cells, None, None, 40, Rest::Workload(Duration::from_secs(2))).unwrap().first();
    assert!(long.all.contains(&"jemalloc:background_thread=true,dirty_decay_ms=1000".into()));
    assert_eq!(long.all.len(), 4 * 2 * 3 + 6 + 4 + 3, "and thread_idle by itself for each");
    assert!(long.all.contains(&"mimalloc:thread_idle=100ms".into()));
}

#[test]
fn the_second_stage_keeps_to_what_has_an_effect() {
    let cells = cells();
    let space = Space::new(&cells, None, None, 4, SHORT).unwrap();
    let found = space.around(&["jemalloc:tcache=false".into(), "system".into()]);
    assert!(names(&found).iter().all(|name| !name.contains("tcache_max")), "{:?}", found.all);
    assert!(found.all.contains(&"system:tcache_count=0".into()), "{:?}", found.all);
    let cached = space.around(&["jemalloc:narenas=1".into()]);
    assert!(cached.all.contains(&"jemalloc:narenas=1,tcache_max=4096".into()), "{:?}", cached.all);
}

#[test]
fn a_default_is_not_tried_under_another_name_and_an_unknown_allocator_is_named() {
    let mut cells = cells();
    cells[1].effective.insert("trim_threshold".into(), "131072".into());
    let only = Some(&["system".to_string()][..]);
    let found = Space::new(&cells, None, only, 4, SHORT).unwrap().first();
    assert_eq!(names(&found), ["system", "system:arena_max=1", "system:arena_max=2"]);
    let unknown = Space::new(&cells, None, Some(&["jemaloc".to_string()]), 4, SHORT).unwrap_err().to_string();
    assert!(unknown.contains("no allocator `jemaloc`; perhaps jemalloc"), "{unknown}");
}

#[test]
fn the_default_of_an_emulated_host_is_its_own() {
    let mut cells = cells();
    cells[0].effective.insert("narenas".into(), "1".into());
    cells[0].per_core = Some(PerCore { setting: "narenas".into(), ratio: 4, on_one: Some(1) });
    let first = |cores: u32| Space::new(&cells, None, None, cores, SHORT).unwrap().first();
    let has = |cores: u32| first(cores).all.contains(&"jemalloc:narenas=1".into());
    assert!(has(sys::affinity() + 39), "one arena is the default of this host alone");
    assert!(!has(sys::affinity()));
}

#[test]
fn every_value_of_an_allocator_is_one_that_it_takes() {
    for (one, ours) in ours() {
        for row in ours.dimensions {
            let known = (ours.settings)().iter().find(|known| known.name == row.setting).expect(row.setting);
            for value in row.values.iter().filter(|value| **value != "cores") {
                known.kind.canonical(value).unwrap_or_else(|wanted| panic!("{}:{}: {wanted}", one.name, row.setting));
            }
        }
    }
}

#[test]
fn idle_threads_are_tried_alone_and_around_the_survivors_where_a_preload_has_them() {
    let all = cells();
    let rest = Rest::Service(Duration::from_millis(500));
    let space = Space::new(&all, None, None, 4, rest).unwrap();
    let with_idle = |found: &Candidates| names(found).iter().filter(|name| name.contains(THREAD_IDLE)).count();
    assert_eq!(with_idle(&space.first()), 3);
    let around = space.around(&["jemalloc:narenas=1".into()]);
    assert!(around.all.contains(&"jemalloc:narenas=1,thread_idle=100ms".into()), "{:?}", around.all);
    let said: Vec<String> = space.first().left_out.into_iter().collect();
    assert!(said[0].contains("the service settles for 500 ms: --settle 2000ms lets it act"), "{said:?}");
    let bare = [description("system", &["arena_max", "trim_threshold"])];
    let found = Space::new(&bare, None, None, 4, rest).unwrap().first();
    assert_eq!(with_idle(&found), 0);
    assert!(found.left_out.iter().any(|why| why.contains("only preloads have it")), "{:?}", found.left_out);
}

#[test]
fn huge_pages_are_limited_where_the_program_has_some_whatever_its_allocator() {
    let rest = Rest::Program(Duration::from_millis(50));
    let go = [description("own", &[PROCESS_THP])];
    let found = Space::new(&go, None, None, 4, rest).unwrap().first();
    assert_eq!(names(&found), ["own", "own:process_thp=never"]);
    let both = [description("own", &["arena_max", PROCESS_THP]), description("jemalloc", &["tcache", PROCESS_THP])];
    let space = Space::new(&both, Some("system"), None, 4, rest).unwrap();
    assert!(names(&space.first()).contains(&"own:process_thp=never".to_string()));
    let around = space.around(&["jemalloc:tcache=false".into()]);
    assert!(around.all.contains(&"jemalloc:process_thp=never,tcache=false".into()), "{:?}", around.all);
    let none = [description("own", &["arena_max"])];
    let found = Space::new(&none, Some("system"), None, 4, rest).unwrap().first();
    assert!(found.left_out.iter().any(|why| why.contains("the program has no huge pages")), "{:?}", found.left_out);
}

#[test]
fn another_version_of_an_allocator_has_its_dimensions_as_far_as_it_knows_them() {
    let all = [description("jemalloc@5.3.0", &["narenas"]), description("tcmalloc", &["release_rate"])];
    let found = Space::new(&all, None, None, 40, SHORT).unwrap().first();
    let wanted =
        ["jemalloc@5.3.0", "jemalloc@5.3.0:narenas=1", "jemalloc@5.3.0:narenas=2", "jemalloc@5.3.0:narenas=40"];
    assert_eq!(names(&found)[..4], wanted);
    assert_eq!(names(&found)[4..], ["tcmalloc"], "nothing is known of what to try");
}

#[test]
fn a_runtimes_settings_are_those_of_its_program_and_every_value_is_one_that_it_takes() {
    let own = [description("own", &["gogc", "memlimit", "maxprocs"]), description("system", &["arena_max"])];
    let memory = Some(100 << 20 | 5);
    let space = Space::new(&own, None, None, 4, SHORT).unwrap().of_runtime(Some("Go"), memory);
    let found = space.first();
    let of_own: Vec<String> = names(&found).into_iter().filter(|name| name.starts_with("own")).collect();
    // gogc without off; with each of three limits, all five values; maxprocs alone.
    assert_eq!(of_own.len(), 4 + 3 * 5 + 1, "{of_own:?}");
    for name in ["own", "own:gogc=400", "own:gogc=off,memlimit=52428800", "own:memlimit=104857600", "own:maxprocs=2"] {
        assert!(of_own.iter().any(|found| found == name), "{name}: {of_own:?}");
    }
    assert!(!of_own.contains(&"own:gogc=off".to_string()), "a heap without end");
    assert!(names(&found).contains(&"system:arena_max=1".to_string()));
    let around = space.around(&["own:gogc=50".into()]);
    assert_eq!(names(&around), ["own:gogc=50,maxprocs=2"]);
    let unknown = Space::new(&own[..1], None, None, 1, SHORT).unwrap().of_runtime(Some("Go"), None).first();
    assert!(names(&unknown).iter().all(|name| !name.contains("memlimit")), "{:?}", unknown.all);
    assert_eq!(limits("own", "gogc"), Some("garbage until the next collection"));
    assert_eq!(limits("jemalloc", "gogc"), None);
    for (name, row) in dimensions() {
        let Some(runtime) = runtimes::ALL.iter().find(|runtime| runtime.name == name) else { continue };
        let knob = runtime.knobs.iter().find(|knob| knob.setting.name == row.setting).unwrap();
        let given = description("own", &[row.setting]);
        let values = space.values(&given, &Dimension { acts_after: Duration::ZERO, ..*row }, &mut BTreeSet::new());
        assert!(values.iter().all(|value| knob.check(value).is_ok()) && !values.is_empty(), "{}", row.setting);
    }
}

#[test]
fn java_has_the_settings_of_its_malloc_and_of_its_virtual_machine() {
    let own = [description("own", &["arena_max", "trim_threshold", "cpus", "trim", "xss"])];
    let first = |rest| Space::new(&own, Some("system"), None, 2, rest).unwrap().of_runtime(Some("Java"), None).first();
    let found = first(Rest::Service(Duration::from_secs(2)));
    assert_eq!(found.all.len(), 3 * 2 * 2 * 2, "half of two is one: {:?}", found.all);
    assert!(names(&found).contains(&"own:arena_max=1,cpus=1,trim=250".to_string()));
    let short = first(Rest::Service(Duration::from_millis(100)));
    assert!(short.left_out.iter().any(|why| why.contains("own:trim=250 acts after 500 ms")), "{short:?}");
}

#[test]
fn what_a_program_brings_has_the_space_of_the_allocator_that_it_is() {
    let all = [description("own", &["arena_max", "trim_threshold", "tcache_count"])];
    let space = Space::new(&all, Some("system"), None, 4, SHORT).unwrap();
    let found = space.first();
    assert_eq!(found.all.len(), 6, "{:?}", found.all);
    assert!(found.all.contains(&"own:arena_max=1".into()));
    let around = space.around(&["own:arena_max=1".into()]);
    assert!(around.all.contains(&"own:arena_max=1,tcache_count=0".into()), "{:?}", around.all);
    let unknown = Space::new(&all, None, None, 4, SHORT).unwrap().first();
    assert_eq!(names(&unknown), ["own"], "nothing is known of its settings");
    // With a preload as a candidate. The preload has a setting that the unchanged program lacks.
    let both = [all[0].clone(), description("jemalloc", &["narenas", THREAD_IDLE])];
    let rest = Rest::Service(Duration::from_millis(500));
    let found = Space::new(&both, Some("system"), None, 4, rest).unwrap().first();
    assert!(names(&found).iter().any(|name| name.contains(THREAD_IDLE)), "{:?}", found.all);
    let said: Vec<&String> = found.left_out.iter().filter(|why| why.contains(THREAD_IDLE)).collect();
    assert!(said.len() == 1 && said[0].starts_with("own:thread_idle=100ms: only preloads have it"), "{said:?}");
    assert!(!said[0].contains("this search has none") && !said[0].contains("tune -- PROGRAM"), "{said:?}");
}
