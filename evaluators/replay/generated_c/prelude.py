"""Prelude of the code that is compiled: checks, and arithmetic that is defined for every value.

A compiler draws conclusions from what is not defined. It would leave a check away that only matters after an overflow,
a division by zero, or a conversion of a float that no integer of the type equals.
"""

from __future__ import annotations

FLOAT_TO_INTEGER = "_of("
"""Occurs in the text of every conversion of a float to an integer."""
PRELUDE = """
static inline int64_t held_at(int64_t index, uint64_t count) {
  if (__builtin_expect((uint64_t)index >= count, 0)) __builtin_trap();
  return index;
}
static inline int64_t held_data_at(int64_t index, uint64_t count) {
  asm("" : "+r"(index));
  return held_at(index, count);
}
template <class T> static inline T held_quotient(T one, T two) {
  if (__builtin_expect(two == 0, 0)) __builtin_trap();
  return (T)-1 < 0 && two == (T)-1 ? (T)(0ul - (uint64_t)one) : (T)(one / two);
}
template <class T> static inline T held_remainder(T one, T two) {
  if (__builtin_expect(two == 0, 0)) __builtin_trap();
  return (T)-1 < 0 && two == (T)-1 ? (T)0 : (T)(one % two);
}
template <class T, class F> static inline T held_bits(F value) {
  T bits;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return bits;
}
static inline int32_t held_int32_of(float value) {
  return value >= -2147483648.0f && value < 2147483648.0f ? (int32_t)value : INT32_MIN;
}
static inline int32_t held_int32_of(double value) {
  return value > -2147483649.0 && value < 2147483648.0 ? (int32_t)value : INT32_MIN;
}
static inline int64_t held_int64_of(double value) {
  return value >= -9223372036854775808.0 && value < 9223372036854775808.0 ? (int64_t)value : INT64_MIN;
}
static inline uint64_t held_uint64_of(double value) {
  return value > -1.0 && value < 18446744073709551616.0 ? (uint64_t)value : (uint64_t)INT64_MIN;
}
"""
"""`held_data_at` takes an index that came from memory: what the compiler thinks to know of it ends at the assembly,
which is empty, so that the number that is checked is the one that is used."""
