//go:build !dlbridge_shared

/* copy.c: copies of elements between two layouts.
 *
 * A copy is first brought into its simplest form: the dimensions are sorted by their stride in the destination, dimensions
 * that follow one another without a gap on both sides are merged, and a run without gaps on both sides becomes one larger
 * item. The innermost loop is then one of three:
 *
 *   runs        a single item, or items of at least LARGE_ITEM bytes: memcpy
 *   lines       source and destination have the smallest step along the same dimension: gathers, flips, fills
 *   planes      they have it along different dimensions: a transpose, in blocks of whole cache lines on both sides
 *
 * With AVX2, lines with small steps and most planes go through vector registers if their items have 1, 2, 4 or 8 bytes,
 * and transposes also if they have 16 (choose_avx2). All other copies use the plain loops, and so do copies for which
 * the plain loops are faster. The tests compare the results of both. Large copies use non-temporal stores, which bypass
 * the caches: the processor then does not first read a cache line that is written as a whole. */
#include "copy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#if HAS_AVX2
#include <cpuid.h>
#include <immintrin.h>
#endif

enum {
  LINE = 64,        /* bytes of a cache line */
  LARGE_ITEM = 64,  /* smallest size in bytes of an item that is copied as a run */
  SHORT_RUN = 1024, /* a run of fewer bytes does not bypass the caches */
  CHANNELS = 4,     /* the largest number of interleaved channels that shuffles separate or combine */
  BLOCK = 32,       /* rows and columns, in items, of a block of the plain transpose */

  /* The smallest size in bytes of a copy that bypasses the caches: of runs and lines, and of planes. The cache lines of a plane
   * lie far apart and evict each other sooner, so that bypassing the caches pays earlier. */
  STREAM_LINES = 32 << 20,
  STREAM_PLANES = 4 << 20
};

/* ---- the processor --------------------------------------------------------------------------- */

#if HAS_AVX2

static bool has_avx2;

/* Before clang 18, __builtin_cpu_supports does not know F16C. The instruction cpuid is too slow to run for every
 * copy. */
