/* A network as a builtin function of Python: finds the memory of the arguments, has the framework
   make the results, and runs the kernels without the interpreter's lock.

   No header of Python is needed: of the C API's stable part, the addresses of the functions below
   are passed to `setup`. `MAX_TENSORS` is defined by who compiles this. */

#include <stddef.h>
#include <stdint.h>

/* The layouts of others. */

struct dlpack_view {
  void *data;
  int32_t device, number, rank;
  uint8_t code, bits;
  uint16_t lanes;
  const int64_t *shape, *strides;
  uint64_t offset;
};

/* NumPy's array, behind the head of an object. */
struct numpy_array {
  void *data;
  int32_t rank;
  const intptr_t *shape, *strides;
  void *base, *dtype;
  int flags;
};

enum { CONTIGUOUS_ALIGNED = 0x101, CPU_DEVICE = 1, METH_FASTCALL_KEYWORDS = 0x82 };

/* What Python fills in: see c_structures.py, which has the same fields in the same order. */

struct tensor {
  int32_t rank;
  uint8_t code, bits;
  const int64_t *shape, *strides;
  const void *dtype;
};

/* A place in a kernel's arguments that is written anew in each call. */
struct place {
  void **address;
  int64_t offset;
  int32_t tensor;
};

struct network {
  int32_t inputs, outputs, places, kernels, is_alone, is_busy;
  const void *types[2];                     /* of the objects */
  int (*read)(void *, struct dlpack_view *); /* where an object lies; NULL for NumPy's arrays */
  void *refused;         /* the name of a method that says whether memory holds other values */
  const struct tensor *tensors;
  void *const *makers;   /* of results */
  const struct place *place;
  void (*sequence)(long, const void *, const void *);
  const void *functions, *blocks;
  void *prepare;         /* called by the first call only */
  void *finish;          /* makes the value of the call from a tuple of results */
  void *fallback;        /* the same network in Python, for arguments of other kinds */
};

/* The C API, in the order of `API` in c_dispatch.py. */
static struct {
  void *(*tuple_item)(void *, intptr_t);
  void *(*as_pointer)(void *);
  void *(*call)(void *, void *const *, size_t, void *);
  void *(*call_without_arguments)(void *);
  void *(*call_method)(void *, void *, ...);
  void *(*new_tuple)(intptr_t);
  int (*set_tuple_item)(void *, intptr_t, void *);
  void (*clear_error)(void);
  void *(*release_lock)(void);
  void (*acquire_lock)(void *);
  void (*increase_count)(void *);
  void (*decrease_count)(void *);
} python;

static const void *false_object; /* what `refused` returns for memory that holds its values */
static intptr_t head_bytes;      /* of an object */
static int is_child;             /* of a fork: it has no threads of its parent's */

void setup(const void *api, const void *no, intptr_t size) {
  __builtin_memcpy(&python, api, sizeof python);
  false_object = no;
  head_bytes = size;
}

void in_child(void) { is_child = 1; }

static void *array_memory(void *object, const struct tensor *t) {
  const struct numpy_array *a = (const struct numpy_array *)((char *)object + head_bytes);
  if (a->dtype != t->dtype || a->rank != t->rank) return NULL;
  if ((a->flags & CONTIGUOUS_ALIGNED) != CONTIGUOUS_ALIGNED) return NULL;
  for (int32_t k = 0; k < t->rank; ++k)
    if (a->shape[k] != t->shape[k]) return NULL;
  return a->data;
}

static int lies_as(const struct dlpack_view *v, const struct tensor *t) {
  int64_t step = 1;
  for (int32_t k = t->rank; k-- > 0; step *= t->shape[k]) {
    if (v->shape[k] != t->shape[k]) return 0;
    int64_t stride = v->strides ? v->strides[k] : step;
    if (t->shape[k] != 1 && stride != t->strides[k]) return 0;
  }
  return 1;
}

static void *tensor_memory(const struct network *n, void *object, const struct tensor *t,
                           int is_new) {
  struct dlpack_view v;
  if (n->read(object, &v)) {
    python.clear_error();
    return NULL;
  }
  if (v.device != CPU_DEVICE || v.rank != t->rank) return NULL;
  if (v.code != t->code || v.bits != t->bits || v.lanes != 1) return NULL;
  if (!lies_as(&v, t)) return NULL;
  char *data = (char *)v.data + v.offset;
  if ((uintptr_t)data % (t->bits / 8)) return NULL;
  if (is_new) return data;
  void *holds_others = python.call_method(object, n->refused, NULL);
  if (!holds_others) {
    python.clear_error();
    return NULL;
  }
  python.decrease_count(holds_others);
  if (holds_others != false_object) return NULL;
  return data;
}

/* The address of an object's elements; NULL where kernels cannot read them as they lie. */
static void *memory_of(const struct network *n, void *object, const struct tensor *t, int is_new) {
  const void *type = *(void **)((char *)object + head_bytes - sizeof(void *));
  if (type != n->types[0] && type != n->types[1]) return NULL;
  if (n->read) return tensor_memory(n, object, t, is_new);
  return array_memory(object, t);
}

static void *fallback(const struct network *n, void *const *arguments, intptr_t count,
                      void *names) {
  return python.call(n->fallback, arguments, (size_t)count, names);
}

/* The result of a call: the only output itself, or what `finish` makes of all of them. */
static void *finished(const struct network *n, void *results) {
  void *value;
  if (n->is_alone) {
    value = python.tuple_item(results, 0);
    python.increase_count(value);
  } else if (n->finish) {
    value = python.call(n->finish, &results, 1, NULL);
  } else {
    return results;
  }
  python.decrease_count(results);
  return value;
}

static void *run(void *self, void *const *arguments, intptr_t count, void *names) {
  struct network *n = python.as_pointer(python.tuple_item(self, 0));
  char *memory[MAX_TENSORS];
  if (n->prepare) {
    void *none = python.call_without_arguments(n->prepare);
    if (!none) return NULL;
    python.decrease_count(none);
  }
  if (names || is_child || n->is_busy || count != n->inputs)
    return fallback(n, arguments, count, names);
  for (int32_t k = 0; k < n->inputs; ++k) {
    memory[k] = memory_of(n, arguments[k], &n->tensors[k], 0);
    if (!memory[k]) return fallback(n, arguments, count, names);
  }
  void *results = python.new_tuple(n->outputs);
  if (!results) return NULL;
  for (int32_t k = 0; k < n->outputs; ++k) {
    void *result = python.call_without_arguments(n->makers[k]);
    if (!result) {
      python.decrease_count(results);
      return NULL;
    }
    python.set_tuple_item(results, k, result);
    int32_t number = n->inputs + k;
    memory[number] = memory_of(n, result, &n->tensors[number], 1);
    if (!memory[number]) {
      python.decrease_count(results);
      return fallback(n, arguments, count, names);
    }
  }
  if (n->is_busy) { /* what was called until here may have let other threads run */
    python.decrease_count(results);
    return fallback(n, arguments, count, names);
  }
  n->is_busy = 1;
  for (int32_t k = 0; k < n->places; ++k) {
    const struct place *place = &n->place[k];
    *place->address = memory[place->tensor] + place->offset;
  }
  void *thread = python.release_lock();
  n->sequence(n->kernels, n->functions, n->blocks);
  python.acquire_lock(thread);
  n->is_busy = 0;
  return finished(n, results);
}

/* A PyMethodDef. */
struct {
  const char *name;
  void *function;
  int flags;
  const char *text;
} method = {"network", run, METH_FASTCALL_KEYWORDS, "A network on memory as it is."};
