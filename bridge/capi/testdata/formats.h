/* formats.h: the formats of the library, for programs that do the same with each of them. A new format adds its samples. */
#ifndef TEST_FORMATS_H_
#define TEST_FORMATS_H_

#include "../formats.h"
#include "check.h"

#define BYTES(text) {text, sizeof(text) - 1}

typedef struct {
  const char *name;
  int32_t (*decode)(dlb_value *out, const dlb_frame *frame, uint64_t options, dlb_error *error);
  int32_t (*encode)(size_t *out, void *data, size_t room, const dlb_value *value, uint64_t options, dlb_error *error);
  /* NULL for a format without streams, and without rules. */
  int32_t (*decode_batch)(dlb_value *out, size_t count, size_t *next, const dlb_frame *frame, size_t offset, uint64_t options,
                          dlb_error *error);
  int32_t (*check)(dlb_bytes rules, const dlb_value *value, dlb_error *error);
  int32_t rank;          /* the most dimensions that a tensor may have: 256, as in DLPack, or fewer */
  dlb_bytes tensor;      /* of float32 */
  dlb_bytes copied;      /* a tensor whose elements are not aligned in a frame, or not in it */
  dlb_bytes strings;     /* "hello" and ", world!" */
  dlb_bytes media;       /* elements with formats of their own; NULL if it has none */
  dlb_bytes others[3];   /* values of other kinds; NULL ends them */
  uint64_t encodings[4]; /* options of encode: those that differ in what is written */
  uint64_t forms[2];     /* options of encode that write the vectors; 0 if they are written with the options that decode gets */
  struct {
    const char *what; /* a byte of data that another thread changes from one value to another; NULL ends them */
    dlb_bytes data;
    uint64_t options;
    size_t at;
    unsigned char from, to;
  } changes[2];
} test_format;

static const test_format all_formats[] = {
#define FORMAT(format, ...)                                                                             \
  [FORMAT_##format].name = #format, [FORMAT_##format].decode = dlb_##format##_decode, \
  [FORMAT_##format].encode = dlb_##format##_encode,
#define STREAM(format) [FORMAT_##format].decode_batch = dlb_##format##_decode_batch,
#define RULE(format) [FORMAT_##format].check = dlb_##format##_check,
    FORMATS(FORMAT) STREAMS(STREAM) RULES(RULE)
#undef FORMAT
#undef STREAM
#undef RULE

    [FORMAT_decthings].rank = 255,
    [FORMAT_decthings].tensor = BYTES("\x01\x02\x02\x03" "012345678901234567890123"),
    [FORMAT_decthings].copied = BYTES("\x05\x00" "1234"),
    [FORMAT_decthings].strings = BYTES("\x0b\x01\x02\x05hello\x08, world!"),
    [FORMAT_decthings].media = BYTES("\x0e\x01\x02\x05png\x01\x02\x04jpg\x03"),
    [FORMAT_decthings].others = {BYTES("\x0d\x00\x01")},
    [FORMAT_decthings].encodings = {DLB_DECTHINGS_DOC, DLB_DECTHINGS_PY004, DLB_DECTHINGS_RS015},
    [FORMAT_decthings].changes = {{"a length in a section", BYTES("\x0b\x01\x02\x04\x01" "a\x01" "b"), DLB_DECTHINGS_PY004, 6, 1, 200}},

    [FORMAT_tensorflow].rank = 254,
    [FORMAT_tensorflow].tensor = BYTES("\x08\x01\x12\x04\x12\x02\x08\x02\x22\x08" "12345678"),
    [FORMAT_tensorflow].copied = BYTES("\x08\x03\x12\x04\x12\x02\x08\x03\x3a\x01\x05"), /* three times the number 5 */
    [FORMAT_tensorflow].strings = BYTES("\x08\x07\x12\x04\x12\x02\x08\x02\x42\x05hello\x42\x08, world!"),
    [FORMAT_tensorflow].others = {BYTES("\x08\x08\x12\x00\x22\x08 REAL IM"), BYTES("\x08\x0b\x12\x04\x12\x02\x08\x03\x3a\x02\x05\x07"),
                                  BYTES("\x08\x1d\x12\x04\x12\x02\x08\x02\x22\x02\x0f\x07")},
    [FORMAT_tensorflow].forms = {DLB_TENSORFLOW_CONTENT, DLB_TENSORFLOW_FIELDS},
    [FORMAT_tensorflow].encodings = {0, DLB_TENSORFLOW_FIELDS, DLB_TENSORFLOW_PAD, DLB_TENSORFLOW_CONTENT},
    [FORMAT_tensorflow].changes =
        {{"a varint", BYTES("\x08\x03\x12\x04\x12\x02\x08\x02\x3a\x04\x81\x01\x82\x01"), 0, 13, 1, 0x81},
         {"a length in tensor_content", BYTES("\x08\x07\x12\x04\x12\x02\x08\x02\x22\x05\x01\x02" "abc"), 0, 11, 2, 200}},
};

#define EACH_FORMAT(f) for (const test_format *f = all_formats; f < all_formats + FORMAT_COUNT; f++)

#endif
