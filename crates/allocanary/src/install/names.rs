//! The names of all settings that `install!` takes, as constants. So the compiler reports a wrong name at its place in the program, and
//! suggests the nearest name.
//!
//! The check of a value finds out whether the program's allocator has the setting.

/// Makes the constants, and a list of them for the test.
macro_rules! names {
    ($($name:ident)*) => {
        $(
            #[doc = "A setting's name."]
            #[expect(non_upper_case_globals, reason = "it is the name itself, at which the compiler points")]
            pub const $name: &str = stringify!($name);
        )*
        #[cfg(test)]
        const ALL: &[&str] = &[$($name),*];
    };
}

names! {
    allow_large_os_pages
    allow_thp
    arena_eager_commit
    arena_is_numa_local
    arena_max
    arena_max_object_size
    arena_purge_mult
    arena_reserve
    arena_test
    background_thread
    cache_oblivious
    destroy_on_exit
    dirty_decay_ms
    disallow_arena_alloc
    disallow_os_alloc
    dss
    experimental_hpa_max_purge_nhp
    experimental_tcache_gc
    generic_collect
    guarded_max
    guarded_min
    guarded_precise
    guarded_sample_rate
    guarded_sample_seed
    hpa
    hpa_hugification_threshold
    hpa_hugify_delay_ms
    hpa_hugify_style
    hpa_hugify_sync
    hpa_min_purge_delay_ms
    hpa_min_purge_interval_ms
    hpa_purge_threshold
    hpa_sec_batch_fill_extra
    hpa_sec_nshards
    hpa_slab_max_alloc
    huge_arena_pac_thp
    lg_extent_max_active_fit
    lg_tcache_flush_large_div
    lg_tcache_flush_small_div
    lg_tcache_nslots_mul
    max_background_threads
    max_errors
    max_vabits
    max_warnings
    metadata_thp
    minimal_purge_size
    mmap_max
    mmap_threshold
    mutex_max_spin
    muzzy_decay_ms
    mxfast
    narenas
    narenas_ratio
    os_tag
    oversize_threshold
    page_commit_on_demand
    page_cross_thread_max_reclaim
    page_full_retain
    page_max_candidates
    page_max_reclaim
    page_reclaim_on_free
    pagemap_commit
    percpu_arena
    perturb
    process_madvise_max_batch
    purge_decommits
    purge_delay
    reserve_huge_os_pages
    reserve_huge_os_pages_at
    reserve_os_memory
    retain
    retry_on_oom
    show_errors
    show_stats
    tcache
    tcache_gc_delay_bytes
    tcache_gc_incr_bytes
    tcache_max
    tcache_ncached_max
    tcache_nslots_large
    tcache_nslots_small_max
    tcache_nslots_small_min
    thp
    top_pad
    trim_threshold
    trust_madvise
    use_numa_nodes
    verbose
    visit_abandoned
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use allocanary_facts::{jemalloc, mimalloc, system};

    #[test]
    fn they_are_those_of_the_allocators_tables() {
        let tables = [jemalloc::SETTINGS, mimalloc::SETTINGS, system::SETTABLE];
        let known: BTreeSet<&str> = tables.into_iter().flatten().map(|setting| &*setting.name).collect();
        let named: BTreeSet<&str> = super::ALL.iter().copied().collect();
        // With musl the C library has no settings, and their names are there nevertheless.
        let more: Vec<_> = named.difference(&known).collect();
        assert!(known.is_subset(&named) && (more.is_empty() || system::SETTABLE.is_empty()), "{known:?} {more:?}");
    }
}
