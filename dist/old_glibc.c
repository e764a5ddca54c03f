// Functions that releases of glibc before 2.35 do not have, for the files of our packages. A file that asks for them by their names would
// not start there.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <malloc.h>
#include <stdlib.h>

#define OURS __attribute__((visibility("hidden")))

// Statistics of malloc in 64 bits, since glibc 2.33. Before, there are only 32 bits: figures of heaps of more than 4 GiB are too small.
// The release is asked first, because a failing `dlsym` allocates.
OURS struct mallinfo2 mallinfo2(void) {
    static struct mallinfo2 (*real)(void);
    if (!real && strtod(gnu_get_libc_version(), NULL) > 2.325)
        real = (struct mallinfo2(*)(void))dlsym(RTLD_DEFAULT, "mallinfo2");
    if (real)
        return real();
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct mallinfo old = mallinfo();
    struct mallinfo2 info = {
        (unsigned)old.arena,    (unsigned)old.ordblks, (unsigned)old.smblks,   (unsigned)old.hblks,    (unsigned)old.hblkhd,
        (unsigned)old.usmblks,  (unsigned)old.fsmblks, (unsigned)old.uordblks, (unsigned)old.fordblks, (unsigned)old.keepcost,
    };
    return info;
}

// `_dl_find_object` of glibc 2.35, by `dl_iterate_phdr`. The unwinder of a newer compiler, which is linked into cells
// (src/cells/unwinder.rs), asks for it.
struct search {
    ElfW(Addr) address;
    struct dl_find_object *found;
};

static int look(struct dl_phdr_info *object, size_t size, void *data) {
    struct search *search = data;
    void *table = 0;
    int covers = 0;
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        ElfW(Addr) start = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && search->address >= start && search->address - start < part->p_memsz)
            covers = 1;
        if (part->p_type == PT_GNU_EH_FRAME)
            table = (void *)start;
    }
    if (!covers || !table)
        return 0;
    search->found->dlfo_eh_frame = table;
    return 1;
}

OURS int allocanary_find_object(void *address, struct dl_find_object *found) {
    struct search search = {(ElfW(Addr))address, found};
    return dl_iterate_phdr(look, &search) == 1 ? 0 : -1;
}
