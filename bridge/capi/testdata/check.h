/* check.h: checks that end the program loudly, and tensors to check with. */
#ifndef CHECK_H_
#define CHECK_H_

#include <dlbridge.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                  \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, __func__, #condition); \
      exit(1);                                                                            \
    }                                                                                     \
  } while (0)

#define CHECK_INT(want, got)                                                             \
  do {                                                                                   \
    int64_t want_ = (int64_t)(want), got_ = (int64_t)(got);                              \
    if (want_ != got_) {                                                                 \
      fprintf(stderr, "%s:%d: %s: %s = %" PRId64 ", want %" PRId64 "\n", __FILE__, __LINE__, \
              __func__, #got, got_, want_);                                              \
      exit(1);                                                                           \
    }                                                                                    \
  } while (0)

/* Calls with an error that starts out as garbage, and checks the code in both places. On success the
 * message is empty; otherwise it is not. */
#define CHECK_CODE(want, call)                                                              \
  do {                                                                                      \
    dlb_error error;                                                                        \
    memset(&error, 0xff, sizeof error);                                                     \
    int32_t got_ = (call);                                                                  \
    if (got_ != (want) || error.code != got_) {                                             \
      fprintf(stderr, "%s:%d: %s: %s gives %s (%.500s), want %s\n", __FILE__, __LINE__,     \
              __func__, #call, dlb_error_name(got_), got_ == error.code ? error.message : "?", \
              dlb_error_name(want));                                                        \
      exit(1);                                                                              \
    }                                                                                       \
    CHECK(memchr(error.message, 0, sizeof error.message) != NULL);                          \
    CHECK((error.message[0] == 0) == (got_ == DLB_OK));                                     \
  } while (0)

#define CHECK_OK(call) CHECK_CODE(DLB_OK, call)

/* Checks the code of an error, and that its message contains `text`. */
#define CHECK_TEXT(want, text, call)                                                             \
  do {                                                                                           \
    dlb_error error;                                                                             \
    memset(&error, 0xff, sizeof error);                                                          \
    int32_t got_ = (call);                                                                       \
    if (got_ != (want) || strstr(error.message, text) == NULL) {                                 \
      fprintf(stderr, "%s:%d: %s: \"%.500s\"\n", __FILE__, __LINE__, #call, error.message);      \
      exit(1);                                                                                   \
    }                                                                                            \
  } while (0)

/* Every test ends with the counters at zero, where they began. */
static inline void check_nothing_is_left(const char *test) {
  dlb_counters now;
  memset(&now, 0xff, sizeof now);
  dlb_counters_read(&now, sizeof now);
  if (now.exports != 0 || now.imports != 0 || now.messages != 0 || now.elements != 0 || now.double_deletes != 0 ||
      now.pinned_bytes != 0 || now.files != 0) {
    fprintf(stderr, "%s leaves %" PRId64 " exports, %" PRId64 " imports, %" PRId64 " messages, %" PRId64
            " elements, %" PRIu64 " double deletes, %" PRId64 " pinned bytes, %" PRId64 " files\n", test, now.exports, now.imports,
            now.messages, now.elements, now.double_deletes, now.pinned_bytes, now.files);
    exit(1);
  }
}

static const DLDataType FLOAT32 = {kDLFloat, 32, 1};
static const DLDataType UINT8 = {kDLUInt, 8, 1};

/* Counts the calls of the release or deleter that is handed its address. */
static inline void count_release(void *ctx) { __atomic_fetch_add((int *)ctx, 1, __ATOMIC_RELAXED); }

static inline void count_versioned(DLManagedTensorVersioned *self) { count_release(self->manager_ctx); }

static inline void count_legacy(DLManagedTensor *self) { count_release(self->manager_ctx); }

/* A producer's tensor of 2 by 3 float32 over `data`, whose deleter counts in *deletes. */
static inline DLManagedTensorVersioned made_by_producer(float *data, int64_t *shape, int *deletes) {
  DLManagedTensorVersioned made;
  memset(&made, 0, sizeof made);
  made.version.major = DLPACK_MAJOR_VERSION;
  made.version.minor = DLPACK_MINOR_VERSION;
  made.manager_ctx = deletes;
  made.deleter = count_versioned;
  made.dl_tensor.data = data;
  made.dl_tensor.device.device_type = kDLCPU;
  made.dl_tensor.ndim = 2;
  made.dl_tensor.dtype = FLOAT32;
  made.dl_tensor.shape = shape;
  return made;
}

#endif
