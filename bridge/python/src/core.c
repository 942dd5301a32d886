/* core.c: the C core, and what else the extension has in common with libdlbridge_tensor. */
#define CORE_EXTENSION
#include <libdlbridge/tensor.c>
