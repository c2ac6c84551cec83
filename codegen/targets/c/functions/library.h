#if EINALG_VECTOR_MATH >= 1 && !defined(__clang__)
/* Equal numbers have equal results: the function of the longest vectors computes every element. */
#define CALLED
#if defined(__aarch64__)
#undef CALLED
#define CALLED __attribute__((aarch64_vector_pcs))
#define LONGEST_BYTES 16
#define LONGEST_f32(v, name) _ZGVnN4##v##_##name
#define LONGEST_f64(v, name) _ZGVnN2##v##_##name
#define SHORTER_f32(define, v, name) \
  define(f32, 8, CALLED, _ZGVnN2##v##_##name, LONGEST_f32(v, name))
#define SHORTER_f64(define, v, name)
#elif defined(__AVX512F__)
#define LONGEST_BYTES 64
#define LONGEST_f32(v, name) _ZGVeN16##v##_##name
#define LONGEST_f64(v, name) _ZGVeN8##v##_##name
#define SHORTER_f32(define, v, name) \
  define(f32, 32, CALLED, _ZGVdN8##v##_##name, LONGEST_f32(v, name)) \
  define(f32, 16, CALLED, _ZGVbN4##v##_##name, LONGEST_f32(v, name))
#define SHORTER_f64(define, v, name) \
  define(f64, 32, CALLED, _ZGVdN4##v##_##name, LONGEST_f64(v, name)) \
  define(f64, 16, CALLED, _ZGVbN2##v##_##name, LONGEST_f64(v, name))
#elif defined(__AVX__)
#define LONGEST_BYTES 32
#if defined(__AVX2__)
#define LONGEST_f32(v, name) _ZGVdN8##v##_##name
#define LONGEST_f64(v, name) _ZGVdN4##v##_##name
#else
#define LONGEST_f32(v, name) _ZGVcN8##v##_##name
#define LONGEST_f64(v, name) _ZGVcN4##v##_##name
#endif
#define SHORTER_f32(define, v, name) \
  define(f32, 16, CALLED, _ZGVbN4##v##_##name, LONGEST_f32(v, name))
#define SHORTER_f64(define, v, name) \
  define(f64, 16, CALLED, _ZGVbN2##v##_##name, LONGEST_f64(v, name))
#else
#define LONGEST_BYTES 16
#define LONGEST_f32(v, name) _ZGVbN4##v##_##name
#define LONGEST_f64(v, name) _ZGVbN2##v##_##name
#define SHORTER_f32(define, v, name)
#define SHORTER_f64(define, v, name)
#endif
#define OWN static __attribute__((used))
#define VECTOR(bytes) __attribute__((vector_size(bytes)))
typedef float longest_f32 VECTOR(LONGEST_BYTES);
typedef float f32_in_32 VECTOR(32), f32_in_16 VECTOR(16), f32_in_8 VECTOR(8), f32_in_4;
typedef double longest_f64 VECTOR(LONGEST_BYTES);
typedef double f64_in_32 VECTOR(32), f64_in_16 VECTOR(16), f64_in_8;
#define FILLED(type, x) ({ \
  longest_##type all; \
  for (unsigned k = 0; k < sizeof all; k += sizeof x) \
    __builtin_memcpy((char *)&all + k, &x, sizeof x); \
  all; })
#define ONE(type, bytes, called, name, longest) \
  OWN called type##_in_##bytes name(type##_in_##bytes x) { \
    const longest_##type all = longest(FILLED(type, x)); \
    __builtin_memcpy(&x, &all, sizeof x); \
    return x; \
  }
#define TWO(type, bytes, called, name, longest) \
  OWN called type##_in_##bytes name(type##_in_##bytes x, type##_in_##bytes y) { \
    const longest_##type all = longest(FILLED(type, x), FILLED(type, y)); \
    __builtin_memcpy(&x, &all, sizeof x); \
    return x; \
  }
#endif
