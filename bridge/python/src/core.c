/* The C core of dlbridge, compiled into the extension. */
#include <block.c>
#include <export.c>
#include <memory.c>
#include <share.c>
#include <validate.c>
