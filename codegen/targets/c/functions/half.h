#if !defined(EINALG_VECTORS_OF_HALVES)
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 14 && defined(__x86_64__) \
    && !defined(__AVX512FP16__)
#undef EINALG_SOFTWARE_HALF
#define EINALG_SOFTWARE_HALF /* this compiler converts numbers one by one, never in vectors */
#endif
#if defined(__FLT16_MAX__) && !defined(EINALG_SOFTWARE_HALF)
typedef _Float16 half __attribute__((may_alias)); /* of memory that holds its bits */
#define load_half(x) ((float)(x))
#define store_half(x) ((half)(x))
#define round_half(x) ((float)(half)(x))
#else /* the compiler has no half precision: convert the bits */
typedef uint16_t half;
static inline float load_half(half h) {
  const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31;
  const uint32_t fraction = h & 0x3ff;
  union { uint32_t bits; float value; } out;
  if (exponent == 0) {
    out.value = (float)fraction * 0x1p-24f;
    out.bits |= sign;
  } else {
    out.bits = sign | ((exponent == 31 ? 255 : exponent + 112) << 23) | (fraction << 13);
  }
  return out.value;
}
static inline half store_half(float x) {
  union { float value; uint32_t bits; } in = {x};
  const uint32_t sign = (in.bits >> 16) & 0x8000, magnitude = in.bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return (half)(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return (half)(sign | 0x7c00);
  if (magnitude < 0x38800000) {
    in.bits = magnitude;
    in.value += 0.5f; /* the sum has 24 bits, so that its last place is that of a denormal half */
    return (half)(sign | (in.bits - 0x3f000000));
  }
  return (half)(sign | ((magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13));
}
static inline float round_half(float x) { return load_half(store_half(x)); }
#endif
static inline void load_halves(const half *from, float *to, int64_t count) {
  for (int64_t k = 0; k < count; ++k) to[k] = load_half(from[k]);
}
static inline void store_halves(const float *from, half *to, int64_t count) {
  for (int64_t k = 0; k < count; ++k) to[k] = store_half(from[k]);
}
#endif
