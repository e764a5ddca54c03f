//! The functions that a preload exports. In: the names of an allocator's functions. Out: C's functions, and the
//! constructor.

/// Makes a preload with this allocator and no other: `preload!(jemalloc, build = BUILD)`. Use it once, at the root of a
/// binary.
///
/// `build` identifies the sources from which it was built; the proof contains it.
#[macro_export]
macro_rules! preload {
    (system, build = $build:expr) => {
        $crate::__preload!(
            counted, "system", $build, $crate::__private::System, $crate::__private::facts::system::IN_PRELOAD, ::core::option::Option::None,
            ("__libc_malloc", "__libc_calloc", "__libc_realloc", "__libc_free", "__libc_memalign"),
            $crate::family::glibc_usable_size, $crate::family::glibc_grows_in_place, || ()
        );
        // glibc's second names, such as `__libc_malloc`, are not exported: they are the functions above.
    };
    (jemalloc, build = $build:expr) => {
        $crate::__preload!(
            direct, "jemalloc", $build, $crate::__private::Jemalloc, $crate::__private::facts::jemalloc::IN_PRELOAD, {
                // jemalloc's own symbol is weak. This symbol is in the final binary, so the linker uses it.
                #[unsafe(export_name = "_rjem_malloc_conf")]
                static CONF: $crate::__private::Conf = $crate::__private::Conf::new(::core::ptr::null_mut());
                ::core::option::Option::Some(&CONF)
            },
            ("_rjem_malloc", "_rjem_calloc", "_rjem_realloc", "_rjem_free", "_rjem_memalign"),
            {
                unsafe extern "C" {
                    fn _rjem_malloc_usable_size(block: *mut ::core::ffi::c_void) -> usize;
                }
                _rjem_malloc_usable_size
            },
            $crate::family::never_in_place, || (),
            $crate::__second_names! {}
        );
    };
    (mimalloc, build = $build:expr) => {
        $crate::__locks!();
        $crate::__preload!(
            counted, "mimalloc", $build, $crate::__private::Mimalloc, $crate::__private::facts::mimalloc::IN_PRELOAD,
            ::core::option::Option::None,
            ("mi_malloc", "mi_calloc", "mi_realloc", "mi_free", "mi_memalign"),
            {
                unsafe extern "C" {
                    fn mi_malloc_usable_size(block: *mut ::core::ffi::c_void) -> usize;
                }
                mi_malloc_usable_size
            },
            $crate::family::never_in_place,
            {
                fn begin() {
                    unsafe extern "C" {
                        fn mi_register_error(
                            failed: unsafe extern "C" fn(::core::ffi::c_int, *mut ::core::ffi::c_void),
                            argument: *mut ::core::ffi::c_void,
                        );
                    }
                    // SAFETY: stores the function, which may be called at any time.
                    unsafe { mi_register_error($crate::family::mimalloc_failed, ::core::ptr::null_mut()) };
                    $crate::locks::wait_at_forks();
                }
                begin
            },
            $crate::__second_names! {}
        );
    };
}

