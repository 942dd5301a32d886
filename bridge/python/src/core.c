/* The C core of dlbridge, compiled into the extension. */
#include <core.c>
