/* Included by chain.c, once with REAL float and once with REAL double. */

INLINE REAL NAME(magnitude)(REAL x) { return x < 0 ? -x : x; }

INLINE double NAME(softplus)(REAL t) { return (t < 0 ? 0 : t) + log1p(exp(-fabs((double)t))); }

INLINE REAL NAME(sigmoid)(REAL t) {
    REAL e = NAME(exp)(-NAME(magnitude)(t)), r = 1 / (1 + e);
    return t < 0 ? e * r : r;
}

/* Gates that must not take the mass: before the first part of the true class, or between two of its parts.
 * Writes factor * q_j, and returns the sum of -log(1 - q_j) = softplus(theta_j).
 * With e = exp(-|theta|): q is 1 / (1 + e) or e / (1 + e), softplus is max(theta, 0) + log(1 + e), and the product of
 * all (1 + e) less one, p <- p + e (1 + p), keeps the digits of small e that 1 + e would lose. */
INLINE double NAME(reject)(const REAL *restrict theta, int64_t count, REAL factor, REAL *restrict out) {
    double loss = 0;
    for (int64_t first = 0; first < count; first += BLOCK) {
        int64_t size = count - first < BLOCK ? count - first : BLOCK;
        double product[LANES] = {0}, hinge[LANES] = {0};
        REAL e[LANES], h[LANES];
        for (int64_t at = first; at < first + size; at += LANES) {
            int64_t left = first + size - at;
            if (left >= LANES) {
                for (int l = 0; l < LANES; l++) {
                    REAL t = theta[at + l];
                    e[l] = NAME(exp)(-NAME(magnitude)(t));
                    h[l] = t < 0 ? 0 : t;
                    REAL r = 1 / (1 + e[l]);
                    out[at + l] = factor * (t < 0 ? e[l] * r : r);
                }
            } else {
                for (int l = 0; l < LANES; l++) e[l] = h[l] = 0;
                for (int l = 0; l < left; l++) {
                    REAL t = theta[at + l];
                    e[l] = NAME(exp)(-NAME(magnitude)(t));
                    h[l] = t < 0 ? 0 : t;
                    out[at + l] = factor * NAME(sigmoid)(t);
                }
            }
            for (int l = 0; l < LANES; l++) {
                product[l] += e[l] * (1 + product[l]);
                hinge[l] += h[l];
            }
        }
        for (int half = LANES / 2; half; half /= 2) {
            for (int l = 0; l < half; l++) {
                product[l] += product[l + half] * (1 + product[l]);
                hinge[l] += hinge[l + half];
            }
        }
        loss += hinge[0] + log1p(product[0]);
    }
    return loss;
}

/* One part: the gates before it must reject, its own must accept, and what comes after it never matters. */
INLINE double NAME(one_part)(const REAL *theta, int64_t part, int64_t gates, REAL scale, REAL *gradient) {
    double loss = NAME(reject)(theta, part, scale, gradient);
    if (part == gates) return loss;
    gradient[part] = -scale * NAME(sigmoid)(-theta[part]);
    memset(gradient + part + 1, 0, (gates - part - 1) * sizeof(REAL));
    return loss + NAME(softplus)(-theta[part]);
}

/* Several parts: forwards the log of each one's mass, backwards q_j times the share of the parts after j.
 * `log_h` has room for as many numbers as there are parts. */