/// The functions that the linker's `--wrap` puts in the place of C's. Only calls by the allocator inside reach them.
#[doc(hidden)]
#[macro_export]
macro_rules! __locks {
    () => {
        mod __locks {
            use ::core::ffi::{c_int, c_void};

            unsafe extern "C" {
                fn __real_pthread_mutex_lock(mutex: *mut c_void) -> c_int;
                fn __real_pthread_mutex_unlock(mutex: *mut c_void) -> c_int;
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn __wrap_pthread_mutex_lock(mutex: *mut c_void) -> c_int {
                // SAFETY: the caller keeps C's contract, which is passed on as it is.
                unsafe { $crate::locks::lock(mutex, __real_pthread_mutex_lock) }
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn __wrap_pthread_mutex_unlock(mutex: *mut c_void) -> c_int {
                // SAFETY: as above.
                unsafe { $crate::locks::unlock(mutex, __real_pthread_mutex_unlock) }
            }
        }
    };
}

/// Makes a shared object that can be started as a program. It then runs this expression, which ends the process. Use it once in a
/// binary; its linker gets `-e allocanary_started_by_hand`.
#[macro_export]
macro_rules! started_by_hand {
    ($say:expr) => {
        // Links the unwinder that Rust's standard library needs into the preload. The separate library `libgcc_s.so.1` took 100 KiB of
        // every program's resident memory. This link was tried with lld and with GNU ld. The C library unwinds a cancelled thread by
        // its own `libgcc_s`, through our frames; a test does this.
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        #[link(name = "gcc_eh", kind = "static", modifiers = "-bundle")]
        unsafe extern "C" {}

        // The path of the loader of programs, so that the file can be started.
        #[used]
        #[unsafe(link_section = ".interp")]
        static LOADER: [u8; $crate::start::LOADER.len()] = *$crate::start::LOADER;

        #[unsafe(no_mangle)]
        extern "C" fn allocanary_by_hand() -> ! {
            $say
        }
        // The kernel starts a program with a stack alignment that C's functions do not expect.
        #[cfg(target_arch = "x86_64")]
        ::core::arch::global_asm!(
            ".globl allocanary_started_by_hand", "allocanary_started_by_hand:", "and rsp, -16", "call {}", "hlt",
            sym allocanary_by_hand
        );
        #[cfg(target_arch = "aarch64")]
        ::core::arch::global_asm!(
            ".globl allocanary_started_by_hand", "allocanary_started_by_hand:", "bl {}", "brk 1",
            sym allocanary_by_hand
        );
    };
}

/// Exports functions, one on each line: its name, its arguments, its answer, and the call that it makes.
#[doc(hidden)]
#[macro_export]
macro_rules! __functions {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $answer:ty)? = $call:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $answer)? {
            // SAFETY: the caller keeps C's contract of that name, which is passed on as it is.
            unsafe { $call }
        }
    )*};
}

/// glibc's second names of its malloc family. Programs and other preloads use both names: `free` then gets a block of `__libc_malloc`.
#[doc(hidden)]
#[macro_export]
macro_rules! __second_names {
    () => {
        $crate::__family!(
            __libc_malloc, __libc_calloc, __libc_realloc, __libc_free, __libc_memalign, __libc_valloc, __libc_pvalloc
        );
    };
}

/// The functions of C's malloc family that exist under two names. They call the allocator's functions in the module `own`.
#[doc(hidden)]
#[macro_export]
macro_rules! __family {
    (
        $malloc:ident, $calloc:ident, $realloc:ident, $free:ident, $memalign:ident, $valloc:ident, $pvalloc:ident
    ) => {
        $crate::__functions! {
            fn $malloc(size: usize) -> *mut c_void = own::malloc(size);
            fn $calloc(count: usize, size: usize) -> *mut c_void = $crate::family::calloc(own::calloc, count, size);
            fn $realloc(block: *mut c_void, size: usize) -> *mut c_void = own::realloc(block, size);
            fn $free(block: *mut c_void) = own::free(block);
            fn $memalign(alignment: usize, size: usize) -> *mut c_void = $crate::family::memalign(own::memalign, alignment, size);
            fn $valloc(size: usize) -> *mut c_void = $crate::family::valloc(own::memalign, size, false);
            fn $pvalloc(size: usize) -> *mut c_void = $crate::family::valloc(own::memalign, size, true);
        }
    };
}

/// The functions of C's malloc family that exist under one name.
#[doc(hidden)]
#[macro_export]
macro_rules! __others {
    () => {
        $crate::__functions! {
            fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void =
                $crate::family::reallocarray(own::realloc, block, count, size);
            fn cfree(block: *mut c_void) = own::free(block);
            fn free_sized(block: *mut c_void, _size: usize) = own::free(block);
            fn free_aligned_sized(block: *mut c_void, _alignment: usize, _size: usize) = own::free(block);
            fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void = $crate::family::memalign(own::memalign, alignment, size);
            fn posix_memalign(place: *mut *mut c_void, alignment: usize, size: usize) -> c_int =
                $crate::family::posix_memalign(own::memalign, place, alignment, size);
        }
    };
}

