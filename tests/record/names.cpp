// Functions whose names compilers write in many ways. Each keeps 100 blocks of a size of its own. Needs -std=c++20.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <map>
#include <string>
#include <thread>
#include <vector>
#include <coroutine>
#include <future>
#include <new>
#define NI __attribute__((noinline,noclone))
#define K(p) do { void *volatile q_ = (void*)(p); (void)q_; } while (0)
static const int N = 100;
template <class T> NI void tmpl(int n) { for (int i = 0; i < n; i++) K(new T); }
struct A1001 { char c[1001]; }; struct A1002 { char c[1002]; };
namespace { struct An { char c[1003]; }; NI void anon_fn() { for (int i = 0; i < N; i++) K(malloc(1003)); } }
struct Base { virtual void go() = 0; virtual ~Base() {} };
struct D1 : Base { NI void go() override { for (int i = 0; i < N; i++) K(malloc(1004)); } };
struct D2 : Base { NI void go() override { for (int i = 0; i < N; i++) K(malloc(1005)); } };
static inline __attribute__((always_inline)) void *inl_inner(size_t n) { return malloc(n); }
static inline __attribute__((always_inline)) void inl_outer(size_t n) { for (int i = 0; i < N; i++) K(inl_inner(n)); }
NI void calls_inl_a() { inl_outer(1006); }
NI void calls_inl_b() { inl_outer(1007); }
struct Own { char c[1008]; static void *operator new(size_t n) { return malloc(n); } static void operator delete(void *p) { free(p); } };
NI void use_own() { for (int i = 0; i < N; i++) K(new Own); }
struct Ctor { void *p; NI Ctor() { p = malloc(1009); } };
NI void use_ctor() { for (int i = 0; i < N; i++) { static Ctor *v[N]; v[i] = new (alloca(sizeof(Ctor))) Ctor; K(v[i]); } }
template <class F> NI void call_it(F f) { for (int i = 0; i < N; i++) f(); }
NI void lambdas() { call_it([] { K(malloc(1010)); }); call_it([] { K(malloc(1011)); }); }
NI void lambdas_same_line() { auto a = [] { K(malloc(1012)); }; auto b = [] { K(malloc(1013)); }; call_it(a); call_it(b); }
template <class T> NI void generic_lambda() { auto f = [](auto n) { for (int i = 0; i < N; i++) K(malloc(sizeof(T) + n)); }; f(13); f((short)14L); }
struct task { struct promise_type { task get_return_object() { return {}; } std::suspend_never initial_suspend() { return {}; } std::suspend_never final_suspend() noexcept { return {}; } void return_void() {} void unhandled_exception() {} }; };
NI task coro() { for (int i = 0; i < N; i++) K(malloc(1016)); co_return; }
NI void vec_of_string() { auto *v = new std::vector<std::string>; for (int i = 0; i < 50; i++) v->push_back(std::string(2000, 'x')); K(v); }
NI void shared() { static std::vector<std::shared_ptr<A1001>> keep; keep.reserve(1); for (int i = 0; i < N; i++) { auto *s = new std::shared_ptr<A1001>(std::make_shared<A1001>()); K(s); } }
NI void by_function() { std::function<void()> f = [] { for (int i = 0; i < N; i++) K(malloc(1017)); }; f(); }
namespace outer { namespace { namespace inner { template <int I> struct X { template <class U> NI static void m(U u) { for (int i = 0; i < N; i++) K(malloc(1018 + I)); } }; } } void go() { inner::X<0>::m(1); inner::X<1>::m(1); inner::X<0>::m('c'); } }
NI void local_class() { struct L { NI void m() { for (int i = 0; i < N; i++) K(malloc(1020)); } } l; l.m(); }
NI void local_class2() { struct L { NI void m() { for (int i = 0; i < N; i++) K(malloc(1021)); } } l; l.m(); }
NI static void rec(int d) { if (d) { rec(d - 1); __asm__ volatile(""); } else for (int i = 0; i < N; i++) K(malloc(1022)); }
NI void th() { std::thread([] { for (int i = 0; i < N; i++) K(malloc(1023)); }).join(); }
struct Init { Init() { for (int i = 0; i < N; i++) K(malloc(1024)); } } static_init;
NI void dup() { char b[1025]; memset(b, 'a', 1024); b[1024] = 0; for (int i = 0; i < N; i++) K(strdup(b)); }
NI void alig() { for (int i = 0; i < N; i++) K(aligned_alloc(64, 1088)); }
NI void thrower() { try { throw A1002(); } catch (A1002 &) { for (int i = 0; i < N; i++) K(malloc(1027)); } }
static void (*const cold_ptr)() = [] { for (int i = 0; i < N; i++) K(malloc(1028)); };
int operator+(const D1 &, const D2 &) { for (int i = 0; i < N; i++) K(malloc(1029)); return 0; }
struct Conv { NI operator int() const { for (int i = 0; i < N; i++) K(malloc(1030)); return 1; } NI void operator()(int) { for (int i = 0; i < N; i++) K(malloc(1031)); } NI int operator[](int) { for (int i = 0; i < N; i++) K(malloc(1032)); return 0; } };
int main() {
  tmpl<A1001>(N); tmpl<A1002>(N); anon_fn(); D1 d1; D2 d2; Base *volatile b1 = &d1, *volatile b2 = &d2; b1->go(); b2->go();
  calls_inl_a(); calls_inl_b(); use_own(); use_ctor(); lambdas(); lambdas_same_line(); generic_lambda<A1001>(); coro();
  vec_of_string(); shared(); by_function(); outer::go(); local_class(); local_class2(); rec(300); th(); dup(); alig(); thrower(); cold_ptr();
  (void)(d1 + d2); Conv c; (void)(int)c; c(1); c[1];
  puts("done"); return 0;
}