INLINE double NAME(several_parts)(
    const REAL *theta, const int64_t *parts, int64_t count, int64_t gates, REAL scale, REAL *gradient, double *log_h
) {
    double taken = 0, top = -INFINITY, total = 0;
    int64_t at = 0;
    for (int64_t p = 0; p < count; p++) {
        int64_t part = parts[p];
        taken += NAME(reject)(theta + at, part - at, 1, gradient + at);
        log_h[p] = -taken;
        if (part < gates) {
            log_h[p] -= NAME(softplus)(-theta[part]);
            taken += NAME(softplus)(theta[part]);
        }
        top = log_h[p] > top ? log_h[p] : top;
        at = part + 1;
    }
    if (at < gates) memset(gradient + at, 0, (gates - at) * sizeof(REAL));
    /* Nothing at all reaches any part, which takes arguments near the largest number: the first one is the nearest. */
    int lost = top == -INFINITY;
    for (int64_t p = 0; p < count; p++) total += log_h[p] = lost ? p == 0 : exp(log_h[p] - top);
    double later = 0;
    for (int64_t p = count - 1; p >= 0; p--) {
        double mine = log_h[p] / total;
        int64_t part = parts[p], before = p ? parts[p - 1] + 1 : 0;
        if (part < gates) {
            gradient[part] = (REAL)(scale * (NAME(sigmoid)(theta[part]) * later - NAME(sigmoid)(-theta[part]) * mine));
        }
        later += mine;
        REAL factor = (REAL)(scale * later);
        for (int64_t j = before; j < part; j++) gradient[j] *= factor;
    }
    return lost ? taken : -top - log(total);
}

/* Loss of every row, or added up over all rows, and its gradient; both times the row's scale, or one for all rows.
 * The functions of class c are positions[offsets[c]] to positions[offsets[c + 1] - 1], rising.
 * Returns the first row whose target is no class, rows if there is none, and -1 without memory. */
FOR_EACH_PROCESSOR int64_t NAME(punn_chain_loss)(
    const REAL *theta, int64_t rows, int64_t gates, const int64_t *target, int64_t classes, const int64_t *offsets,
    const int64_t *positions, const REAL *scales, double one_scale, REAL *gradient, REAL *loss, int added
) {
    int64_t most = 0;
    for (int64_t row = 0; row < rows; row++) {
        if (target[row] < 0 || target[row] >= classes) return row;
        int64_t count = offsets[target[row] + 1] - offsets[target[row]];
        most = count > most ? count : most;
    }
    double *log_h = malloc((most + 1) * sizeof(double)), total = 0;
    if (!log_h) return -1;
    for (int64_t row = 0; row < rows; row++, theta += gates, gradient += gates) {
        const int64_t *parts = positions + offsets[target[row]];
        int64_t count = offsets[target[row] + 1] - offsets[target[row]];
        REAL scale = scales ? scales[row] : (REAL)one_scale;
        double mine = count == 1 ? NAME(one_part)(theta, parts[0], gates, scale, gradient)
                                 : NAME(several_parts)(theta, parts, count, gates, scale, gradient, log_h);
        total += scale * mine;
        if (!added) loss[row] = (REAL)(scale * mine);
    }
    if (added) *loss = (REAL)total;
    free(log_h);
    return rows;
}

/* A running sum that is as good as new at every block: what rounding takes away is kept beside it. */
INLINE void NAME(carry)(double *sum, double *rest, double more) {
    double next = *sum + more, part = next - *sum;
    if (isfinite(next)) *rest += (*sum - (next - part)) + (more - part);
    *sum = next;
}

/* Log of what the sigmoid gates of LANES arguments accept and reject. */
INLINE void NAME(log_gates)(const REAL *theta, REAL *restrict accept, REAL *restrict reject) {
    for (int l = 0; l < LANES; l++) {
        REAL t = theta[l], both = NAME(log1p)(NAME(exp)(-NAME(magnitude)(t)));
        accept[l] = (t < 0 ? t : 0) - both;
        reject[l] = (t < 0 ? 0 : -t) - both;
    }
}

/* LANES partition functions: accept, plus what all rejected before, which `sum` and `rest` hold together.
 * Four sums are formed at a time, by adding the neighbour and then the neighbour's neighbour. */
INLINE void NAME(add_up)(const REAL *accept, const REAL *reject, double *sum, double *rest, REAL *restrict out) {
    const four none = {0};
    four within = {0};
    for (int l = 0; l < LANES; l += 4) {
        four a, r;
        for (int i = 0; i < 4; i++) a[i] = accept[l + i], r[i] = reject[l + i];
        r += SHUFFLE(r, none, 4, 0, 1, 2);
        r += SHUFFLE(r, none, 4, 5, 0, 1);
        a += *sum + (*rest + (within + SHUFFLE(r, none, 4, 0, 1, 2)));
        within += SHUFFLE(r, none, 3, 3, 3, 3);
        for (int i = 0; i < 4; i++) out[l + i] = (REAL)a[i];
    }
    NAME(carry)(sum, rest, within[0]);
}