__attribute__((constructor)) static void ask_processor(void) {
  unsigned a, b, c, d;
  __builtin_cpu_init();
  has_avx2 = __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

bool dlbcore_has_avx2(void) { return has_avx2; }

#else

bool dlbcore_has_avx2(void) { return false; }

#endif

/* ---- runs ------------------------------------------------------------------------------------ */

#if HAS_AVX2

INLINE AVX2 __m256i load(const void *src) { return _mm256_loadu_si256((const __m256i *)src); }

INLINE AVX2 void store(char *dst, __m256i v) { _mm256_storeu_si256((__m256i *)(void *)dst, v); }

INLINE AVX2 void stream_store(char *dst, __m256i v) { _mm256_stream_si256((__m256i *)(void *)dst, v); }

INLINE AVX2 void stream_line(char *dst, const char *src) {
  __m256i low = load(src), high = load(src + 32);
  stream_store(dst, low);
  stream_store(dst + 32, high);
}

/* Copies groups of `pages` pages, one pair of cache lines from each page in turn. dst must be aligned to a cache line.
 * Returns the number of bytes copied; less than a group is left. */
INLINE AVX2 size_t stream_pages(char *dst, const char *src, size_t size, size_t pages) {
  enum { PAGE = 4096 };
  size_t done = 0;
  for (; size - done >= pages * PAGE; done += pages * PAGE) {
    for (size_t at = done; at < done + PAGE; at += 2 * LINE) {
      for (size_t page = 0; page < pages; page++) {
        stream_line(dst + page * PAGE + at, src + page * PAGE + at);
        stream_line(dst + page * PAGE + at + LINE, src + page * PAGE + at + LINE);
      }
    }
  }
  return done;
}

/* Intel's processors reach a higher memory bandwidth with four pages at once, AMD's with one. */
AVX2 static void stream_run(char *dst, const char *src, size_t size) {
  size_t head = -(uintptr_t)dst % LINE;
  if (head > size) head = size;
  memcpy(dst, src, head);
  dst += head, src += head, size -= head;
  size_t done = __builtin_cpu_is("amd") ? stream_pages(dst, src, size, 1) : stream_pages(dst, src, size, 4);
  for (; size - done >= LINE; done += LINE) stream_line(dst + done, src + done);
  memcpy(dst + done, src + done, size - done);
}

#endif

static void copy_run(char *dst, const char *src, size_t size, int stream) {
#if HAS_AVX2
  if (stream && size >= SHORT_RUN) {
    stream_run(dst, src, size);
    return;
  }
#endif
  (void)stream;
  memcpy(dst, src, size);
}

/* ---- plain loops ----------------------------------------------------------------------------- */

typedef dlbcore_axis axis;

static const axis ONCE = {1, 0, 0}; /* an axis of one element, which makes a line a plane */

/* Returns the part of an axis that begins at element `first` and has at most `most` elements. */
static axis part_of(const axis *a, int64_t first, int64_t most) {
  return (axis){a->size - first < most ? a->size - first : most, a->dst, a->src};
}

/* Copies a plane: lines along `inner`, one after another along `outer`. */
INLINE void plain_items(char *dst, const char *src, axis inner, axis outer, size_t item) {
  for (int64_t o = 0; o < outer.size; o++) {
    char *to = dst + o * outer.dst;
    const char *from = src + o * outer.src;
    for (int64_t i = 0; i < inner.size; i++) memcpy(to + i * inner.dst, from + i * inner.src, item);
  }
}

static void plain_plane(char *dst, const char *src, const axis *inner, const axis *outer, size_t item) {
#define ITEMS(n)                              \
  case n:                                     \
    plain_items(dst, src, *inner, *outer, n); \
    return
  switch (item) {
    ITEMS(1);
    ITEMS(2);
    ITEMS(3);
    ITEMS(4);
    ITEMS(6);
    ITEMS(8);
    ITEMS(12);
    ITEMS(16);
    ITEMS(32);
    default: plain_items(dst, src, *inner, *outer, item);
  }
#undef ITEMS
}

/* The plain transpose. The blocks of both sides fit into the cache together. */
static void plain_blocks(char *dst, const char *src, const axis *inner, const axis *outer, size_t item) {
  for (int64_t i = 0; i < inner->size; i += BLOCK) {
    axis some = part_of(inner, i, BLOCK);
    for (int64_t o = 0; o < outer->size; o += BLOCK) {
      axis more = part_of(outer, o, BLOCK);
      plain_plane(dst + i * inner->dst + o * outer->dst, src + i * inner->src + o * outer->src, &some, &more, item);
    }
  }
}

/* ---- lines by shuffles ----------------------------------------------------------------------- */

/* Byte shuffles for one of two operations on groups of `step` vectors. A gather takes every step-th item out of the
 * vectors; a weave interleaves the items of all vectors. A vector has 16 bytes, because AVX2 shuffles do not cross the
 * two halves of a register. A register holds the vectors of two groups. */
typedef struct shuffles {
  int step; /* in items: 1 to CHANNELS */
  int back; /* gather from the last item to the first */
  uint8_t mask[CHANNELS][CHANNELS][32];
} shuffles;

#if HAS_AVX2

/* mask[0][v] selects the bytes of vector v for the gathered vector, and their places in it. */
static void make_gather(shuffles *s, int step, int back, size_t item) {
  s->step = step;
  s->back = back;
  memset(s->mask[0], 0x80, sizeof s->mask[0]);
  for (int to = 0; to < 16; to++) {
    int n = to / (int)item, byte = to % (int)item;
    int from = n * step * (int)item + byte;
    if (back) from = 16 * step - (n * step + 1) * (int)item + byte;
    s->mask[0][from / 16][to] = s->mask[0][from / 16][16 + to] = (uint8_t)(from % 16);
  }
}

/* mask[w][v] selects the bytes of line v's vector for woven vector w, and their places in it. */
static void make_weave(shuffles *s, int step, size_t item) {
  s->step = step;
  s->back = 0;
  memset(s->mask, 0x80, sizeof s->mask);
  for (int to = 0; to < 16 * step; to++) {
    int n = to / (int)item, byte = to % (int)item;
    uint8_t *mask = s->mask[to / 16][n % step];
    mask[to % 16] = mask[16 + to % 16] = (uint8_t)(n / step * (int)item + byte);
  }
}

INLINE AVX2 __m256i load_two(const char *low, const char *high) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)low)),
      _mm_loadu_si128((const __m128i *)(const void *)high), 1);
}