/// The allocator's functions as a module `own`. Each entry leads to the allocator's function, or to one that counts or samples.
#[doc(hidden)]
#[macro_export]
macro_rules! __own {
    ($counted:ident, $malloc:literal, $calloc:literal, $realloc:literal, $free:literal, $memalign:literal) => {
        mod own {
            use ::core::ffi::c_void;

            mod real {
                $crate::__real!($malloc, $calloc, $realloc, $free, $memalign);
            }
            use super::{announce, usable_size};
            use $crate::counted::{Entries, MallocFunctions};

            static ENTRIES: Entries = Entries::new(MallocFunctions {
                malloc: real::malloc,
                calloc: real::calloc,
                realloc: real::realloc,
                memalign: real::memalign,
                free: real::free,
            });

            $crate::__count_functions!($counted);
            $crate::__profiled_functions!();

            /// Makes the functions sample, and count for a budget as well.
            pub fn profile() {
                // SAFETY: the constructor calls it, before there is a second thread.
                unsafe {
                    ENTRIES.set(MallocFunctions {
                        malloc: profiled_malloc,
                        calloc: profiled_calloc,
                        realloc: profiled_realloc,
                        memalign: profiled_memalign,
                        free: profiled_free,
                    })
                }
            }

            // SAFETY, for each function below: the caller keeps C's contract of that name, which is passed on as it is.

            #[inline(always)]
            pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
                // SAFETY: as above.
                unsafe { (ENTRIES.get().malloc)(size) }
            }
            #[inline(always)]
            pub unsafe extern "C" fn calloc(number: usize, size: usize) -> *mut c_void {
                // SAFETY: as above.
                unsafe { (ENTRIES.get().calloc)(number, size) }
            }
            #[inline(always)]
            pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
                // SAFETY: as above.
                unsafe { (ENTRIES.get().realloc)(block, size) }
            }
            #[inline(always)]
            pub unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
                // SAFETY: as above.
                unsafe { (ENTRIES.get().memalign)(alignment, size) }
            }
            #[inline(always)]
            pub unsafe extern "C" fn free(block: *mut c_void) {
                // SAFETY: as above.
                unsafe { (ENTRIES.get().free)(block) }
            }
        }
    };
}

