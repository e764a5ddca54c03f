//! `preload-system`: the library that makes another program allocate with the system's malloc, by `LD_PRELOAD`.

#![cfg_attr(shared_object, no_main)]

allocanary_preload::preload!(system, build = allocanary_revision::BUILD);
