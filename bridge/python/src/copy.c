/* The copy kernels of the C core, compiled into the extension. */
#include <copy.c>
