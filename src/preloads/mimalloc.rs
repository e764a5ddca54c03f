//! `preload-mimalloc`: the library that makes another program allocate with mimalloc, by `LD_PRELOAD`.

#![cfg_attr(shared_object, no_main)]

allocanary_preload::preload!(mimalloc, build = allocanary_revision::BUILD);
