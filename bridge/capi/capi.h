/* capi.h: what the files of this folder share. Nothing in it is exported from the library. */
#ifndef DLB_CAPI_H_
#define DLB_CAPI_H_

#include <dlbridge.h>

#include "core.h"

#define CAPI __attribute__((visibility("hidden")))

/* ---- errors ---------------------------------------------------------------------------------- */

/* Both return the code that they put into `error`, which may be NULL. */
CAPI int32_t capi_ok(dlb_error *error);
__attribute__((format(printf, 3, 4))) CAPI int32_t capi_fail(dlb_error *error, int32_t code,
                                                             const char *format, ...);

/* ---- holds: memory that a caller handed over ------------------------------------------------- */

/* A share of memory that release(ctx) gives back. NULL when there is no memory. */
CAPI core_share *capi_hold(void (*release)(void *ctx), void *ctx);
CAPI core_share *capi_hold_versioned(DLManagedTensorVersioned *managed);
/* Takes a hold back that nobody has shared: release is not called. NULL is allowed. */
CAPI void capi_unhold(core_share *hold);
/* Holds that have not been released. */
CAPI int64_t capi_held(void);

/* ---- checks ---------------------------------------------------------------------------------- */

/* Checks a managed tensor for the function `op`; `what` names the argument. */
CAPI int32_t capi_check(const char *op, const char *what, const DLManagedTensorVersioned *tensor,
                        core_extent *extent, dlb_error *error);

#endif
