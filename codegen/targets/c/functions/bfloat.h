static inline float store_bfloat(float x) { /* the nearest number with the upper 16 bits alone */
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000;
  float nearest;
  __builtin_memcpy(&nearest, &bits, sizeof nearest);
  return x == x ? nearest : x;
}
