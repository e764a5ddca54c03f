// What ways.cc opens and closes: variables of a library, and those of a thread.
void *way_global[30];
static __thread void *own[30];
void **way_own(void) { return own; }
