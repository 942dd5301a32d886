//go:build ignore

/* tensor.c: the part of dlbridge that needs no Go, in one translation unit. It includes the C files whose first line is
 * `//go:build !dlbridge_shared`. Compiled as it is, it makes the static library, or an object file for any program:
 *
 *   cc -O2 -Iinclude -Idlpack/internal/core -Ibridge/capi -Ibridge/internal/segment -c bridge/libdlbridge/tensor.c
 *
 * Internal functions are static. The functions of dlbridge.h are hidden: a program or plugin that is linked with this
 * object does not export them, and has its own copy of the library. Two builds differ:
 *
 *   -DCORE_API=        libdlbridge_tensor.so, linked with -z nodelete as in tensor.sh. All functions are visible;
 *                      libdlbridge.so calls the internal ones.
 *   -DCORE_EXTENSION   the Python extension. Its own files call the internal functions, and files that they do not
 *                      call are left out. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#if !defined(CORE_API)
#define DLB_API __attribute__((visibility("hidden")))
#if !defined(CORE_EXTENSION)
#define CORE_API __attribute__((unused)) static
#define STAY_LOADED
#endif
#endif

/* These lines let a project with strict warnings compile this file. A local name in one file may be a type in
 * another, conversions of numbers are intended, and macros have empty arguments. */
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wpedantic"

#include "../../dlpack/internal/core/assign.c"
#include "../../dlpack/internal/core/block.c"
#include "../../dlpack/internal/core/checked.c"
#include "../../dlpack/internal/core/convert.c"
#include "../../dlpack/internal/core/copy.c"
#include "../../dlpack/internal/core/dense.c"
#include "../../dlpack/internal/core/export.c"
#include "../../dlpack/internal/core/layout.c"
#include "../../dlpack/internal/core/memory.c"
#include "../../dlpack/internal/core/share.c"
#include "../../dlpack/internal/core/validate.c"
#include "../capi/argument.c"
#include "../capi/dtype.c"
#include "../capi/error.c"
#include "../capi/hold.c"
#include "../capi/print.c"
#include "../capi/tensor.c"
#if !defined(CORE_EXTENSION)
#include "../capi/copies.c"
#include "../capi/counters.c"
#include "../capi/ledger.c"
#include "../capi/registry.c"
#include "../capi/shm.c"
#include "../capi/view.c"
#endif
#include "../internal/segment/discard.c"
#include "../internal/segment/handover.c"
#include "../internal/segment/offer.c"
#include "../internal/segment/rights.c"
#include "../internal/segment/segment.c"
#include "../internal/segment/transfer.c"

/* A plugin that contains this object stays loaded after dlclose, as the shared libraries do, because deleters of its
 * tensors may be called later and threads of dlb_shm_offer may run its code. With glibc, its link map gives
 * its name, because its path may be relative, or may name another file by now. musl unloads nothing. */
#if defined(STAY_LOADED)
#include <dlfcn.h>
#if defined(__GLIBC__)
#include <link.h>
#endif
__attribute__((constructor)) static void stay_loaded(void) {
  static char inside;
  Dl_info info;
#if defined(__GLIBC__)
  struct link_map *map = NULL;
  if (dladdr1(&inside, &info, (void **)&map, RTLD_DL_LINKMAP) && map != NULL && map->l_name[0] != '\0')
    dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
#else
  if (dladdr(&inside, &info) && info.dli_fname != NULL) dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
#endif
}
#endif
