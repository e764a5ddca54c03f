/* Functions whose names are codes of C++ types as well. Each keeps 100 blocks of a size of its own. */
#include <stdlib.h>

#define F(n, z) \
    __attribute__((noinline)) LOCAL void n(void) { for (int i_ = 0; i_ < 100; i_++) { void *volatile p = malloc(z); (void)p; } }

#ifndef LOCAL
#define LOCAL
#endif

F(a, 1001) F(b, 1002) F(c, 1003) F(d, 1004) F(e, 1005) F(f, 1006) F(g, 1007) F(h, 1008) F(i, 1009) F(j, 1010) F(l, 1011)
F(m, 1012) F(n, 1013) F(s, 1014) F(t, 1015) F(v, 1016) F(w, 1017) F(x, 1018) F(y, 1019) F(z, 1020) F(Pc, 1021)
F(St, 1022) F(Sa, 1023) F(Ss, 1024) F(Di, 1025) F(PKc, 1026) F(Si, 1027) F(So, 1028) F(Dn, 1029) F(xx, 1030) F(Da, 1031)
F(grow_realloc, 1032) F(table_calloc, 1033)

int main(void) {
    a(); b(); c(); d(); e(); f(); g(); h(); i(); j(); l(); m(); n(); s(); t(); v(); w(); x(); y(); z(); Pc();
    St(); Sa(); Ss(); Di(); PKc(); Si(); So(); Dn(); xx(); Da(); grow_realloc(); table_calloc();
    return 0;
}
