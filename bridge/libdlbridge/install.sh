#!/bin/sh
# install.sh LIB PREFIX: copies the shared library from LIB and the headers to PREFIX, with what
# pkg-config and CMake need to find them there. The installed tree can be moved.
#
# dlpack.h goes into a folder of our own, never to where an upstream header lies. uninstall.sh removes all of it.
set -eu
lib=${1:?usage: install.sh LIB PREFIX}
prefix=${2:?usage: install.sh LIB PREFIX}
include=$(cd "$(dirname "$0")/../../include" && pwd)
number() { sed -n "s/^#define DLB_VERSION_$1 //p" "$include/dlbridge.h"; }
major=$(number MAJOR)
version=$major.$(number MINOR).$(number PATCH)

umask 022
mkdir -p "$prefix/include/dlbridge/dlpack" "$prefix/lib/pkgconfig" "$prefix/lib/cmake/dlbridge"
install -m 644 "$include/dlbridge.h" "$prefix/include/dlbridge/"
install -m 644 "$include/dlpack/dlpack.h" "$prefix/include/dlbridge/dlpack/"
install -m 755 "$lib/libdlbridge.so.$version" "$prefix/lib/"
ln -sf "libdlbridge.so.$version" "$prefix/lib/libdlbridge.so.$major"
ln -sf "libdlbridge.so.$major" "$prefix/lib/libdlbridge.so"

cat > "$prefix/lib/pkgconfig/dlbridge.pc" <<END
prefix=\${pcfiledir}/../..

Name: dlbridge
Description: tensors across C, Go and Python on one memory: DLPack and the tensor messages of ZIO
Version: $version
Cflags: -I\${prefix}/include/dlbridge
Libs: -L\${prefix}/lib -ldlbridge
END

cat > "$prefix/lib/cmake/dlbridge/dlbridge-config.cmake" <<END
get_filename_component(_dlbridge_prefix "\${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET dlbridge::dlbridge)
  add_library(dlbridge::dlbridge SHARED IMPORTED)
  set_target_properties(dlbridge::dlbridge PROPERTIES
    IMPORTED_LOCATION "\${_dlbridge_prefix}/lib/libdlbridge.so.$version"
    IMPORTED_SONAME "libdlbridge.so.$major"
    INTERFACE_INCLUDE_DIRECTORIES "\${_dlbridge_prefix}/include/dlbridge")
endif()
unset(_dlbridge_prefix)
END

cat > "$prefix/lib/cmake/dlbridge/dlbridge-config-version.cmake" <<END
set(PACKAGE_VERSION "$version")
if(PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION OR NOT PACKAGE_FIND_VERSION_MAJOR EQUAL "$major")
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
END
