// The family of malloc by snmalloc: its crate gives each function the prefix sn_.
#include <stddef.h>

void *sn_malloc(size_t size);
void *sn_calloc(size_t count, size_t size);
void *sn_realloc(void *block, size_t size);
void *sn_reallocarray(void *block, size_t count, size_t size);
void sn_free(void *block);
size_t sn_malloc_usable_size(void *block);
void *sn_memalign(size_t alignment, size_t size);
void *sn_aligned_alloc(size_t alignment, size_t size);
int sn_posix_memalign(void **result, size_t alignment, size_t size);
void *sn_valloc(size_t size);
void *sn_pvalloc(size_t size);

void *malloc(size_t size) { return sn_malloc(size); }
void *calloc(size_t count, size_t size) { return sn_calloc(count, size); }
void *realloc(void *block, size_t size) { return sn_realloc(block, size); }
void *reallocarray(void *block, size_t count, size_t size) { return sn_reallocarray(block, count, size); }
void free(void *block) { sn_free(block); }
size_t malloc_usable_size(void *block) { return sn_malloc_usable_size(block); }
void *memalign(size_t alignment, size_t size) { return sn_memalign(alignment, size); }
void *aligned_alloc(size_t alignment, size_t size) { return sn_aligned_alloc(alignment, size); }
int posix_memalign(void **result, size_t alignment, size_t size) { return sn_posix_memalign(result, alignment, size); }
void *valloc(size_t size) { return sn_valloc(size); }
void *pvalloc(size_t size) { return sn_pvalloc(size); }
