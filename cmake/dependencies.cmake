# What is taken from the distribution; docs/dependencies.md says why each. dt_llvm is apart: only dtc may link it.
find_package(Threads REQUIRED)
find_package(LLVM ${DT_LLVM_VERSION} REQUIRED CONFIG)

foreach(library cjson minizip z nettle cmocka)
    find_library(DT_LIBRARY_${library} ${library} REQUIRED)
endforeach()

add_library(dt_dependencies INTERFACE)
target_link_libraries(dt_dependencies INTERFACE ${DT_LIBRARY_cjson} ${DT_LIBRARY_minizip} ${DT_LIBRARY_z} ${DT_LIBRARY_nettle} Threads::Threads m)

add_library(dt_llvm INTERFACE)
target_include_directories(dt_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_link_libraries(dt_llvm INTERFACE LLVM)
