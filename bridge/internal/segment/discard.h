/* Closes descriptors that have come from other processes, without waiting. To close the last descriptor of what is no segment takes as long
 * as the other process likes: it may be a TCP socket with SO_LINGER, or a file of FUSE. */
#ifndef DLBRIDGE_SEGMENT_DISCARD_H
#define DLBRIDGE_SEGMENT_DISCARD_H

#include "core.h"

/* Closes a descriptor: at once if it is that of a file in memory, and by a thread otherwise. */
CORE_API void dlbsegment_discard(int fd);

/* Ends a Unix socket in both directions. Reports whether something unread is left in it: it may carry descriptors, which the kernel
 * closes with the socket. */
CORE_API int dlbsegment_hang_up(int socket);

/* Ends a Unix socket, and closes it: at once if all was read, and by a thread otherwise. */
CORE_API void dlbsegment_discard_socket(int socket);

#endif
