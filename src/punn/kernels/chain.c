/* The sigmoid chain on a processor: its loss with the gradient, its partition functions, its class sums.
 *
 * Plain C without any header but the standard ones: it is compiled when the package is installed, and without a
 * compiler the same functions of punn.partition run on torch's operators. Every function is written once, in
 * chain_rows.h, for float and for double. A loop over LANES numbers that do not depend on each other is what a
 * compiler turns into vector instructions; sums are kept in double, or in one double per block of numbers.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stripes.h"

#define LANES 16
/* A product of BLOCK numbers between 1 and 2 is far from the largest double, so one logarithm serves them all. */
#define BLOCK 512

/* Four numbers that are worked on together, and a choice of four from two such, the second counted on from 4. */
typedef double four __attribute__((vector_size(32)));
#define SHUFFLE(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)

/* Python looks at this first: a library that was left over from another version is not used. */
int punn_chain_version(void) { return 4; }

/* exp(x) is 2^n exp(r) with |r| < 0.35. Adding 1.5 * 2^23 rounds to the integer n and leaves it in the low bits, from
 * where it goes into the exponent; the polynomial is off by no more than 3e-9. */
INLINE float exp_parts(float x, uint32_t *n) {
    union { float f; uint32_t i; } rounded = {x * 1.44269504f + 12582912.0f};
    float whole = rounded.f - 12582912.0f;
    float r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    float p = 1.3814467e-3f;
    p = p * r + 8.368781e-3f;
    p = p * r + 4.1668393e-2f;
    p = p * r + 0.1666652f;
    p = p * r + 0.49999994f;
    *n = rounded.i;
    return p * (r * r) + r + 1.0f;
}

/* exp(x) for x <= 0, to about one unit in the last place; 0 below the smallest normal number. */
INLINE float exp_float(float x) {
    uint32_t n;
    union { float f; uint32_t i; } e = {exp_parts(x < -87.33f ? -87.33f : x, &n)};
    e.i += (n + 24) << 23; /* and back by a product, which has no trouble with the smallest numbers */
    return x < -87.33f ? 0.0f : e.f * 0x1p-24f;
}

/* The same where what is below exp(-86) makes no difference, and need not be told from 0. */
INLINE float exp_roughly_float(float x) {
    uint32_t n;
    union { float f; uint32_t i; } e = {exp_parts(x < -86.0f ? -86.0f : x, &n)};
    e.i += n << 23;
    return e.f;
}

INLINE double exp_double(double x) {
    double bounded = x < -708.3 ? -708.3 : x;
    double n = rint(bounded * 1.4426950408889634);
    double r = bounded - n * 6.93147180369123816490e-1 - n * 1.90821492927058770002e-10;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r * r + r + 1.0;
    /* Adding 1.5 * 2^52 leaves the integer in the low bits: vectors have no instruction for this conversion. */
    union { double f; int64_t i; } shifted = {n + 6755399441055744.0};
    union { int64_t i; double f; } power = {(shifted.i + 1023) * (1LL << 52)};
    return x < -708.3 ? 0.0 : p * power.f;
}

INLINE double exp_roughly_double(double x) { return exp_double(x); }

/* log(1 + e) for 0 <= e <= 1, as twice the inverse hyperbolic tangent of e / (2 + e): nothing cancels. */
INLINE float log1p_float(float e) {
    float s = e / (2.0f + e), z = s * s;
    float p = 2.0f / 15;
    p = p * z + 2.0f / 13;
    p = p * z + 2.0f / 11;
    p = p * z + 2.0f / 9;
    p = p * z + 2.0f / 7;
    p = p * z + 2.0f / 5;
    p = p * z + 2.0f / 3;
    return p * z * s + 2.0f * s;
}

INLINE double log1p_double(double e) {
    double s = e / (2.0 + e), z = s * s;
    double p = 2.0 / 33;
    for (int odd = 31; odd >= 3; odd -= 2) p = p * z + 2.0 / odd;
    return p * z * s + 2.0 * s;
}

/* log(x) for x >= 1, of which vectors are made: x is a power of 2 times 1 + rest. Minus infinity for 0, and what is
 * not a number stays none. */
INLINE double log_from_one(double x) {
    union { double f; int64_t i; } bits = {x}, mantissa;
    mantissa.i = (bits.i & 0xFFFFFFFFFFFFFLL) | 0x3FF0000000000000LL;
    double value = ((int32_t)(bits.i >> 52) - 1023) * 0.6931471805599453 + log1p_double(mantissa.f - 1);
    return x == 0 ? -INFINITY : x == x ? value : x;
}

/* log(1 + p) for p >= 0, of which vectors are made: small p keep their digits. */
INLINE double log1p_from_zero(double p) {
    union { double f; int64_t i; } bits = {1 + p}, mantissa;
    mantissa.i = (bits.i & 0xFFFFFFFFFFFFFLL) | 0x3FF0000000000000LL;
    int32_t power = p < 1 ? 0 : (int32_t)(bits.i >> 52) - 1023;
    double value = power * 0.6931471805599453 + log1p_double(p < 1 ? p : mantissa.f - 1);
    return p == p ? value : p;
}

#define REAL float
#define INTEGER int32_t
#define NAME(name) name##_float
#include "chain_rows.h"
#undef REAL
#undef INTEGER
#undef NAME

#define REAL double
#define INTEGER int64_t
#define NAME(name) name##_double
#include "chain_rows.h"
