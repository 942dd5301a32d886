//go:build !dlbridge_shared

/* Errors: their names, and how a function sets them. */
#include "capi.h"

#include <stdarg.h>
#include <stdio.h>

#define TEXT(x) #x
#define VERSION(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

const char *dlb_version(void) {
  return VERSION(DLB_VERSION_MAJOR, DLB_VERSION_MINOR, DLB_VERSION_PATCH);
}

/* A status of the core is also a code of the interface. */
_Static_assert((int)CORE_OK == DLB_OK && (int)CORE_ERR_NULL == DLB_ERROR_NULL &&
                   (int)CORE_ERR_VERSION == DLB_ERROR_VERSION &&
                   (int)CORE_ERR_DTYPE == DLB_ERROR_DTYPE &&
                   (int)CORE_ERR_DEVICE == DLB_ERROR_DEVICE &&
                   (int)CORE_ERR_LAYOUT == DLB_ERROR_LAYOUT &&
                   (int)CORE_ERR_OVERFLOW == DLB_ERROR_OVERFLOW &&
                   (int)CORE_ERR_READONLY == DLB_ERROR_READONLY &&
                   (int)CORE_ERR_UNALIGNED == DLB_ERROR_UNALIGNED &&
                   (int)CORE_ERR_MEMORY == DLB_ERROR_MEMORY,
               "dlbcore_status and DLB_ERROR_* have the same numbers");

static const char *const error_names[] = {
    [DLB_OK] = "ok", [DLB_ERROR_NULL] = "null", [DLB_ERROR_VERSION] = "version", [DLB_ERROR_DTYPE] = "dtype",
    [DLB_ERROR_DEVICE] = "device", [DLB_ERROR_LAYOUT] = "layout", [DLB_ERROR_OVERFLOW] = "overflow",
    [DLB_ERROR_READONLY] = "readonly", [DLB_ERROR_UNALIGNED] = "unaligned", [DLB_ERROR_MEMORY] = "memory",
    [DLB_ERROR_FORMAT] = "format", [DLB_ERROR_ARGUMENT] = "argument", [DLB_ERROR_FORKED] = "forked",
    [DLB_ERROR_INTERNAL] = "internal", [DLB_ERROR_ROOM] = "room", [DLB_ERROR_FUNCTION] = "function",
    [DLB_ERROR_SYSTEM] = "system", [DLB_ERROR_CLOSED] = "closed", [DLB_ERROR_METADATA] = "metadata",
};

const char *dlb_error_name(int32_t code) {
  return code >= 0 && (size_t)code < sizeof error_names / sizeof *error_names ? error_names[code] : "unknown";
}

int32_t dlbcapi_ok(dlb_error *error) {
  if (error != NULL) {
    error->code = DLB_OK;
    error->message[0] = '\0';
  }
  return DLB_OK;
}

int32_t dlbcapi_fail(dlb_error *error, int32_t code, const char *format, ...) {
  if (error != NULL) {
    va_list args;
    va_start(args, format);
    error->code = code;
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
  }
  return code;
}

int32_t dlbcapi_memory(const char *op, dlb_error *error) {
  return dlbcapi_fail(error, DLB_ERROR_MEMORY, "%s: out of memory", op);
}

int32_t dlbcapi_null(const char *op, const char *what, dlb_error *error) {
  return dlbcapi_fail(error, DLB_ERROR_NULL, "%s: %s is NULL", op, what);
}

int32_t dlbcapi_refuse(const char *op, const char *what, size_t index, const void *object, const char *why,
                       dlb_error *error) {
  char place[24] = "";
  if (index != NO_INDEX) snprintf(place, sizeof place, "[%zu]", index);
  return dlbcapi_fail(error, DLB_ERROR_ARGUMENT, "%s: %s%s at %p %s", op, what, place, object, why);
}

int32_t dlbcapi_clear(const char *op, void *out, size_t size, dlb_error *error) {
  if (out == NULL) return dlbcapi_null(op, "out", error);
  memset(out, 0, size);
  return DLB_OK;
}