/* Gathers from two groups; the second begins `next` bytes after the first. */
INLINE AVX2 __m256i gather_two(const char *from, int64_t next, const __m256i *mask, int step) {
  __m256i all = _mm256_shuffle_epi8(load_two(from, from + next), mask[0]);
  for (int v = 1; v < step; v++) {
    __m256i part = load_two(from + 16 * v, from + next + 16 * v);
    all = _mm256_or_si256(all, _mm256_shuffle_epi8(part, mask[v]));
  }
  return all;
}

/* Prefetches cache lines of the group that comes `ahead` groups later. */
INLINE void fetch(const char *from, int64_t next, int ahead, int lines) {
  for (int line = 0; line < lines; line++) {
    __builtin_prefetch(from + ahead * next + (next < 0 ? -line : line) * LINE);
  }
}

/* Gathers from two groups at a time while at least one item remains after them. The condition keeps loads inside the
 * source: a group ends where the first item of the next group begins, so the last group may end after the source.
 * Non-temporal stores write whole, aligned cache lines. Returns the number of items copied. */
INLINE AVX2 int64_t gather_groups(char *dst, const char *src, int64_t count, size_t item,
                                  const shuffles *s, int step, int stream) {
  __m256i mask[CHANNELS];
  for (int v = 0; v < step; v++) mask[v] = load(s->mask[0][v]);
  int64_t each = 32 / (int64_t)item, done = 0, next = 16 * step;
  const char *from = src;
  if (s->back) {
    from += (int64_t)item - next;
    next = -next;
  }
  for (; stream && count - done > 2 * each; done += 2 * each, from += 4 * next, dst += LINE) {
    fetch(from, next, 32, step);
    __m256i low = gather_two(from, next, mask, step);
    __m256i high = gather_two(from + 2 * next, next, mask, step);
    stream_store(dst, low);
    stream_store(dst + 32, high);
  }
  for (; count - done > each; done += each, from += 2 * next, dst += 32) {
    if (step > 2) fetch(from, next, 64, 2); /* for smaller steps the processor's own prefetching suffices */
    store(dst, gather_two(from, next, mask, step));
  }
  return done;
}

/* Copies every step-th item. Returns how many were copied. */
AVX2 static int64_t gather(char *dst, const char *src, int64_t count, size_t item,
                           const shuffles *s, int stream) {
  switch (s->step) {
    case 1: return gather_groups(dst, src, count, item, s, 1, stream);
    case 2: return gather_groups(dst, src, count, item, s, 2, stream);
    case 3: return gather_groups(dst, src, count, item, s, 3, stream);
    case 4: return gather_groups(dst, src, count, item, s, 4, stream);
    default: return 0;
  }
}

/* The low halves of the `step` woven registers are the first group of the output, and the high halves are the second.
 * Returns vectors `group` and `group` + 1 of this output as one register. */
INLINE AVX2 __m256i next_two(const __m256i *woven, int step, int group) {
  int second = group + 1;
  if (second < step) return _mm256_permute2x128_si256(woven[group], woven[second], 0x20);
  if (group < step) return _mm256_permute2x128_si256(woven[group], woven[0], 0x30);
  return _mm256_permute2x128_si256(woven[group - step], woven[second - step], 0x31);
}

INLINE AVX2 int64_t weave_groups(char *dst, const char *src, int64_t line, int64_t count,
                                 size_t item, const shuffles *s, int step, int stream) {
  __m256i mask[CHANNELS][CHANNELS];
  for (int w = 0; w < step; w++) {
    for (int v = 0; v < step; v++) mask[w][v] = load(s->mask[w][v]);
  }
  int64_t each = 32 / (int64_t)item, done = 0;
  for (; count - done >= each; done += each, src += 32) {
    __m256i in[CHANNELS], woven[CHANNELS];
    for (int v = 0; v < step; v++) in[v] = load(src + v * line);
    for (int w = 0; w < step; w++) {
      woven[w] = _mm256_shuffle_epi8(in[0], mask[w][0]);
      for (int v = 1; v < step; v++) {
        woven[w] = _mm256_or_si256(woven[w], _mm256_shuffle_epi8(in[v], mask[w][v]));
      }
    }
    for (int w = 0; w < step; w++, dst += 32) {
      __m256i two = next_two(woven, step, 2 * w);
      if (stream) stream_store(dst, two);
      else store(dst, two);
    }
  }
  return done;
}

