//! `preload-jemalloc`: the library that makes another program allocate with jemalloc, by `LD_PRELOAD`.

#![cfg_attr(shared_object, no_main)]

allocanary_preload::preload!(jemalloc, build = allocanary_revision::BUILD);
