#if EINALG_VECTOR_MATH >= 1 && defined(__F16C__) && defined(__AVX2__) && defined(__GNUC__) \
    && !defined(__clang__) && __GNUC__ < 14 && !defined(__AVX512FP16__) \
    && !defined(EINALG_SOFTWARE_HALF)
#define EINALG_VECTORS_OF_HALVES
/* The processor converts vectors. Loops call functions for these by the names that the compiler
   gives them. A half has 32 bits there, so that its vectors have as many elements as floats have. */
typedef uint16_t half;
#define VECTOR_FUNCTION __attribute__((simd("notinbranch"), const))
VECTOR_FUNCTION float loaded_half(uint32_t h);
VECTOR_FUNCTION uint32_t stored_half(float x);
VECTOR_FUNCTION float round_half(float x);
#define load_half(h) loaded_half(h)
#define store_half(x) ((half)stored_half(x))
typedef float float_x4 __attribute__((vector_size(16))), float_x8 __attribute__((vector_size(32)));
typedef uint32_t word_x4 __attribute__((vector_size(16)));
typedef uint32_t word_x8 __attribute__((vector_size(32)));
typedef int16_t short_x4 __attribute__((vector_size(8))), short_x8 __attribute__((vector_size(16)));
typedef uint16_t half_x8 __attribute__((vector_size(16)));
#define NAMED(result, name, argument, symbol) \
  static __attribute__((used)) result name(argument) __asm__(symbol); \
  static __attribute__((used)) result name(argument x)
#define FEW(x) ((short_x8){(int16_t)(x)[0], (int16_t)(x)[1], (int16_t)(x)[2], (int16_t)(x)[3]})
#define NARROW(x) ((short_x8)__builtin_convertvector(x, half_x8))
#define WIDE(x) __builtin_convertvector((half_x8)(x), word_x8)
#define HALVES_OF_4(x) __builtin_ia32_vcvtps2ph(x, 0)
#define HALVES_OF_8(x) __builtin_ia32_vcvtps2ph256(x, 0)
NAMED(float_x4, loaded_x4, word_x4, "_ZGVbN4v_loaded_half") {
  return __builtin_ia32_vcvtph2ps(FEW(x));
}
NAMED(float_x8, loaded_x8, word_x8, "_ZGVdN8v_loaded_half") {
  return __builtin_ia32_vcvtph2ps256(NARROW(x));
}
NAMED(word_x4, stored_x4, float_x4, "_ZGVbN4v_stored_half") {
  const half_x8 h = (half_x8)HALVES_OF_4(x);
  return (word_x4){h[0], h[1], h[2], h[3]};
}
NAMED(word_x4, stored_by_avx, float_x4, "_ZGVcN4v_stored_half") { return stored_x4(x); }
NAMED(word_x8, stored_x8, float_x8, "_ZGVdN8v_stored_half") { return WIDE(HALVES_OF_8(x)); }
NAMED(float_x4, rounded_x4, float_x4, "_ZGVbN4v_round_half") {
  return __builtin_ia32_vcvtph2ps(HALVES_OF_4(x));
}
NAMED(float_x8, rounded_x8, float_x8, "_ZGVdN8v_round_half") {
  return __builtin_ia32_vcvtph2ps256(HALVES_OF_8(x));
}
NAMED(float, loaded_x1, uint32_t, "loaded_half") {
  return __builtin_ia32_vcvtph2ps((short_x8){(int16_t)x})[0];
}
NAMED(uint32_t, stored_x1, float, "stored_half") {
  return ((half_x8)HALVES_OF_4((float_x4){x}))[0];
}
NAMED(float, rounded_x1, float, "round_half") {
  return __builtin_ia32_vcvtph2ps(HALVES_OF_4((float_x4){x}))[0];
}
#if defined(__AVX512F__)
typedef float float_x16 __attribute__((vector_size(64)));
typedef uint32_t word_x16 __attribute__((vector_size(64)));
typedef int16_t short_x16 __attribute__((vector_size(32)));
typedef uint16_t half_x16 __attribute__((vector_size(32)));
#define LOADED_16(h) \
  __builtin_ia32_vcvtph2ps512_mask((short_x16)(h), (float_x16){0}, (uint16_t)-1, 4)
#define HALVES_OF_16(x) __builtin_ia32_vcvtps2ph512_mask(x, 0, (short_x16){0}, (uint16_t)-1)
NAMED(float_x16, loaded_x16, word_x16, "_ZGVeN16v_loaded_half") {
  return LOADED_16(__builtin_convertvector(x, half_x16));
}
NAMED(word_x16, stored_x16, float_x16, "_ZGVeN16v_stored_half") {
  return __builtin_convertvector((half_x16)HALVES_OF_16(x), word_x16);
}
NAMED(float_x16, rounded_x16, float_x16, "_ZGVeN16v_round_half") {
  return LOADED_16(HALVES_OF_16(x));
}
#endif
typedef float floats_x8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int16_t shorts_x8 __attribute__((vector_size(16), aligned(2), may_alias));
#if defined(__AVX512F__)
typedef float floats_x16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef int16_t shorts_x16 __attribute__((vector_size(32), aligned(2), may_alias));
#endif
static inline void load_halves(const half *from, float *to, int64_t count) {
  int64_t k = 0;
#if defined(__AVX512F__)
  for (; k + 16 <= count; k += 16)
    *(floats_x16 *)&to[k] = LOADED_16(*(const shorts_x16 *)&from[k]);
#endif
  for (; k + 8 <= count; k += 8)
    *(floats_x8 *)&to[k] = __builtin_ia32_vcvtph2ps256(*(const shorts_x8 *)&from[k]);
  for (; k < count; ++k) to[k] = loaded_x1(from[k]);
}
static inline void store_halves(const float *from, half *to, int64_t count) {
  int64_t k = 0;
#if defined(__AVX512F__)
  for (; k + 16 <= count; k += 16)
    *(shorts_x16 *)&to[k] = HALVES_OF_16(*(const floats_x16 *)&from[k]);
#endif
  for (; k + 8 <= count; k += 8)
    *(shorts_x8 *)&to[k] = HALVES_OF_8(*(const floats_x8 *)&from[k]);
  for (; k < count; ++k) to[k] = (half)stored_x1(from[k]);
}
#endif