/* Interleaves the items of lines that lie `line` bytes apart. Returns how many items of each line were copied. */
AVX2 static int64_t weave(char *dst, const char *src, int64_t line, int64_t count, size_t item,
                          const shuffles *s, int stream) {
#define STEP(n)                                                            \
  case n:                                                                  \
    if (stream) return weave_groups(dst, src, line, count, item, s, n, 1); \
    return weave_groups(dst, src, line, count, item, s, n, 0)
  switch (s->step) {
    STEP(2);
    STEP(3);
    STEP(4);
    default: return 0;
  }
#undef STEP
}

#endif

/* ---- tiles ----------------------------------------------------------------------------------- */

#if HAS_AVX2

/* A tile is read as 16 bytes from each of 32/item rows, and written as 32 bytes to each of 16/item columns. Row r goes
 * into the low half of a register, and row r + 16/item into the high half. Unpacking register i with register i + n/2,
 * log2 n times, transposes both halves. */
#define TILE(name, item, n, low, high)                                                          \
  INLINE AVX2 void name(char *dst, int64_t column, const char *src, int64_t row) {              \
    __m256i a[n], b[n];                                                                         \
    _Pragma("GCC unroll 16") for (int i = 0; i < n; i++)                                        \
        a[i] = load_two(src + i * row, src + (i + n) * row);                                    \
    _Pragma("GCC unroll 4") for (int stage = 1; stage < n; stage *= 2) {                        \
      _Pragma("GCC unroll 8") for (int i = 0; i < n / 2; i++) {                                 \
        b[2 * i] = low(a[i], a[i + n / 2]);                                                     \
        b[2 * i + 1] = high(a[i], a[i + n / 2]);                                                \
      }                                                                                         \
      _Pragma("GCC unroll 16") for (int i = 0; i < n; i++) a[i] = b[i];                         \
    }                                                                                           \
    _Pragma("GCC unroll 16") for (int i = 0; i < n; i++) store(dst + i * column, a[i]); \
  }
TILE(tile1, 1, 16, _mm256_unpacklo_epi8, _mm256_unpackhi_epi8)
TILE(tile2, 2, 8, _mm256_unpacklo_epi16, _mm256_unpackhi_epi16)
TILE(tile4, 4, 4, _mm256_unpacklo_epi32, _mm256_unpackhi_epi32)
TILE(tile8, 8, 2, _mm256_unpacklo_epi64, _mm256_unpackhi_epi64)
#undef TILE

INLINE AVX2 void tile16(char *dst, int64_t column, const char *src, int64_t row) {
  (void)column;
  store(dst, load_two(src, src + row));
}

typedef void tile_function(char *dst, int64_t column, const char *src, int64_t row);

/* The plane is transposed in patches. The tiles of a patch are written to a buffer, `block`. The buffer is written to
 * the destination column by column, so that few cache lines of the destination are written at the same time. A band has
 * two or eight rows of patches. Within a band, patches are done from top to bottom, and then from left to right, while
 * the source's lines are still in the cache. */
enum {
  PATCH = 2 * LINE,    /* bytes of a patch's column, and of its row */
  PITCH = LINE + PATCH, /* bytes from one column of the buffer to the next; the first LINE bytes hold the end of the patch above */
  NARROW = 16,          /* columns of a patch, or fewer: as many as the buffer on the stack has room for */
  LARGE_PLANE = 1 << 18, /* bytes of a plane that is worth a buffer in the heap */
  SMALL_PLANE = 1 << 18, /* bytes of a plane that the L2 cache holds on both sides */
  EVICTING = 2048        /* rows at a distance of a multiple of so many bytes share two sets of lines of the L1 cache */
};

/* Writes a patch with non-temporal stores, in whole cache lines, wherever its columns begin. The rest of a column, less
 * than a cache line, stays in the buffer for the patch below. `first` and `last` say whether the patch is the band's
 * first or last. */
