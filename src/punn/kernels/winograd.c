/* Winograd's convolution of 3 x 3 pixels: the linear maps before and after its products, and their transposes.
 *
 * A picture is cut into tiles of 4 x 4 pixels. Six points of a line determine what a filter of three pixels makes of
 * it, four pixels, so that a tile of the answer needs 36 products instead of 144. Lavin and Gray (2016) give the
 * three maps; that of the filters is small, and Python's. Pictures have the shape (n, height, width, channels),
 * tiles (36, n * rows * columns, channels).
 */
#include <string.h>

#include "stripes.h"

/* Python looks at this first: a library that was left over from another version is not used. */
int punn_winograd_version(void) { return 1; }

/* Channels that are worked on together: 36 times as many floats, twice, stay in the nearest cache. */
#define CHANNELS 64
#define POINTS 6
#define PIXELS 4

/* Of a line of numbers that are `from` apart makes one of numbers that are `to` apart, for n channels. The names that
 * end in _back are the transposed maps, with x and y as they are in the other direction. */
typedef void map(const float *restrict x, int64_t from, float *restrict y, int64_t to, int64_t n);

INLINE void pixels_to_points(const float *restrict x, int64_t from, float *restrict y, int64_t to, int64_t n) {
    for (int64_t c = 0; c < n; c++) {
        float x0 = x[c], x1 = x[from + c], x2 = x[2 * from + c];
        float x3 = x[3 * from + c], x4 = x[4 * from + c], x5 = x[5 * from + c];
        float even = x4 - 4 * x2, odd = x3 - 4 * x1, even2 = x4 - x2, odd2 = 2 * (x3 - x1);
        y[c] = 4 * x0 - 5 * x2 + x4;
        y[to + c] = even + odd;
        y[2 * to + c] = even - odd;
        y[3 * to + c] = even2 + odd2;
        y[4 * to + c] = even2 - odd2;
        y[5 * to + c] = 4 * x1 - 5 * x3 + x5;
    }
}

INLINE void pixels_to_points_back(const float *restrict y, int64_t from, float *restrict x, int64_t to, int64_t n) {
    for (int64_t c = 0; c < n; c++) {
        float y0 = y[c], y1 = y[from + c], y2 = y[2 * from + c];
        float y3 = y[3 * from + c], y4 = y[4 * from + c], y5 = y[5 * from + c];
        float even = y1 + y2, odd = y1 - y2, even2 = y3 + y4, odd2 = 2 * (y3 - y4);
        x[c] = 4 * y0;
        x[to + c] = 4 * (y5 - odd) - odd2;
        x[2 * to + c] = -5 * y0 - 4 * even - even2;
        x[3 * to + c] = odd + odd2 - 5 * y5;
        x[4 * to + c] = y0 + even + even2;
        x[5 * to + c] = y5;
    }
}

INLINE void points_to_pixels(const float *restrict x, int64_t from, float *restrict y, int64_t to, int64_t n) {
    for (int64_t c = 0; c < n; c++) {
        float x0 = x[c], x1 = x[from + c], x2 = x[2 * from + c];
        float x3 = x[3 * from + c], x4 = x[4 * from + c], x5 = x[5 * from + c];
        float even = x1 + x2, odd = x1 - x2, even2 = x3 + x4, odd2 = x3 - x4;
        y[c] = x0 + even + even2;
        y[to + c] = odd + 2 * odd2;
        y[2 * to + c] = even + 4 * even2;
        y[3 * to + c] = odd + 8 * odd2 + x5;
    }
}

INLINE void points_to_pixels_back(const float *restrict y, int64_t from, float *restrict x, int64_t to, int64_t n) {
    for (int64_t c = 0; c < n; c++) {
        float y0 = y[c], y1 = y[from + c], y2 = y[2 * from + c], y3 = y[3 * from + c];
        float even = y0 + y2, odd = y1 + y3, even2 = y0 + 4 * y2, odd2 = 2 * y1 + 8 * y3;
        x[c] = y0;
        x[to + c] = even + odd;
        x[2 * to + c] = even - odd;
        x[3 * to + c] = even2 + odd2;
        x[4 * to + c] = even2 - odd2;
        x[5 * to + c] = y3;
    }
}

typedef struct {
    float *pictures, *tiles;
    int64_t n, height, width, channels;
} winograd;

/* Where tiles are: `size` pixels on each side, the first one `before` pixels before the tile of the answer. */
typedef struct {
    int64_t size, before;
} window;

#define ROWS(w) ((w->height + PIXELS - 1) / PIXELS)
#define COLUMNS(w) ((w->width + PIXELS - 1) / PIXELS)

