//! Settings that jemalloc takes in addition to our table: for debugging, profiling, statistics, and others without an effect on the costs
//! that we study. They are one text, because the loader would have to relocate a table at each start.

/// Pairs `name=values` with spaces between them. [`also`](crate::setting::also) reads them.
pub const ALSO: &str = "abort=flag abort_conf=flag bin_shards=text calloc_madvise_threshold=number confirm_conf=flag \
    debug_double_free_max_scan=number disable_large_size_classes=flag experimental_hpa_enforce_hugify=flag \
    experimental_hpa_start_huge_if_thp_always=flag experimental_infallible_new=flag hpa_dirty_mult=text \
    hpa_hugification_threshold_ratio=text hpa_purge_threshold_ratio=text hpa_sec_bytes_after_flush=number \
    hpa_sec_max_alloc=number hpa_sec_max_bytes=number junk=true|false|alloc|free lg_prof_interval=number \
    lg_prof_sample=number lg_san_uaf_align=number lg_tcache_max=number log=text prof=flag prof_accum=flag \
    prof_active=flag prof_bt_max=number prof_final=flag prof_gdump=flag prof_leak=flag prof_leak_error=flag \
    prof_log=flag prof_pid_namespace=flag prof_prefix=text prof_recent_alloc_max=number prof_stats=flag \
    prof_sys_thread_name=flag prof_thread_active_init=flag prof_time_resolution=default|high prof_unbias=flag \
    san_guard_large=number san_guard_small=number slab_sizes=text stats_interval=number stats_interval_opts=text \
    stats_print=flag stats_print_opts=text utrace=flag xmalloc=flag zero=flag zero_realloc=alloc|free|abort";