/// The functions that sample. They call those of the module `real`. The module that contains them has `usable_size`.
#[doc(hidden)]
#[macro_export]
macro_rules! __profiled_functions {
    () => {
        // SAFETY, for each function below: the caller keeps C's contract of that name, which is passed on as it is.

        pub unsafe extern "C" fn profiled_malloc(size: usize) -> *mut c_void {
            // SAFETY: as above.
            $crate::__count!(size, unsafe { event_malloc(size) });
            // SAFETY: as above.
            unsafe { real::malloc(size) }
        }
        #[cold]
        #[inline(never)]
        unsafe extern "C" fn event_malloc(size: usize) -> *mut c_void {
            let is_sampled = $crate::counted::at_event(size);
            // SAFETY: as above.
            $crate::profiled::made(is_sampled, unsafe { real::malloc(size) }, size)
        }
        pub unsafe extern "C" fn profiled_calloc(number: usize, size: usize) -> *mut c_void {
            // SAFETY: as above.
            $crate::__count!(number.wrapping_mul(size), unsafe { event_calloc(number, size) });
            // SAFETY: as above.
            unsafe { real::calloc(number, size) }
        }
        #[cold]
        #[inline(never)]
        unsafe extern "C" fn event_calloc(number: usize, size: usize) -> *mut c_void {
            let bytes = number.wrapping_mul(size);
            let is_sampled = $crate::counted::at_event(bytes);
            // SAFETY: as above.
            $crate::profiled::made(is_sampled, unsafe { real::calloc(number, size) }, bytes)
        }
        pub unsafe extern "C" fn profiled_memalign(alignment: usize, size: usize) -> *mut c_void {
            // SAFETY: as above.
            $crate::__count!(size, unsafe { event_memalign(alignment, size) });
            // SAFETY: as above.
            unsafe { real::memalign(alignment, size) }
        }
        #[cold]
        #[inline(never)]
        unsafe extern "C" fn event_memalign(alignment: usize, size: usize) -> *mut c_void {
            let is_sampled = $crate::counted::at_event(size);
            // SAFETY: as above.
            $crate::profiled::made(is_sampled, unsafe { real::memalign(alignment, size) }, size)
        }
        pub unsafe extern "C" fn profiled_realloc(block: *mut c_void, size: usize) -> *mut c_void {
            if $crate::profiled::may_be_sampled(block) || $crate::counted::is_large(size) {
                // SAFETY: as above.
                return unsafe { slow_realloc(block, size) };
            }
            // SAFETY: as above.
            $crate::__count!(size, unsafe { event_realloc(block, size) });
            // SAFETY: as above.
            unsafe { real::realloc(block, size) }
        }
        #[cold]
        #[inline(never)]
        unsafe extern "C" fn slow_realloc(block: *mut c_void, size: usize) -> *mut c_void {
            if $crate::counted::is_large(size) {
                // SAFETY: as above. A null pointer has 0 bytes.
                unsafe {
                    announce(block, size);
                    $crate::counted::credit(usable_size(block).min(size));
                }
            }
            let is_sampled = $crate::counted::add(size) && $crate::counted::at_event(size);
            // SAFETY: as above.
            unsafe { $crate::profiled::resize(real::realloc, block, size, is_sampled) }
        }
        #[cold]
        #[inline(never)]
        unsafe extern "C" fn event_realloc(block: *mut c_void, size: usize) -> *mut c_void {
            let is_sampled = $crate::counted::at_event(size);
            // SAFETY: as above.
            unsafe { $crate::profiled::resize(real::realloc, block, size, is_sampled) }
        }
        pub unsafe extern "C" fn profiled_free(block: *mut c_void) {
            if $crate::profiled::may_be_sampled(block) {
                // SAFETY: as above.
                return unsafe { slow_free(block) };
            }
            // SAFETY: as above.
            unsafe { real::free(block) }
        }
        #[cold]
        #[inline(never)]
        unsafe extern "C" fn slow_free(block: *mut c_void) {
            $crate::profiled::freed(block);
            // SAFETY: as above.
            unsafe { real::free(block) }
        }
    };
}