/* The first channel of a pixel of a tile; NULL outside of the picture. */
INLINE float *pixel(const winograd *w, int64_t picture, int64_t y, int64_t x) {
    if (y < 0 || y >= w->height || x < 0 || x >= w->width) return NULL;
    return w->pictures + ((picture * w->height + y) * w->width + x) * w->channels;
}

/* Pictures to tiles: what is outside of a picture is 0. */
INLINE void to_tiles(const winograd *w, int64_t picture, window seen, map *along) {
    float pixels[POINTS * POINTS * CHANNELS], half[POINTS * POINTS * CHANNELS];
    int64_t s = seen.size, tile = picture * ROWS(w) * COLUMNS(w), apart = w->n * ROWS(w) * COLUMNS(w) * w->channels;
    for (int64_t top = -seen.before; top + seen.before < w->height; top += PIXELS)
        for (int64_t left = -seen.before; left + seen.before < w->width; left += PIXELS, tile++)
            for (int64_t c = 0; c < w->channels; c += CHANNELS) {
                int64_t many = w->channels - c < CHANNELS ? w->channels - c : CHANNELS;
                float *points = w->tiles + tile * w->channels + c;
                for (int64_t i = 0; i < s * s; i++) {
                    const float *from = pixel(w, picture, top + i / s, left + i % s);
                    if (from) memcpy(pixels + i * CHANNELS, from + c, many * sizeof(float));
                    else memset(pixels + i * CHANNELS, 0, many * sizeof(float));
                }
                for (int64_t i = 0; i < s; i++)
                    along(pixels + i * CHANNELS, s * CHANNELS, half + i * CHANNELS, s * CHANNELS, many);
                for (int64_t i = 0; i < POINTS; i++)
                    along(half + i * s * CHANNELS, CHANNELS, points + i * POINTS * apart, apart, many);
            }
}

/* Tiles to pictures: where windows overlap, their pixels are added. */
INLINE void from_tiles(const winograd *w, int64_t picture, window seen, map *along) {
    float pixels[POINTS * POINTS * CHANNELS], half[POINTS * POINTS * CHANNELS];
    int64_t s = seen.size, tile = picture * ROWS(w) * COLUMNS(w), apart = w->n * ROWS(w) * COLUMNS(w) * w->channels;
    int overlap = seen.size > PIXELS;
    if (overlap) memset(pixel(w, picture, 0, 0), 0, w->height * w->width * w->channels * sizeof(float));
    for (int64_t top = -seen.before; top + seen.before < w->height; top += PIXELS)
        for (int64_t left = -seen.before; left + seen.before < w->width; left += PIXELS, tile++)
            for (int64_t c = 0; c < w->channels; c += CHANNELS) {
                int64_t many = w->channels - c < CHANNELS ? w->channels - c : CHANNELS;
                float *points = w->tiles + tile * w->channels + c;
                for (int64_t i = 0; i < POINTS; i++)
                    along(points + i * POINTS * apart, apart, half + i * s * CHANNELS, CHANNELS, many);
                for (int64_t i = 0; i < s; i++)
                    along(half + i * CHANNELS, s * CHANNELS, pixels + i * CHANNELS, s * CHANNELS, many);
                for (int64_t i = 0; i < s * s; i++) {
                    float *to = pixel(w, picture, top + i / s, left + i % s);
                    for (int64_t j = 0; to && j < many; j++)
                        to[c + j] = (overlap ? to[c + j] : 0) + pixels[i * CHANNELS + j];
                }
            }
}

static const window SEEN = {POINTS, 1}, ANSWER = {PIXELS, 0};

#define FUNCTION(name, move, seen, along)                                                                              \
    FOR_EACH_PROCESSOR static int name##_pictures(const void *job, int64_t first, int64_t end) {                       \
        for (int64_t picture = first; picture < end; picture++) move(job, picture, seen, along);                       \
        return 1;                                                                                                      \
    }                                                                                                                  \
    void punn_winograd_##name(float *pictures, float *tiles, int64_t n, int64_t height, int64_t width,                 \
                              int64_t channels, int64_t threads) {                                                     \
        winograd w = {pictures, tiles, n, height, width, channels};                                                    \
        in_stripes(name##_pictures, &w, n, threads);                                                                   \
    }

FUNCTION(take_apart, to_tiles, SEEN, pixels_to_points)
FUNCTION(take_apart_transposed, from_tiles, SEEN, pixels_to_points_back)
FUNCTION(put_together, from_tiles, ANSWER, points_to_pixels)
FUNCTION(put_together_transposed, to_tiles, ANSWER, points_to_pixels_back)
