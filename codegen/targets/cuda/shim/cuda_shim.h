// Runs CUDA kernels on the host, for tests on machines without a GPU: each thread of a block is a fiber of one host thread.
// Supported: __shared__ arrays, __syncthreads, __syncwarp, warp shuffles, atomicAdd, __half and __nv_bfloat16, and fragments of tensor
// cores, whose elements are spread over the lanes of a warp. Shared memory is poisoned at the start of each block, fragments are NaN.
// Fibers run in an order given by a seed, warp after warp or all threads in turns, so that results of a race differ from run to run.
// A barrier that some threads of a block never reach is reported, not waited for.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__x86_64__) && !defined(SHIM_UCONTEXT)
#define SHIM_SWITCH
#else
#include <ucontext.h>
#endif
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define SHIM_TEXT(x) #x
#define SHIM_STRING(x) SHIM_TEXT(x)
#define __shared__ static __attribute__((section(SHIM_STRING(SHIM_SECTION))))

struct shim_index { unsigned x, y, z; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };

namespace shim {
enum Wait { RUN, BLOCK, WARP, DONE };
const size_t STACK = 64 << 10;
const unsigned WARP_SIZE = 32;
const char POISON = (char)0xcb;
#ifdef SHIM_SWITCH
typedef void* Context;
#else
typedef ucontext_t Context;
#endif
struct Fiber { unsigned thread; Wait wait; Context context; const void* const* fragments; };  // fragments that are being multiplied

static shim_index grid, block, at;
static Fiber* fibers;
static Fiber* current;
static Context scheduler;
static uint64_t* exchanged;  // what the lanes of warps hand each other
static void (*kernel)(void* const*);
static void* const* arguments;
static const char* fault;  // what a thread did that no device allows

#ifdef SHIM_SWITCH
extern "C" void shim_switch(void** save, void* to);
asm(".text\n.local shim_switch\n.type shim_switch,@function\nshim_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
static void swap(Context* save, Context* to) { shim_switch(save, *to); }
#else
static void swap(Context* save, Context* to) { swapcontext(save, to); }
#endif

static void yield(Wait wait) {
  current->wait = wait;
  swap(&current->context, &scheduler);
}

static void entry() {
  kernel(arguments);
  yield(DONE);
  abort();
}

static void prepare(Fiber* fiber, char* stack) {
#ifdef SHIM_SWITCH
  void** top = (void**)((size_t)(stack + STACK) & ~(size_t)15);
  *--top = 0;
  *--top = (void*)entry;
  for (int r = 0; r < 6; ++r) *--top = 0;
  fiber->context = top;
#else
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = stack;
  fiber->context.uc_stack.ss_size = STACK;
  fiber->context.uc_link = 0;
  makecontext(&fiber->context, entry, 0);
#endif
}

static uint64_t random(uint64_t* state) {  // xorshift
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

// The order in which threads run: as numbered for seed 0, backwards for 1, else shuffled.
static void arrange(unsigned* order, unsigned count, uint64_t seed, uint64_t* state) {
  for (unsigned i = 0; i < count; ++i) order[i] = seed == 1 ? count - 1 - i : i;
  if (seed > 1)
    for (unsigned i = count; i > 1; --i) {
      unsigned j = random(state) % i, kept = order[i - 1];
      order[i - 1] = order[j];
      order[j] = kept;
    }
}

// Lets waiting threads go on where all others of their group wait too; returns whether some do.
static bool release(Wait kind, unsigned first, unsigned last, bool all) {
  unsigned waiting = 0, done = 0;
  for (unsigned i = first; i < last; ++i) {
    waiting += fibers[i].wait == kind;
    done += fibers[i].wait == DONE;
  }
  if (!waiting || waiting + (all ? 0 : done) != last - first) return false;
  for (unsigned i = first; i < last; ++i)
    if (fibers[i].wait == kind) fibers[i].wait = RUN;
  return true;
}

static void run_fiber(unsigned thread) {
  current = &fibers[thread];
  if (current->wait == RUN) swap(&scheduler, &current->context);
}

static bool release_warp(unsigned first, unsigned threads) {
  return release(WARP, first, first + WARP_SIZE < threads ? first + WARP_SIZE : threads, false);
}

// Where the threads of another warp begin in an order that keeps warps together.
static unsigned next_warp(const unsigned* order, unsigned begin, unsigned threads) {
  unsigned end = begin + 1;
  while (end < threads && order[end] / WARP_SIZE == order[begin] / WARP_SIZE) ++end;
  return end;
}

static const char* run_block(unsigned threads, char* stacks, unsigned* order, uint64_t seed, uint64_t* state) {
  for (unsigned i = 0; i < threads; ++i) {
    fibers[i].thread = i;
    fibers[i].wait = RUN;
    fibers[i].fragments = 0;
    prepare(&fibers[i], stacks + i * STACK);
  }
  for (;;) {
    arrange(order, threads, seed, state);
    bool again = false;
    if (seed > 1) {  // all threads in turns
      for (unsigned i = 0; i < threads; ++i) run_fiber(order[i]);
      for (unsigned first = 0; first < threads; first += WARP_SIZE) again |= release_warp(first, threads);
    } else {  // each warp as far as it gets, before the next one begins
      for (unsigned begin = 0; begin < threads; begin = next_warp(order, begin, threads)) {
        unsigned first = order[begin] / WARP_SIZE * WARP_SIZE, end = next_warp(order, begin, threads);
        do
          for (unsigned i = begin; i < end; ++i) run_fiber(order[i]);
        while (release_warp(first, threads) && !fault);
      }
    }
    if (fault) return fault;
    again |= release(BLOCK, 0, threads, true);
    if (again) continue;
    for (unsigned i = 0; i < threads; ++i)
      if (fibers[i].wait != DONE) return "barrier divergence: some threads of a block wait where others do not come";
    return fault;
  }
}

static const char* launch(void (*run)(void* const*), void* const* buffers, const unsigned* sizes, uint64_t seed, char* begin, char* end) {
  grid.x = sizes[0], grid.y = sizes[1], grid.z = sizes[2];
  block.x = sizes[3], block.y = sizes[4], block.z = sizes[5];
  kernel = run, arguments = buffers, fault = 0;
  unsigned threads = block.x * block.y * block.z, blocks = grid.x * grid.y * grid.z;
  char* stacks = (char*)mmap(0, threads * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stacks == MAP_FAILED) return "no memory for the stacks of the threads";
  fibers = (Fiber*)calloc(threads, sizeof(Fiber));
  exchanged = (uint64_t*)calloc(threads, sizeof(uint64_t));
  unsigned *order = (unsigned*)calloc(threads, sizeof(unsigned)), *turns = (unsigned*)calloc(blocks, sizeof(unsigned));
  uint64_t state = 0x9e3779b97f4a7c15ull * (seed + 1);
  const char* problem = 0;
  arrange(turns, blocks, seed, &state);
  for (unsigned i = 0; i < blocks && !problem; ++i) {
    unsigned q = turns[i];
    at.x = q % grid.x, at.y = q / grid.x % grid.y, at.z = q / grid.x / grid.y;
    memset(begin, POISON, end - begin);
    problem = run_block(threads, stacks, order, seed, &state);
  }
  free(turns), free(order), free(exchanged), free(fibers);
  munmap(stacks, threads * STACK);
  return problem;
}

static shim_index thread_index() {
  unsigned i = current->thread;
  shim_index found = {i % block.x, i / block.x % block.y, i / block.x / block.y};
  return found;
}

template <class T> static T shuffle(T value, unsigned lane) {  // a lane beyond the end of the block gives the value back
  static_assert(sizeof(T) <= 8, "shuffles hand on at most 8 bytes");
  unsigned i = current->thread, from = i - i % WARP_SIZE + lane % WARP_SIZE;
  memcpy(&exchanged[i], &value, sizeof value);
  yield(WARP);
  T found = value;
  if (from < block.x * block.y * block.z) memcpy(&found, &exchanged[from], sizeof found);
  yield(WARP);
  return found;
}
}  // namespace shim

#define threadIdx (shim::thread_index())
#define blockIdx (shim::at)
#define blockDim (shim::block)
#define gridDim (shim::grid)
static inline void __syncthreads() { shim::yield(shim::BLOCK); }
static inline void __syncwarp(unsigned = ~0u) { shim::yield(shim::WARP); }
static inline unsigned shim_lane() { return shim::current->thread % shim::WARP_SIZE; }
template <class T> static T __shfl_sync(unsigned, T value, int lane) { return shim::shuffle(value, lane); }
template <class T> static T __shfl_xor_sync(unsigned, T value, int mask) { return shim::shuffle(value, shim_lane() ^ mask); }
template <class T> static T __shfl_down_sync(unsigned, T value, unsigned by) {
  unsigned lane = shim_lane();
  return shim::shuffle(value, lane + by < shim::WARP_SIZE ? lane + by : lane);
}
template <class T> static T atomicAdd(T* place, T value) {
  T before = *place;
  *place += value;
  return before;
}

struct shim_pointer {  // an argument of any pointer type
  void* p;
  template <class T> operator T*() const { return (T*)p; }
};

struct __half { uint16_t bits; };
struct __nv_bfloat16 { uint16_t bits; };
static inline uint32_t shim_bits(float x) { uint32_t bits; memcpy(&bits, &x, 4); return bits; }
static inline float shim_float(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
static inline float __bfloat162float(__nv_bfloat16 h) { return shim_float((uint32_t)h.bits << 16); }
static inline __nv_bfloat16 __float2bfloat16(float x) {
  uint32_t bits = shim_bits(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return __nv_bfloat16{0x7fff};
  return __nv_bfloat16{(uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
static inline float __half2float(__half h) {
  uint32_t sign = (uint32_t)(h.bits & 0x8000) << 16, exponent = h.bits >> 10 & 31, fraction = h.bits & 0x3ff;
  if (exponent == 0) return shim_float(shim_bits((float)fraction * 0x1p-24f) | sign);
  return shim_float(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13);
}
static inline __half __float2half(float x) {
  uint32_t bits = shim_bits(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  if (size > 0x7f800000) return __half{(uint16_t)(sign | 0x7e00)};
  if (size >= 0x477ff000) return __half{(uint16_t)(sign | 0x7c00)};
  if (size < 0x38800000) return __half{(uint16_t)(sign | (shim_bits(shim_float(size) + 0.5f) - 0x3f000000))};
  return __half{(uint16_t)(sign | (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13)};
}

// Tensor cores: element e of a matrix, row after row, is element e / 32 of lane 31 - e % 32.
static inline float shim_value(__half h) { return __half2float(h); }
static inline float shim_value(__nv_bfloat16 h) { return __bfloat162float(h); }
static inline float shim_value(float x) { return x; }
static inline float shim_tf32(float x) { return shim_float(shim_bits(x) & ~0x1fffu); }  // the bits that a tensor core reads
namespace nvcuda {
namespace wmma {
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision { struct tf32 {}; }
template <class T> struct shim_stored { typedef T type; };
template <> struct shim_stored<precision::tf32> { typedef float type; };
template <class Use, int m, int n, int k> struct shim_shape { static const int rows = m, columns = n; };
template <int m, int n, int k> struct shim_shape<matrix_a, m, n, k> { static const int rows = m, columns = k; };
template <int m, int n, int k> struct shim_shape<matrix_b, m, n, k> { static const int rows = k, columns = n; };

template <class Use, int m, int n, int k, class T, class Layout = void> struct fragment {
  typedef typename shim_stored<T>::type element_type;
  static const int rows = shim_shape<Use, m, n, k>::rows, columns = shim_shape<Use, m, n, k>::columns;
  enum { num_elements = rows * columns / 32 };
  element_type x[num_elements];
  fragment() { memset((void*)x, 0xff, sizeof x); }
};

template <class P> static void shim_together(const P* place, unsigned step) {  // all lanes of a warp are here, and mean the same matrix
  if ((size_t)place % 32 || step * sizeof(P) % 16) shim::fault = "a matrix in memory is not aligned as tensor cores need it";
  uint64_t mine = (uint64_t)(size_t)place;
  if (shim::shuffle(mine, 0) != mine) shim::fault = "the threads of a warp read or write different matrices";
  if (shim::block.x * shim::block.y * shim::block.z % 32) shim::fault = "a tensor core needs a whole warp";
}
template <int m, int n, int k, class T, class E> static void fill_fragment(fragment<accumulator, m, n, k, T>& f, E value) {
  for (int i = 0; i < f.num_elements; ++i) f.x[i] = value;
}
template <class U, int m, int n, int k, class T, class E, class L>
static void shim_load(fragment<U, m, n, k, T, L>& f, const E* from, unsigned step, bool turned) {
  shim_together(from, step);
  for (int i = 0; i < f.num_elements; ++i) {
    unsigned e = i * 32 + 31 - shim_lane(), row = e / f.columns, column = e % f.columns;
    f.x[i] = turned ? from[column * step + row] : from[row * step + column];
  }
}
template <class U, int m, int n, int k, class T, class E>
static void load_matrix_sync(fragment<U, m, n, k, T, row_major>& f, const E* from, unsigned step) { shim_load(f, from, step, false); }
template <class U, int m, int n, int k, class T, class E>
static void load_matrix_sync(fragment<U, m, n, k, T, col_major>& f, const E* from, unsigned step) { shim_load(f, from, step, true); }
template <int m, int n, int k, class T>
static void store_matrix_sync(T* to, const fragment<accumulator, m, n, k, T>& f, unsigned step, layout_t layout) {
  shim_together(to, step);
  for (int i = 0; i < f.num_elements; ++i) {
    unsigned e = i * 32 + 31 - shim_lane(), row = e / f.columns, column = e % f.columns;
    to[layout == mem_row_major ? row * step + column : column * step + row] = f.x[i];
  }
}
static inline float __float_to_tf32(float x) { return shim_float((shim_bits(x) + 0x1000) & ~0x1fffu); }
template <class T> struct shim_read { template <class E> static float of(E x) { return shim_value(x); } };
template <> struct shim_read<precision::tf32> { static float of(float x) { return shim_tf32(x); } };

template <int m, int n, int k, class T, class P, class Q>
static void mma_sync(fragment<accumulator, m, n, k, float>& d, const fragment<matrix_a, m, n, k, T, P>& a, const fragment<matrix_b, m, n, k, T, Q>& b,
                     const fragment<accumulator, m, n, k, float>& c) {
  const void* mine[2] = {&a, &b};
  unsigned first = shim::current->thread - shim_lane(), last = shim::block.x * shim::block.y * shim::block.z;
  float found[m * n / 32];
  shim::current->fragments = mine;
  shim::yield(shim::WARP);
  for (int i = 0; i < m * n / 32; ++i) {
    unsigned e = i * 32 + 31 - shim_lane(), row = e / n, column = e % n;
    found[i] = c.x[i];
    for (unsigned t = 0; t < k; ++t) {
      unsigned left = row * k + t, right = t * n + column, one = first + 31 - left % 32, two = first + 31 - right % 32;
      const void* const* of_one = one < last ? shim::fibers[one].fragments : 0;
      const void* const* of_two = two < last ? shim::fibers[two].fragments : 0;
      if (!of_one || !of_two) {  // a lane that is elsewhere
        found[i] = NAN;
        continue;
      }
      float x = shim_read<T>::of(((const fragment<matrix_a, m, n, k, T, P>*)of_one[0])->x[left / 32]);
      found[i] += x * shim_read<T>::of(((const fragment<matrix_b, m, n, k, T, Q>*)of_two[1])->x[right / 32]);
    }
  }
  shim::yield(shim::WARP);
  shim::current->fragments = 0;
  for (int i = 0; i < m * n / 32; ++i) d.x[i] = found[i];
}
}  // namespace wmma
}  // namespace nvcuda