INLINE AVX2 void stream_patch(char *dst, int64_t column, char *block, int64_t columns, int64_t size,
                              int first, int last) {
  for (int64_t c = 0; c < columns; c++, dst += column, block += PITCH) {
    int64_t over = (int64_t)((uintptr_t)dst % LINE), at = -over;
    if (first && over > 0) {
      at = LINE - over < size ? LINE - over : size;
      memcpy(dst, block + LINE, (size_t)at);
    }
    for (; at + LINE <= size; at += LINE) stream_line(dst + at, block + LINE + at);
    if (last) memcpy(dst + at, block + LINE + at, (size_t)(size - at));
    else if (over > 0) memcpy(block, block + size, LINE);
  }
}

INLINE AVX2 void store_patch(char *dst, int64_t column, const char *block, int64_t columns,
                             int64_t size) {
  for (int64_t c = 0; c < columns; c++, dst += column, block += PITCH) {
    for (int64_t at = 0; at < size; at += 32) {
      store(dst + at, _mm256_load_si256((const __m256i *)(const void *)(block + LINE + at)));
    }
  }
}

INLINE AVX2 void patches(char *dst, int64_t column, const char *src, int64_t row, int64_t rows,
                         int64_t columns, int item, int stream, tile_function *tile) {
  char narrow[NARROW * PITCH] __attribute__((aligned(LINE))), *block = narrow, *large = NULL;
  int wide = 16 / item, high = 32 / item;
  int64_t side = PATCH / item, band = 2 * side, some = side < NARROW ? side : NARROW;
  if (stream && item <= 2 && rows * columns >= LARGE_PLANE) { /* such planes are up to a fifth faster in wide patches */
    large = aligned_alloc(LINE, (size_t)(side * PITCH));
    if (large != NULL) block = large, some = side;
  }
  __asm__("" : "+r"(some)); /* gcc -O3 would unroll loops by it, which takes a quarter longer for small planes */
  if (stream && (column % LINE != 0 || (uintptr_t)dst % LINE != 0)) band = 8 * side;
  for (int64_t top = 0; top < rows; top += band) {
    int64_t bottom = rows - top < band ? rows : top + band;
    for (int64_t left = 0; left < columns; left += some) {
      int64_t across = columns - left < some ? columns - left : some;
      for (int64_t at = top; at < bottom; at += side) {
        int64_t down = bottom - at < side ? bottom - at : side;
        const char *from = src + at * row + left * item;
        char *to = dst + left * column + at * item;
        for (int64_t c = 0; c < across && !stream; c++) {
          __builtin_prefetch(to + c * column, 1);
          __builtin_prefetch(to + c * column + LINE, 1);
          __builtin_prefetch(to + c * column + down * item - 1, 1);
        }
        for (int64_t c = 0; c < across; c += wide) {
          for (int64_t r = 0; r < down; r += high) {
            tile(block + c * PITCH + LINE + r * item, PITCH, from + r * row + c * item, row);
          }
        }
        if (stream) {
          stream_patch(to, column, block, across, down * item, at == top, at + side >= bottom);
        } else {
          store_patch(to, column, block, across, down * item);
        }
      }
    }
  }
  free(large);
}

/* Transposes a plane: item (r, c) is at src + r*row + c*item and goes to dst + r*item + c*column. The rows must fill whole
 * cache lines of the destination, and the columns whole tiles. */
