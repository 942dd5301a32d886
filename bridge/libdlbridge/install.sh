#!/bin/sh
# install.sh LIB PREFIX: copies the libraries from LIB and the headers to PREFIX, with what pkg-config and CMake need to
# find them there. The installed tree can be moved. If LIB has no libdlbridge, only libdlbridge_tensor is installed.
#
# dlpack.h goes into a folder of our own, never to where an upstream header lies. uninstall.sh removes all installed files.
set -eu
lib=${1:?usage: install.sh LIB PREFIX}
prefix=${2:?usage: install.sh LIB PREFIX}
include=$(cd "$(dirname "$0")/../../include" && pwd)
number() { sed -n "s/^#define DLB_VERSION_$1 //p" "$include/dlbridge.h"; }
major=$(number MAJOR)
version=$major.$(number MINOR).$(number PATCH)

umask 022
mkdir -p "$prefix/include/dlbridge/dlpack" "$prefix/lib/pkgconfig" "$prefix/lib/cmake/dlbridge"
install -m 644 "$include/dlbridge.h" "$include/dlbridge.hpp" "$prefix/include/dlbridge/"
mkdir -p "$prefix/share/dlbridge"
sh "$(dirname "$0")/suppressions.sh" > "$prefix/share/dlbridge/dlbridge.supp"
install -m 644 "$include/dlpack/dlpack.h" "$prefix/include/dlbridge/dlpack/"
for library in libdlbridge libdlbridge_tensor; do
  [ -e "$lib/$library.so.$version" ] || [ "$library" = libdlbridge_tensor ] || continue
  install -m 755 "$lib/$library.so.$version" "$prefix/lib/"
  ln -sf "$library.so.$version" "$prefix/lib/$library.so.$major"
  ln -sf "$library.so.$major" "$prefix/lib/$library.so"
done
install -m 644 "$lib/libdlbridge_tensor.a" "$prefix/lib/"

[ ! -e "$prefix/lib/libdlbridge.so.$version" ] || cat > "$prefix/lib/pkgconfig/dlbridge.pc" <<END
prefix=\${pcfiledir}/../..

Name: dlbridge
Description: tensors across C, Go and Python on one memory: DLPack and the tensor messages of ZIO
Version: $version
Cflags: -I\${prefix}/include/dlbridge
Libs: -L\${prefix}/lib -ldlbridge -ldlbridge_tensor
END

cat > "$prefix/lib/pkgconfig/dlbridge_tensor.pc" <<END
prefix=\${pcfiledir}/../..

Name: dlbridge_tensor
Description: the tensors of dlbridge in plain C, without Go: DLPack
Version: $version
Cflags: -I\${prefix}/include/dlbridge
Libs: -L\${prefix}/lib -ldlbridge_tensor
Libs.private: -lpthread -ldl -lm
END

cat > "$prefix/lib/cmake/dlbridge/dlbridge-config.cmake" <<END
get_filename_component(_dlbridge_prefix "\${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET dlbridge::tensor)
  add_library(dlbridge::tensor SHARED IMPORTED)
  set_target_properties(dlbridge::tensor PROPERTIES
    IMPORTED_LOCATION "\${_dlbridge_prefix}/lib/libdlbridge_tensor.so.$version"
    IMPORTED_SONAME "libdlbridge_tensor.so.$major"
    INTERFACE_INCLUDE_DIRECTORIES "\${_dlbridge_prefix}/include/dlbridge")
  add_library(dlbridge::tensor_static STATIC IMPORTED)
  set_target_properties(dlbridge::tensor_static PROPERTIES
    IMPORTED_LOCATION "\${_dlbridge_prefix}/lib/libdlbridge_tensor.a"
    INTERFACE_LINK_LIBRARIES "pthread;dl;m"
    INTERFACE_INCLUDE_DIRECTORIES "\${_dlbridge_prefix}/include/dlbridge")
  if(EXISTS "\${_dlbridge_prefix}/lib/libdlbridge.so.$version")
    add_library(dlbridge::dlbridge SHARED IMPORTED)
    set_target_properties(dlbridge::dlbridge PROPERTIES
      IMPORTED_LOCATION "\${_dlbridge_prefix}/lib/libdlbridge.so.$version"
      IMPORTED_SONAME "libdlbridge.so.$major"
      INTERFACE_LINK_LIBRARIES dlbridge::tensor)
  endif()
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