/* Log of the partition functions, (rows, gates + 1); from the arguments of sigmoid gates, or if theta is NULL from
 * the logs of any gates. */
FOR_EACH_PROCESSOR void NAME(punn_chain_partition)(
    const REAL *theta, const REAL *accept, const REAL *reject, int64_t rows, int64_t gates, REAL *out
) {
    int64_t whole = gates - gates % LANES, left = gates % LANES;
    for (int64_t row = 0; row < rows; row++, out += gates + 1) {
        REAL yes[LANES], no[LANES], some[LANES] = {0};
        const REAL *at = theta ? theta + row * gates : accept + row * gates;
        const REAL *beside = theta ? NULL : reject + row * gates;
        double sum = 0, rest = 0;
        for (int64_t first = 0; first < whole; first += LANES) {
            if (theta) {
                NAME(log_gates)(at + first, yes, no);
                NAME(add_up)(yes, no, &sum, &rest, out + first);
            } else {
                NAME(add_up)(at + first, beside + first, &sum, &rest, out + first);
            }
        }
        /* The lanes past the end reject nothing, so the last function is the first of them. */
        if (theta) {
            memcpy(some, at + whole, left * sizeof(REAL));
            NAME(log_gates)(some, yes, no);
        } else {
            memcpy(yes, at + whole, left * sizeof(REAL));
            memcpy(no, beside + whole, left * sizeof(REAL));
        }
        for (int64_t l = left; l < LANES; l++) yes[l] = no[l] = 0;
        NAME(add_up)(yes, no, &sum, &rest, some);
        memcpy(out + whole, some, (left + 1) * sizeof(REAL));
    }
}

/* Log of the sum of every class's functions, (rows, classes). Returns -1 without memory. */
FOR_EACH_PROCESSOR int64_t NAME(punn_chain_class_sums)(
    const REAL *restrict log_h, int64_t rows, int64_t k, const int64_t *class_of, int64_t classes, REAL *restrict out
) {
    REAL *h = malloc(k * sizeof(REAL));
    double *restrict total = malloc(classes * sizeof(double));
    /* Parts that take turns (0, 1, ..., 0, 1, ...) need no look at the map, and every turn is a plain vector. */
    int turns = k % classes == 0;
    for (int64_t i = 0; i < k && turns; i++) turns = class_of[i] == i % classes;
    for (int64_t row = 0; row < rows && h && total; row++, log_h += k, out += classes) {
        for (int64_t c = 0; c < classes; c++) out[c] = -INFINITY, total[c] = 0;
        if (turns) {
            for (int64_t i = 0; i < k; i += classes)
                for (int64_t c = 0; c < classes; c++) out[c] = log_h[i + c] > out[c] ? log_h[i + c] : out[c];
            for (int64_t i = 0; i < k; i += classes)
                for (int64_t c = 0; c < classes; c++)
                    total[c] += NAME(exp)(log_h[i + c] - (out[c] == -INFINITY ? 0 : out[c]));
        } else {
            for (int64_t i = 0; i < k; i++)
                out[class_of[i]] = log_h[i] > out[class_of[i]] ? log_h[i] : out[class_of[i]];
            for (int64_t i = 0; i < k; i++) h[i] = log_h[i] - (out[class_of[i]] == -INFINITY ? 0 : out[class_of[i]]);
            for (int64_t i = 0; i < k; i++) h[i] = NAME(exp)(h[i]);
            for (int64_t i = 0; i < k; i++) total[class_of[i]] += h[i];
        }
        for (int64_t c = 0; c < classes; c++) out[c] = (REAL)(out[c] + log_from_one(total[c]));
    }
    int64_t answer = h && total ? rows : -1;
    free(h);
    free(total);
    return answer;
}