AVX2 static void transpose(char *dst, int64_t column, const char *src, int64_t row, int64_t rows,
                           int64_t columns, size_t item, int stream) {
#define ITEM(n)                                                                   \
  case n:                                                                         \
    if (stream) patches(dst, column, src, row, rows, columns, n, 1, tile##n);     \
    else patches(dst, column, src, row, rows, columns, n, 0, tile##n);            \
    return
  switch (item) {
    ITEM(1);
    ITEM(2);
    ITEM(4);
    ITEM(8);
    ITEM(16);
  }
#undef ITEM
}

#endif

/* ---- planes and lines ------------------------------------------------------------------------ */


/* A copy in its simplest form. */
typedef struct plan plan;
struct plan {
  void (*copy)(const plan *p, char *dst, const char *src); /* the innermost loop, along `fast` and `other` */
  axis fast;                                               /* the fastest axis of the destination */
  axis other;                                              /* in a plane: the fastest axis of the source */
  size_t item;
  int stream; /* bypass the caches */
  int32_t ndim;
  axis outer[CORE_AXES_MAX];
  shuffles shuffles;
};

static void copy_runs(const plan *p, char *dst, const char *src) {
  for (int64_t i = 0; i < p->fast.size; i++) {
    copy_run(dst + i * p->fast.dst, src + i * p->fast.src, p->item, p->stream);
  }
}

static void copy_line(const plan *p, char *dst, const char *src) {
  plain_plane(dst, src, &p->fast, &ONCE, p->item);
}

static void copy_plane(const plan *p, char *dst, const char *src) {
  plain_blocks(dst, src, &p->fast, &p->other, p->item);
}

#if HAS_AVX2

static void gather_line(const plan *p, char *dst, const char *src, int64_t count) {
  size_t item = p->item;
  int64_t step = p->fast.src, size = (int64_t)item;
  /* Streaming stores are faster for every step except 3, for which ordinary stores are faster where the system uses
   * large pages. */
  int stream = p->stream && p->shuffles.step != 3 && (uintptr_t)dst % item == 0;
  if (stream) {
    int64_t head = (int64_t)(-(uintptr_t)dst % LINE / item);
    if (head > count) head = count;
    plain_plane(dst, src, &(axis){head, size, step}, &ONCE, item);
    dst += head * size, src += head * step, count -= head;
  }
  int64_t done = gather(dst, src, count, item, &p->shuffles, stream);
  plain_plane(dst + done * size, src + done * step, &(axis){count - done, size, step}, &ONCE, item);
}

static void gather_lines(const plan *p, char *dst, const char *src) {
  gather_line(p, dst, src, p->fast.size);
}

/* Separates interleaved channels: gathers a part of each channel in turn while that part of the source is in the cache. */
static void gather_channels(const plan *p, char *dst, const char *src) {
  int64_t some = 1 << 14;
  some /= p->fast.src;
  some -= some % LINE;
  for (int64_t i = 0; i < p->fast.size; i += some) {
    for (int64_t o = 0; o < p->other.size; o++) {
      gather_line(p, dst + i * p->fast.dst + o * p->other.dst,
                  src + i * p->fast.src + o * p->other.src, part_of(&p->fast, i, some).size);
    }
  }
}

/* Interleaves channels. Non-temporal stores need an aligned start, so they are used only if one of the first 64 groups, each
 * with an item of every channel, begins a cache line. The plain loop copies the groups before it. */
static void weave_channels(const plan *p, char *dst, const char *src) {
  int64_t each = p->other.dst, size = (int64_t)p->item, count = p->other.size, head = 0;
  int64_t most = p->stream ? (count < LINE ? count : LINE) : 0;
  while (head < most && ((uintptr_t)dst + (uintptr_t)(head * each)) % LINE != 0) head++;
  int stream = head < most;
  if (!stream) head = 0;
  plain_plane(dst, src, &p->fast, &(axis){head, each, size}, p->item);
  int64_t done = head + weave(dst + head * each, src + head * size, p->fast.src, count - head, p->item,
                              &p->shuffles, stream);
  plain_plane(dst + done * each, src + done * size, &p->fast, &(axis){count - done, each, size}, p->item);
}

static void transpose_plane(const plan *p, char *dst, const char *src) {
  size_t item = p->item;
  axis fast = p->fast, other = p->other;
  int64_t rows = fast.size - fast.size % (int64_t)(LINE / item);
  int64_t columns = other.size - other.size % (int64_t)(16 / item);
  transpose(dst, other.dst, src, fast.src, rows, columns, item, p->stream);
  plain_blocks(dst + columns * other.dst, src + columns * other.src, &(axis){rows, fast.dst, fast.src},
               &(axis){other.size - columns, other.dst, other.src}, item);
  plain_blocks(dst + rows * fast.dst, src + rows * fast.src, &(axis){fast.size - rows, fast.dst, fast.src}, &other, item);
}

/* Reports whether the plain loops transpose a plane faster than tiles: a plane whose columns fill no patch, or a small
 * plane of large items. They are not faster if the rows of the source evict each other from the L1 cache. */
static int plain_is_faster(const plan *p) {
  int64_t item = (int64_t)p->item, size = p->fast.size * item;
  if (item < 4 || p->stream || p->fast.src % EVICTING == 0) return 0;
  return size < PATCH || (item > 4 && size * p->other.size <= SMALL_PLANE);
}

/* Replaces the innermost loop by a loop with shuffles or tiles, if such a loop applies and is faster. */
static void choose_avx2(plan *p) {
  int64_t item = (int64_t)p->item;
  int shuffled = item == 1 || item == 2 || item == 4 || item == 8;
  if (p->copy != copy_line && p->copy != copy_plane) return;
  if (p->fast.dst != item || !(shuffled || item == 16)) return;
  int64_t step = p->fast.src / item;
  int even = p->fast.src % item == 0 && shuffled;
  if (item == 8 && dlbcore_magnitude(step) == CHANNELS) return; /* two items in a cache line: the plain loops are faster */
  if (p->copy == copy_line) {
    if (even && step != 0 && -CHANNELS <= step && step <= CHANNELS) {
      make_gather(&p->shuffles, (int)(step < 0 ? -step : step), step < 0, p->item);
      p->copy = gather_lines;
    }
    return;
  }
  if (p->other.src != item) return;
  if (even && 0 < step && step <= CHANNELS && p->other.size <= CHANNELS) {
    make_gather(&p->shuffles, (int)step, 0, p->item);
    p->copy = gather_channels;
  } else if (shuffled && p->fast.size <= CHANNELS && p->other.dst == p->fast.size * item) {
    make_weave(&p->shuffles, (int)p->fast.size, p->item);
    p->copy = weave_channels;
  } else if (!plain_is_faster(p)) {
    p->copy = transpose_plane;
  }
}

#endif

/* Reports whether axis a is slower than axis b. */
static int slower(axis a, axis b) {
  int64_t da = dlbcore_magnitude(a.dst), db = dlbcore_magnitude(b.dst);
  return da != db ? da > db : dlbcore_magnitude(a.src) > dlbcore_magnitude(b.src);
}

int32_t dlbcore_axes(dlbcore_axis *axes, int64_t *dst_start, const int64_t *dst_strides,
                     int64_t *src_start, const int64_t *src_strides, const int64_t *shape,
                     int32_t ndim) {
  int32_t n = 0;
  for (int32_t d = 0; d < ndim; d++) {
    if (shape[d] <= 0) return -1;
  }
  for (int32_t d = 0; d < ndim; d++) {
    if (shape[d] == 1) continue;
    if (n == CORE_AXES_MAX) return -1; /* no tensor has so many elements */
    axis a = {shape[d], dst_strides[d], src_strides[d]};
    if (a.dst < 0) { /* start from the other end, so that the step is positive */
      *dst_start += (a.size - 1) * a.dst;
      *src_start += (a.size - 1) * a.src;
      a.dst = -a.dst;
      a.src = -a.src;
    }
    int32_t at = n++;
    for (; at > 0 && slower(a, axes[at - 1]); at--) axes[at] = axes[at - 1];
    axes[at] = a;
  }
  int32_t kept = 0;
  for (int32_t d = 0; d < n; d++) {
    axis a = axes[d];
    if (kept > 0 && axes[kept - 1].dst == a.size * a.dst && axes[kept - 1].src == a.size * a.src) {
      a.size *= axes[--kept].size;
    }
    axes[kept++] = a;
  }
  return kept;
}

/* Chooses the innermost loop, and removes its axes from p->outer. */
static void choose(plan *p) {
  if (p->ndim > 0) {
    axis a = p->outer[p->ndim - 1];
    if (a.dst == (int64_t)p->item && a.src == a.dst) {
      p->item *= (size_t)a.size;
      p->ndim--;
    }
  }
  p->copy = p->ndim == 0 || p->item >= LARGE_ITEM ? copy_runs : copy_line;
  p->fast = p->ndim == 0 ? ONCE : p->outer[--p->ndim];
  int32_t other = -1;
  int64_t least = dlbcore_magnitude(p->fast.src);
  for (int32_t d = p->ndim - 1; d >= 0; d--) {
    int64_t step = dlbcore_magnitude(p->outer[d].src);
    if (step != 0 && step < least) {
      least = step;
      other = d;
    }
  }
  if (other >= 0 && p->copy == copy_line) {
    p->other = p->outer[other];
    memmove(&p->outer[other], &p->outer[other + 1],
            (size_t)(p->ndim - 1 - other) * sizeof p->outer[0]);
    p->ndim--;
    p->copy = copy_plane;
  }
}

void dlbcore_copy_part(bool plain, size_t whole, char *dst, const int64_t *dst_strides,
                       const char *src, const int64_t *src_strides, const int64_t *shape, int32_t ndim,
                       size_t itemsize) {
  plan p;
  p.item = itemsize;
  int64_t dst_start = 0, src_start = 0, index[CORE_AXES_MAX];
  p.ndim = dlbcore_axes(p.outer, &dst_start, dst_strides, &src_start, src_strides, shape, ndim);
  if (p.ndim < 0) return;
  choose(&p);
  plain = plain || !dlbcore_has_avx2();
  p.stream = !plain && whole >= (p.copy == copy_plane ? STREAM_PLANES : STREAM_LINES);
#if HAS_AVX2
  if (!plain) choose_avx2(&p);
#endif
  memset(index, 0, (size_t)p.ndim * sizeof index[0]);
  int64_t dst_at = dst_start, src_at = src_start; /* stay in registers: only inlined code gets their addresses */
  do {
    p.copy(&p, dst + dst_at, src + src_at);
  } while (dlbcore_next(index, p.outer, p.ndim, &dst_at, &src_at));
#if HAS_AVX2
  if (p.stream) _mm_sfence();
#endif
}

void dlbcore_copy(void *dst, const int64_t *dst_strides, const void *src, const int64_t *src_strides,
                  const int64_t *shape, int32_t ndim, size_t itemsize) {
  dlbcore_copy_part(false, dlbcore_whole(itemsize, shape, ndim), dst, dst_strides, src, src_strides, shape, ndim, itemsize);
}

void dlbcore_copy_into(void *dst, const DLTensor *t, const dlbcore_extent *extent) {
  if (extent->count == 0) return;
  const char *src = (const char *)t->data + t->byte_offset;
  if (extent->row_major) { /* packed elements too */
    dlbcore_copy(dst, NULL, src, NULL, NULL, 0, (size_t)extent->nbytes);
    return;
  }
  int64_t item = ((int64_t)t->dtype.bits * t->dtype.lanes + 7) / 8;
  int64_t sizes[CORE_AXES_MAX], to[CORE_AXES_MAX], from[CORE_AXES_MAX], step = item;
  int32_t n = 0;
  for (int32_t d = t->ndim - 1; d >= 0; d--) { /* dlbcore_copy takes dimensions in any order */
    if (t->shape[d] == 1) continue; /* its stride has no meaning */
    sizes[n] = t->shape[d];
    to[n] = step;
    from[n++] = t->strides[d] * item;
    step *= t->shape[d]; /* does not overflow: dlbcore_check_tensor has checked nbytes */
  }
  dlbcore_copy(dst, to, src, from, sizes, n, (size_t)item);
}

dlbcore_status dlbcore_copy_compact(dlbcore_share **out, const DLTensor *t, uint64_t flags, char *message,
                              size_t size) {
  dlbcore_extent extent;
  dlbcore_status status = dlbcore_check_tensor(t, flags, &extent, message, size);
  if (status != CORE_OK) return status;
  if (message == NULL) size = 0;
  if (!dlbcore_host_readable(t->device.device_type)) {
    snprintf(message, size, "the memory is on device type %d, which the host cannot read", t->device.device_type);
    return CORE_ERR_DEVICE;
  }
  dlbcore_share *share = dlbcore_share_alloc((size_t)extent.nbytes, 0);
  if (share == NULL) {
    snprintf(message, size, "no memory for %" PRId64 " bytes", extent.nbytes);
    return CORE_ERR_MEMORY;
  }
  *out = share;
  dlbcore_copy_into(share->data, t, &extent);
  return CORE_OK;
}
