"""The threads of generated code: what each parallel loop is cut into, and who runs it (design §10).

A compiler takes the loops apart (`#pragma omp parallel for`), and asks a runtime to run the parts.
The usual one waits until each of its threads has run one: where a processor is busy with something
else, such as the threads of a library that wait for more work, or asleep, that takes milliseconds.
Here any thread that is free runs the next part, the calling thread among them, which waits for
those parts only that have begun. So a loop takes no longer than on one thread, whatever else the
machine does.
"""

from __future__ import annotations

import ctypes
from typing import Any

from codegen.targets.c.compiler import Compiler
from einalg.runtime.processors import thread_count
from einalg.storage.fingerprint import text_digest

PARTS_PER_THREAD = 4  # of a loop
# Placed before a C file: what a compiler calls for a parallel loop, in the way that gcc does. Other
# compilers bring their runtime with them.
REGIONS = """\
typedef void einalg_run(void (*)(void *, int), void *, int);
static einalg_run *einalg_pool;
static int einalg_parts = 1;
static _Thread_local int einalg_number, einalg_count = 1;
struct einalg_region { void (*body)(void *); void *data; int parts; };
void einalg_use(einalg_run *pool, int parts) { einalg_pool = pool, einalg_parts = parts; }
static void einalg_part(void *argument, int number) {
  const struct einalg_region *region = argument;
  const int outer_number = einalg_number, outer_count = einalg_count;
  einalg_number = number, einalg_count = region->parts;
  region->body(region->data);
  einalg_number = outer_number, einalg_count = outer_count;
}
__attribute__((visibility("hidden"))) void GOMP_parallel(\
void (*body)(void *), void *data, unsigned threads, unsigned flags) {
  struct einalg_region region = {body, data, einalg_pool ? einalg_parts : 1};
  if (region.parts > 1) einalg_pool(einalg_part, &region, region.parts);
  else einalg_part(&region, 0);
}
__attribute__((visibility("hidden"))) int omp_get_thread_num(void) { return einalg_number; }
__attribute__((visibility("hidden"))) int omp_get_num_threads(void) { return einalg_count; }
#line 1
"""
POOL = """\
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#define RELAX() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define RELAX() __asm__ volatile("yield")
#else
#define RELAX() (void)0
#endif
enum { BITS = 20, MASK = (1 << BITS) - 1, SPINS = 1000, MOST = 1024 };
typedef void task(void *, int);
// A job: its number, how many parts it has, and how many were asked for, in one word, so that \
who asks for a part sees all of one job.
static _Atomic uint64_t job;
static _Atomic int done, asleep;
static task *body;
static void *argument;
static atomic_flag busy = ATOMIC_FLAG_INIT;
static pthread_mutex_t door;
static pthread_cond_t work;
static int wanted = 1, helpers;
static pid_t owner;
static pthread_t helper[MOST];

// The helpers stay off the processor of the calling thread: a scheduler that places one there \
would have it wait for the whole loop.
static void stay_away(void) {
#ifdef __linux__
  static cpu_set_t usable;
  static int avoided, known;
  const int here = sched_getcpu();
  if (known && here == avoided) return;
  if (!known && sched_getaffinity(0, sizeof usable, &usable)) return;
  cpu_set_t others = usable;
  CPU_CLR(here, &others);
  if (CPU_COUNT(&others))
    for (int k = 0; k < helpers; ++k) pthread_setaffinity_np(helper[k], sizeof others, &others);
  avoided = here, known = 1;
#endif
}

static uint64_t help(void) {
  for (;;) {
    const uint64_t now = atomic_fetch_add(&job, 1);
    const int number = now & MASK, parts = now >> BITS & MASK;
    if (number >= parts) return now >> 2 * BITS;
    body(argument, number);
    atomic_fetch_add(&done, 1);
  }
}
static int is_old(uint64_t seen) { return atomic_load(&job) >> 2 * BITS == seen; }
static void *worker(void *unused) {
  for (uint64_t seen = 0;;) {
    for (int spins = 0; is_old(seen) && spins < SPINS; ++spins) RELAX();
    if (is_old(seen)) {
      pthread_mutex_lock(&door);
      atomic_fetch_add(&asleep, 1);
      while (is_old(seen)) pthread_cond_wait(&work, &door);
      atomic_fetch_sub(&asleep, 1);
      pthread_mutex_unlock(&door);
    }
    seen = help();
  }
  return unused;
}
static void start(void) {  // at the first job, and again in a process that was forked,\
 which has no threads but its own
  sigset_t all, before;
  owner = getpid();
  atomic_store(&asleep, 0);
  pthread_mutex_init(&door, 0);
  pthread_cond_init(&work, 0);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the threads of the program
  for (helpers = 0; helpers + 1 < wanted && helpers < MOST; ++helpers)
    if (pthread_create(&helper[helpers], 0, worker, 0)) break;
  pthread_sigmask(SIG_SETMASK, &before, 0);
}
void pool_threads(int threads) { wanted = threads; }
void pool_run(task *f, void *data, int parts) {
  if (wanted < 2 || parts > MASK / 2 || atomic_flag_test_and_set(&busy)) {\
  // by another thread of the program, or from within a part
    for (int number = 0; number < parts; ++number) f(data, number);
    return;
  }
  if (owner != getpid()) start();
  stay_away();
  body = f, argument = data;
  atomic_store(&done, 0);
  atomic_store(&job, ((atomic_load(&job) >> 2 * BITS) + 1) << 2 * BITS | (uint64_t)parts << BITS);
  if (atomic_load(&asleep)) {
    pthread_mutex_lock(&door);
    pthread_cond_broadcast(&work);
    pthread_mutex_unlock(&door);
  }
  help();
  for (int spins = 0; atomic_load(&done) < parts; ++spins)
    if (spins < SPINS) RELAX();
    else sched_yield();
  atomic_flag_clear(&busy);
}
"""
RUNTIME = text_digest(
    REGIONS, POOL, str(PARTS_PER_THREAD)
)  # decides measured times, as a kernel does
# The address of what runs the parts of a loop, one in a process; its threads begin with the first
# loop.
_pool: list[Any] = []


def attached(compiler: Compiler, library: ctypes.CDLL, timeout: float) -> ctypes.CDLL:
    """Return a loaded C file that begins with `REGIONS`, with the threads that all files share."""
    if thread_count() > 1:
        if not _pool:
            pool = compiler.load(POOL, timeout)
            pool.pool_threads(thread_count())
            _pool.append(ctypes.cast(pool.pool_run, ctypes.c_void_p))
        library.einalg_use(_pool[0], PARTS_PER_THREAD * thread_count())
    return library
