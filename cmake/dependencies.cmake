# What is taken from the distribution; docs/dependencies.md says why each. dt_llvm is apart: only dtc may link it.
#
# DT_STATIC (the preset `portable`): nothing of the distribution is left but glibc. cJSON, which Debian has as a shared library alone, and nettle,
# whose licence asks that it can be exchanged, are looked for in ../lib beside the programs, where scripts/portable.sh puts them.
find_package(Threads REQUIRED)
find_package(LLVM ${DT_LLVM_VERSION} REQUIRED CONFIG)

function(dt_find_static library)
    find_library(DT_LIBRARY_${library} NAMES lib${library}.a REQUIRED)
endfunction()
if(DT_STATIC)
    dt_find_static(z)
    dt_find_static(minizip)
    dt_find_static(zstd)
endif()
foreach(library cjson minizip z nettle cmocka)
    find_library(DT_LIBRARY_${library} ${library} REQUIRED)
endforeach()

add_library(dt_dependencies INTERFACE)
target_link_libraries(dt_dependencies INTERFACE ${DT_LIBRARY_cjson} ${DT_LIBRARY_minizip} ${DT_LIBRARY_z} ${DT_LIBRARY_nettle} Threads::Threads m)

add_library(dt_llvm INTERFACE)
target_include_directories(dt_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
if(DT_STATIC)
    # LLVM's own list for its lowest library names shared ones, and Z3, of which these parts have no use.
    set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES "LLVMDemangle;${DT_LIBRARY_z};${DT_LIBRARY_zstd};dl;m")
    target_link_libraries(dt_llvm INTERFACE LLVMPasses LLVMX86CodeGen LLVMX86Desc LLVMX86Info LLVMTarget LLVMCore -l:libstdc++.a -static-libgcc)
    add_compile_options(-ffunction-sections -fdata-sections)
    add_link_options(-Wl,--gc-sections)
    set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
    set(CMAKE_BUILD_RPATH "$ORIGIN/../lib")
else()
    target_link_libraries(dt_llvm INTERFACE LLVM)
endif()