/// How an allocator is counted for a budget: a `direct` allocator reports its bytes itself; the entries of a `counted` one count them.
#[doc(hidden)]
#[macro_export]
macro_rules! __count_functions {
    (direct) => {
        pub const IS_DIRECT: bool = true;
        pub fn count() {
            // SAFETY: the constructor calls it, before there is a second thread.
            unsafe { ENTRIES.set(MallocFunctions { realloc: announced_realloc, ..*ENTRIES.get() }) }
        }

        // SAFETY, for each function below: the caller keeps C's contract of that name, which is passed on as it is.

        unsafe extern "C" fn announced_realloc(block: *mut c_void, size: usize) -> *mut c_void {
            if $crate::counted::is_large(size) {
                // SAFETY: as above.
                return unsafe { large_realloc(block, size) };
            }
            // SAFETY: as above.
            unsafe { real::realloc(block, size) }
        }
        #[cold]
        #[inline(never)]
        unsafe extern "C" fn large_realloc(block: *mut c_void, size: usize) -> *mut c_void {
            // SAFETY: as above.
            unsafe { announce(block, size) };
            // SAFETY: as above.
            unsafe { real::realloc(block, size) }
        }
    };
    (counted) => {
        pub const IS_DIRECT: bool = false;
        pub fn count() {
            // SAFETY: the constructor calls it, before there is a second thread.
            unsafe {
                ENTRIES.set(MallocFunctions {
                    malloc: counted_malloc,
                    calloc: counted_calloc,
                    realloc: counted_realloc,
                    memalign: counted_memalign,
                    free: real::free,
                })
            }
        }

        // SAFETY, for each function below: the caller keeps C's contract of that name, which is passed on as it is.

        unsafe extern "C" fn counted_malloc(size: usize) -> *mut c_void {
            // SAFETY: as above.
            $crate::__count!(size, unsafe { full_malloc(size) });
            // SAFETY: as above.
            unsafe { real::malloc(size) }
        }
        #[cold]
        #[inline(never)]
        unsafe extern "C" fn full_malloc(size: usize) -> *mut c_void {
            $crate::counted::at_chunk(size);
            // SAFETY: as above.
            unsafe { real::malloc(size) }
        }
        unsafe extern "C" fn counted_calloc(number: usize, size: usize) -> *mut c_void {
            // SAFETY: as above.
            $crate::__count!(number.wrapping_mul(size), unsafe { full_calloc(number, size) });
            // SAFETY: as above.
            unsafe { real::calloc(number, size) }
        }
        #[cold]
        #[inline(never)]
        unsafe extern "C" fn full_calloc(number: usize, size: usize) -> *mut c_void {
            $crate::counted::at_chunk(number.wrapping_mul(size));
            // SAFETY: as above.
            unsafe { real::calloc(number, size) }
        }
        unsafe extern "C" fn counted_realloc(block: *mut c_void, size: usize) -> *mut c_void {
            if $crate::counted::is_large(size) {
                // SAFETY: as above.
                return unsafe { large_realloc(block, size) };
            }
            // SAFETY: as above.
            $crate::__count!(size, unsafe { full_realloc(block, size) });
            // SAFETY: as above.
            unsafe { real::realloc(block, size) }
        }
        #[cold]
        #[inline(never)]
        unsafe extern "C" fn full_realloc(block: *mut c_void, size: usize) -> *mut c_void {
            $crate::counted::at_chunk(size);
            // SAFETY: as above.
            unsafe { real::realloc(block, size) }
        }
        #[cold]
        #[inline(never)]
        unsafe extern "C" fn large_realloc(block: *mut c_void, size: usize) -> *mut c_void {
            // SAFETY: as above. A null pointer has 0 bytes.
            unsafe {
                announce(block, size);
                $crate::counted::grow(usable_size(block), size);
            }
            // SAFETY: as above.
            unsafe { real::realloc(block, size) }
        }
        unsafe extern "C" fn counted_memalign(alignment: usize, size: usize) -> *mut c_void {
            // SAFETY: as above.
            $crate::__count!(size, unsafe { full_memalign(alignment, size) });
            // SAFETY: as above.
            unsafe { real::memalign(alignment, size) }
        }
        #[cold]
        #[inline(never)]
        unsafe extern "C" fn full_memalign(alignment: usize, size: usize) -> *mut c_void {
            $crate::counted::at_chunk(size);
            // SAFETY: as above.
            unsafe { real::memalign(alignment, size) }
        }
    };
}

/// Declares the allocator's functions in a module `real`.
#[doc(hidden)]
#[macro_export]
macro_rules! __real {
    ($malloc:literal, $calloc:literal, $realloc:literal, $free:literal, $memalign:literal) => {
        unsafe extern "C" {
            #[link_name = $malloc]
            pub fn malloc(size: usize) -> *mut ::core::ffi::c_void;
            #[link_name = $calloc]
            pub fn calloc(count: usize, size: usize) -> *mut ::core::ffi::c_void;
            #[link_name = $realloc]
            pub fn realloc(block: *mut ::core::ffi::c_void, size: usize) -> *mut ::core::ffi::c_void;
            #[link_name = $free]
            pub fn free(block: *mut ::core::ffi::c_void);
            #[link_name = $memalign]
            pub fn memalign(alignment: usize, size: usize) -> *mut ::core::ffi::c_void;
        }
    };
}

/// The exported functions of a preload. Each has the name and the contract of C's function.
#[doc(hidden)]
#[macro_export]
macro_rules! __preload {
    (
        $counted:ident, $name:literal, $build:expr, $allocator:expr, $table:expr, $conf:expr,
        ($malloc:literal, $calloc:literal, $realloc:literal, $free:literal, $memalign:literal), $usable_size:expr, $grows_in_place:expr, $begin:expr
        $(, $second:item)?
    ) => {
        #[allow(clippy::missing_safety_doc, missing_docs)]
        mod __preload {
            use ::core::ffi::{c_char, c_int, c_long, c_uint, c_void};

            $crate::__own!($counted, $malloc, $calloc, $realloc, $free, $memalign);

            static THIS: $crate::this::This = $crate::this::This {
                allocator: &$allocator,
                table: $table,
                conf: $conf,
                begin: $begin,
                is_direct: own::IS_DIRECT,
                count: own::count,
                profile: own::profile,
                build: $build,
            };

            extern "C" fn start(_count: c_int, _words: *const *const c_char, variables: *mut *mut c_char) {
                // SAFETY: the loader passes the process's variables to the constructors of libraries.
                unsafe { $crate::start::start(&THIS, variables) }
            }
            #[used]
            #[unsafe(link_section = ".init_array.00090")]
            static START: extern "C" fn(c_int, *const *const c_char, *mut *mut c_char) = start;

            extern "C" fn finish() {
                if !$crate::sandbox::is_entered() {
                    $crate::proof::at_exit(true);
                }
            }
            #[used]
            #[unsafe(link_section = ".fini_array")]
            static FINISH: extern "C" fn() = finish;

            $crate::started_by_hand!($crate::by_hand::say($name));
            $crate::opened_libraries!();
            $crate::closed_libraries!();

            $crate::__family!(malloc, calloc, realloc, free, memalign, valloc, pvalloc);
            $($second)?

            $crate::__others!();
            $crate::__functions! {
                fn malloc_usable_size(block: *mut c_void) -> usize = usable_size(block);
            }
            #[inline(always)]
            unsafe fn usable_size(block: *mut c_void) -> usize {
                // SAFETY: the block is null, or one of the allocator's.
                unsafe { ($usable_size)(block) }
            }
            /// Announces a large block that grows, unless it grows in place.
            unsafe fn announce(block: *mut c_void, size: usize) {
                // SAFETY: the block is null, or one of the allocator's.
                unsafe {
                    if !($grows_in_place)(block) && size > usable_size(block) {
                        $crate::counted::announce(size);
                    }
                }
            }

            $crate::__functions! {
                fn sched_getaffinity(pid: c_int, size: usize, mask: *mut c_void) -> c_int =
                    $crate::cores::sched_getaffinity(pid, size, mask);
                fn pthread_getaffinity_np(thread: usize, size: usize, mask: *mut c_void) -> c_int =
                    $crate::cores::pthread_getaffinity(thread as _, size, mask);
            }
            #[unsafe(no_mangle)]
            pub extern "C" fn sysconf(name: c_int) -> c_long {
                $crate::cores::sysconf(name)
            }
            #[unsafe(no_mangle)]
            pub extern "C" fn get_nprocs() -> c_int {
                $crate::cores::sysconf($crate::cores::ONLINE) as c_int
            }
            #[unsafe(no_mangle)]
            pub extern "C" fn get_nprocs_conf() -> c_int {
                $crate::cores::sysconf($crate::cores::CONFIGURED) as c_int
            }

            #[unsafe(no_mangle)]
            pub extern "C" fn _exit(code: c_int) -> ! {
                $crate::end::exit(code)
            }
            #[unsafe(no_mangle)]
            pub extern "C" fn _Exit(code: c_int) -> ! {
                $crate::end::exit(code)
            }

            $crate::__functions! {
                fn epoll_wait(file: c_int, events: *mut c_void, most: c_int, timeout: c_int) -> c_int =
                    $crate::waits::fds::epoll_wait(file, events.cast(), most, timeout);
                fn epoll_pwait(file: c_int, events: *mut c_void, most: c_int, timeout: c_int, mask: *mut c_void) -> c_int =
                    $crate::waits::fds::epoll_pwait(file, events.cast(), most, timeout, mask.cast());
                fn poll(files: *mut c_void, count: usize, timeout: c_int) -> c_int =
                    $crate::waits::fds::poll(files.cast(), count as _, timeout);
                fn ppoll(files: *mut c_void, count: usize, timeout: *mut c_void, mask: *mut c_void) -> c_int =
                    $crate::waits::fds::ppoll(files.cast(), count as _, timeout.cast(), mask.cast());
                fn select(count: c_int, read: *mut c_void, write: *mut c_void, error: *mut c_void, timeout: *mut c_void) -> c_int =
                    $crate::waits::fds::select(count, read.cast(), write.cast(), error.cast(), timeout.cast());
                fn pselect(count: c_int, read: *mut c_void, write: *mut c_void, error: *mut c_void, timeout: *mut c_void, mask: *mut c_void) -> c_int =
                    $crate::waits::fds::pselect(count, read.cast(), write.cast(), error.cast(), timeout.cast(), mask.cast());
                fn accept(file: c_int, address: *mut c_void, length: *mut c_void) -> c_int =
                    $crate::waits::fds::accept(file, address.cast(), length.cast());
                fn accept4(file: c_int, address: *mut c_void, length: *mut c_void, flags: c_int) -> c_int =
                    $crate::waits::fds::accept4(file, address.cast(), length.cast(), flags);
                fn nanosleep(wanted: *mut c_void, left: *mut c_void) -> c_int =
                    $crate::waits::sleeps::nanosleep(wanted.cast(), left.cast());
                fn clock_nanosleep(clock: c_int, flags: c_int, wanted: *mut c_void, left: *mut c_void) -> c_int =
                    $crate::waits::sleeps::clock_nanosleep(clock, flags, wanted.cast(), left.cast());
                fn usleep(micros: c_uint) -> c_int = $crate::waits::sleeps::usleep(micros);
                fn sleep(seconds: c_uint) -> c_uint = $crate::waits::sleeps::sleep(seconds);
                fn sem_wait(semaphore: *mut c_void) -> c_int = $crate::waits::counters::sem_wait(semaphore.cast());
                fn sem_timedwait(semaphore: *mut c_void, end: *mut c_void) -> c_int =
                    $crate::waits::counters::sem_timedwait(semaphore.cast(), end.cast());
                fn sem_clockwait(semaphore: *mut c_void, clock: c_int, end: *mut c_void) -> c_int =
                    $crate::waits::counters::sem_clockwait(semaphore.cast(), clock, end.cast());
            }
            $crate::sandboxes!();
            $crate::__functions! {
                fn pthread_cond_wait(condition: *mut c_void, mutex: *mut c_void) -> c_int =
                    $crate::waits::locked::wait(condition, mutex, true);
                fn pthread_cond_timedwait(condition: *mut c_void, mutex: *mut c_void, end: *mut c_void) -> c_int =
                    $crate::waits::locked::timedwait(condition, mutex, end.cast(), true);
                fn __wrap_pthread_cond_wait(condition: *mut c_void, mutex: *mut c_void) -> c_int =
                    $crate::waits::locked::wait(condition, mutex, false);
                fn __wrap_pthread_cond_timedwait(condition: *mut c_void, mutex: *mut c_void, end: *mut c_void) -> c_int =
                    $crate::waits::locked::timedwait(condition, mutex, end.cast(), false);
                fn pthread_cond_clockwait(condition: *mut c_void, mutex: *mut c_void, clock: c_int, end: *mut c_void) -> c_int =
                    $crate::waits::locked::clockwait(condition, mutex, clock, end.cast());
            }
        }
    };
}
